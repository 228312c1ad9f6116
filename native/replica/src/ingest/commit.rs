//! A commit's two halves: what is listed is what is staged and on disk; then it becomes part of the logs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use pybroker_model::{TimestampType, TopicIdPartition};
use pybroker_storage::{
    AttachNotice, Attached, Listing, Log, LogDir, PlannedAttempt, StagedTotals,
};

use crate::open_ingests::{COMMITTING, Ingest, OPEN};
use crate::{FetchFrom, IngestError, IngestName, Partition, PartitionError, Replicas};

/// What a commit lists of one attempt for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The partition.
    pub partition: i32,
    /// The writer.
    pub writer: i32,
    /// Its attempt that counts.
    pub attempt: i64,
    /// What it says it staged.
    pub totals: StagedTotals,
}

/// For whom a commit is prepared here.
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// Number of the plan, another one for each time that the commit is prepared; 0 of a broker that is alone.
    pub plan: u32,
    /// Whether this broker leads the listed partitions, and is to bring the other holders what they lack.
    pub leads: bool,
    /// By partition, the brokers that shall have it on disk; none of a broker that is alone.
    pub holders: HashMap<i32, Arc<[i32]>>,
}

impl Replicas {
    /// The first half of a commit: no append takes effect any more; what is listed is compared with what is staged,
    /// brought to disk, and its order written down. Answers rows and bytes by partition. It may be prepared again, under
    /// another plan. Blocks on the disk, and of a leader on the other holders.
    ///
    /// # Errors
    /// `Mismatch` with the first difference, and as [`Replicas::stage_records`]; on a broker that is alone the ingest is
    /// open again then.
    pub fn prepare_ingest(
        &self,
        name: &IngestName,
        epoch: i32,
        preparation: &Preparation,
        listed: &[Listed],
        now_ms: i64,
    ) -> Result<Vec<(i32, i64, u64)>, IngestError> {
        let alone = preparation.plan == 0;
        let ingest = if alone {
            self.ingests.get(name, epoch)?
        } else {
            self.ingests.copied(name, epoch)?
        };
        {
            let _gate = ingest.gate.write();
            let closed = ingest.state.compare_exchange(
                OPEN,
                COMMITTING,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match closed {
                Ok(_) => {}
                Err(COMMITTING) if !alone => {}
                Err(COMMITTING) => return Err(IngestError::Committing),
                Err(_) => return Err(IngestError::Unknown),
            }
        }
        let prepared = self.prepare(&ingest, preparation, listed, now_ms);
        if alone && prepared.is_err() {
            ingest.sealed.lock().clear();
            ingest.state.store(OPEN, Ordering::Release);
        }
        prepared
    }

    fn prepare(
        &self,
        ingest: &Ingest,
        preparation: &Preparation,
        listed: &[Listed],
        now_ms: i64,
    ) -> Result<Vec<(i32, i64, u64)>, IngestError> {
        let mut listed = listed.to_vec();
        listed.sort_unstable_by_key(|one| (one.partition, one.writer));
        let mut prepared = Vec::new();
        let mut listings: Vec<(Arc<LogDir>, Vec<Listing>)> = Vec::new();
        for part in listed.chunk_by(|a, b| a.partition == b.partition) {
            let tip = TopicIdPartition {
                topic_id: ingest.new.name.topic_id,
                partition: part[0].partition,
            };
            let partition = self.partition(tip).ok_or_else(|| self.absent(tip))?;
            let alone = preparation.plan == 0;
            if alone || preparation.leads {
                partition.check_led()?;
            }
            let holders = preparation.holders.get(&tip.partition);
            let mut attempts = Vec::new();
            let (mut rows, mut bytes) = (0, 0);
            for one in part {
                let checked = self.check_listed(ingest, &partition, one, now_ms)?;
                if preparation.leads && checked.is_some() {
                    let attempt = self.attempt_of(ingest, &partition, one.writer, one.attempt)?;
                    for &broker in holders.iter().flat_map(|all| all.iter()) {
                        if broker != partition.broker_id() {
                            let rows = one.totals.rows;
                            // Asked anew: a power cut may have taken what was there.
                            attempt.copied.lock().remove(&broker);
                            self.bring(ingest, &partition, &attempt, rows, broker)?;
                        }
                    }
                }
                rows += one.totals.rows;
                bytes += one.totals.bytes;
                attempts.extend(checked);
            }
            if attempts.is_empty() {
                continue;
            }
            let dir = partition.log_dir().ok_or(PartitionError::NotLeader)?;
            let place = dir.staged_partition(tip, &ingest.new.directory);
            let listing = Listing {
                place: place.with_plan(preparation.plan),
                holders: holders.cloned().unwrap_or_default(),
                attempts,
            };
            match listings.iter_mut().find(|(one, _)| Arc::ptr_eq(one, dir)) {
                Some((_, of_dir)) => of_dir.push(listing),
                None => listings.push((Arc::clone(dir), vec![listing])),
            }
            prepared.push((tip.partition, rows, bytes));
        }
        // From here on nothing is added; what was is in the files that the plan is compared with.
        let listed = listed
            .iter()
            .map(|one| (one.partition, one.writer, one.attempt));
        ingest.sealed.lock().extend(listed);
        // Whoever had not seen that is through.
        drop(ingest.gate.write());
        for (dir, of_dir) in &listings {
            dir.seal_partitions(of_dir)?;
        }
        Ok(prepared)
    }

    /// What a commit is told that lists a partition which is not hosted here. A client may come again for one that is
    /// led elsewhere, or lies on a disk that is gone; for one that the topic never had it must not.
    fn absent(&self, tip: TopicIdPartition) -> IngestError {
        let hosted = self.snapshot().topic(tip.topic_id).is_some();
        if tip.partition < 0 || (hosted && !self.dirs.any_offline()) {
            return IngestError::Mismatch(format!(
                "partition {} is listed, and the topic has no such partition",
                tip.partition
            ));
        }
        PartitionError::NotLeader.into()
    }

    fn check_listed(
        &self,
        ingest: &Ingest,
        partition: &Partition,
        one: &Listed,
        now_ms: i64,
    ) -> Result<Option<(PlannedAttempt, Arc<Log>)>, IngestError> {
        let known = ingest
            .attempts
            .lock()
            .contains_key(&(one.partition, one.writer, one.attempt));
        let dir = partition.log_dir().ok_or(PartitionError::NotLeader)?;
        let place = dir.staged_partition(partition.tip(), &ingest.new.directory);
        let found = if known || dir.has_staged(&place, one.writer, one.attempt) {
            let attempt = self.attempt_of(ingest, partition, one.writer, one.attempt)?;
            let mut staged = attempt.staged.lock();
            let staged = attempt.opened(&mut staged, &ingest.new.config, &self.ingests, now_ms)?;
            Some((staged.totals, Arc::clone(&staged.log)))
        } else {
            None
        };
        let totals = found
            .as_ref()
            .map_or(StagedTotals::default(), |(totals, _)| *totals);
        if totals != one.totals {
            return Err(IngestError::Mismatch(format!(
                "partition {}, writer {}, attempt {}: staged are {} records, {} bytes, checksum {:08x}; \
                 listed were {} records, {} bytes, checksum {:08x}",
                one.partition,
                one.writer,
                one.attempt,
                totals.rows,
                totals.bytes,
                totals.crc,
                one.totals.rows,
                one.totals.bytes,
                one.totals.crc,
            )));
        }
        Ok(found
            .filter(|(totals, _)| totals.rows > 0)
            .map(|(totals, log)| {
                let planned = PlannedAttempt {
                    writer: one.writer,
                    attempt: one.attempt,
                    rows: totals.rows,
                    bytes: totals.bytes,
                };
                (planned, log)
            }))
    }

    /// The commit was not decided after all: appends may go on.
    pub fn reopen_ingest(&self, name: &IngestName, epoch: i32) {
        let found = self.ingests.open.read().get(name).cloned();
        if let Some(ingest) = found.filter(|ingest| ingest.new.epoch == epoch) {
            ingest.sealed.lock().clear();
            let _ = ingest.state.compare_exchange(
                COMMITTING,
                OPEN,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// The second half of a commit, for one partition: what was listed becomes part of its log. Once only, however
    /// often it is called, whatever crash lies between, and whoever led before. `plan`: the one that was decided.
    /// `timestamps` as the ingest began with. Gives where, and whether it is committed: below the high watermark. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// [`PartitionError`]; it can be tried again.
    pub fn attach_ingest(
        &self,
        tip: TopicIdPartition,
        directory: &str,
        plan: u32,
        timestamps: TimestampType,
        now_ms: i64,
    ) -> Result<(Attached, bool), PartitionError> {
        let partition = self.partition(tip).ok_or(PartitionError::NotLeader)?;
        let attached = partition.attach(
            directory,
            plan,
            timestamps,
            now_ms,
            self.ingests.quota.copy_bytes_max(),
        )?;
        if !attached.repeated {
            self.ingests.commits.fetch_add(1, Ordering::Relaxed);
        }
        let committed = partition.high_watermark() >= attached.end_offset;
        Ok((attached, committed))
    }

    /// What a follower does when the leader's answer names an attach: see [`Partition::attach_fetched`].
    ///
    /// # Errors
    /// As there.
    pub fn attach_fetched(
        &self,
        tip: TopicIdPartition,
        asked: &FetchFrom,
        told: &AttachNotice,
        now_ms: i64,
    ) -> Result<i64, PartitionError> {
        let partition = self.partition(tip).ok_or(PartitionError::NotLeader)?;
        let copy_bytes_max = self.ingests.quota.copy_bytes_max();
        partition.attach_fetched(asked, told, now_ms, copy_bytes_max)
    }
}
