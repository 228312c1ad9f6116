//! The two steps of a commit. Prepare checks that the listed records are staged, and syncs them. Attach makes them part
//! of the logs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use pybroker_model::{TimestampType, TopicIdPartition};
use pybroker_storage::{
    AttachNotice, AttachResult, Listing, Log, LogDir, PlannedAttempt, StagedTotals,
};

use crate::open_ingests::{COMMITTING, Ingest, OPEN};
use crate::{FetchFrom, IngestError, IngestName, Partition, PartitionError, Replicas};

/// One attempt for one partition, as a commit lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitEntry {
    /// Partition index.
    pub partition: i32,
    /// Id of the writer.
    pub writer: i32,
    /// The writer's attempt whose records the commit includes.
    pub attempt: i64,
    /// Totals that the writer claims to have staged.
    pub totals: StagedTotals,
}

/// Parameters of a prepare on this broker.
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// Number of the plan. Each prepare of the commit has its own number. On a broker without peers it is 0.
    pub plan: u32,
    /// Whether this broker leads the listed partitions and copies missing records to the other holders.
    pub leads: bool,
    /// Brokers that must have each partition on disk; empty on a broker without peers.
    pub holders: HashMap<i32, Arc<[i32]>>,
}

impl Replicas {
    /// Prepare a commit: stop appends, compare the listed records with the staged ones, sync the staged ones, and write
    /// the plan that lists them in order. Return rows and bytes by partition. A commit can be prepared again under
    /// another plan. Blocks on the disk, and on the leader also on the other holders.
    ///
    /// # Errors
    /// `Mismatch` with the first difference, and the errors of [`Replicas::stage_records`]. On a broker without peers,
    /// an error reopens the ingest for appends.
    pub fn prepare_ingest(
        &self,
        name: &IngestName,
        epoch: i32,
        preparation: &Preparation,
        listed: &[CommitEntry],
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
        listed: &[CommitEntry],
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
                            // Ask the broker again how many records it has, because a power loss may have removed its
                            // copy.
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
        // Seal these attempts: the plan lists their files, so no append may add to them.
        let listed = listed
            .iter()
            .map(|one| (one.partition, one.writer, one.attempt));
        ingest.sealed.lock().extend(listed);
        // Wait for running appends that checked before the attempts were sealed.
        drop(ingest.gate.write());
        for (dir, of_dir) in &listings {
            dir.seal_partitions(of_dir)?;
        }
        Ok(prepared)
    }

    /// Return the error for a commit that lists a partition that this broker does not host. The client may retry if
    /// another broker leads the partition or its disk is offline, but not if the topic has no such partition.
    fn absent(&self, tip: TopicIdPartition) -> IngestError {
        let hosted = self.snapshot().topic(tip.topic_id).is_some();
        if tip.partition < 0 || (hosted && !self.dirs.any_offline()) {
            return IngestError::Mismatch(format!("the topic has no partition {}", tip.partition));
        }
        PartitionError::NotLeader.into()
    }

    fn check_listed(
        &self,
        ingest: &Ingest,
        partition: &Partition,
        one: &CommitEntry,
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
                "partition {}, writer {}, attempt {}: staged {} records, {} bytes, checksum {:08x}, but the request \
                 lists {} records, {} bytes, checksum {:08x}",
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

    /// Open the ingest to appends again, because the control plane has not decided the commit.
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

    /// Complete a commit for one partition: append the records that the plan numbered `plan` lists to the partition's
    /// log. Idempotent: repeated calls, crashes and leader changes attach the records only once. `timestamps` is the
    /// topic's timestamp type when the ingest began. Return the offsets, and whether they are below the high watermark.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`PartitionError`]; the caller can retry.
    pub fn attach_ingest(
        &self,
        tip: TopicIdPartition,
        directory: &str,
        plan: u32,
        timestamps: TimestampType,
        now_ms: i64,
    ) -> Result<(AttachResult, bool), PartitionError> {
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

    /// Attach staged records on a follower, at the offsets in the leader's fetch response. See
    /// [`Partition::attach_fetched`].
    ///
    /// # Errors
    /// See [`Partition::attach_fetched`].
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
