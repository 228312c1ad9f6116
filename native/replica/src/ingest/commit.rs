//! A commit's two halves: what is listed is what is staged and on disk; then it becomes part of the logs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pybroker_model::{TimestampType, TopicIdPartition};
use pybroker_storage::{Attached, Listing, Log, LogDir, PlannedAttempt, StagedTotals};

use crate::open_ingests::{COMMITTING, Ingest, OPEN};
use crate::{IngestError, IngestName, Partition, PartitionError, Replicas};

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

impl Replicas {
    /// The first half of a commit: no append takes effect any more; what is listed is compared with what is staged,
    /// brought to disk, and its order written down. Answers rows and bytes by partition. Blocks on the disk.
    ///
    /// # Errors
    /// `Mismatch` with the first difference, and as [`Replicas::stage_records`]; the ingest is then open again.
    pub fn prepare_ingest(
        &self,
        name: &IngestName,
        epoch: i32,
        listed: &[Listed],
        now_ms: i64,
    ) -> Result<Vec<(i32, i64, u64)>, IngestError> {
        let ingest = self.ingests.get(name, epoch)?;
        {
            let _gate = ingest.gate.write();
            let closed = ingest.state.compare_exchange(
                OPEN,
                COMMITTING,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if closed.is_err() {
                return Err(IngestError::Committing);
            }
        }
        let prepared = self.prepare(&ingest, listed, now_ms);
        if prepared.is_err() {
            ingest.state.store(OPEN, Ordering::Release);
        }
        prepared
    }

    fn prepare(
        &self,
        ingest: &Ingest,
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
            partition.check_led()?;
            let mut attempts = Vec::new();
            let (mut rows, mut bytes) = (0, 0);
            for one in part {
                let checked = self.check_listed(ingest, &partition, one, now_ms)?;
                rows += one.totals.rows;
                bytes += one.totals.bytes;
                attempts.extend(checked);
            }
            if attempts.is_empty() {
                continue;
            }
            let dir = partition.log_dir().ok_or(PartitionError::NotLeader)?;
            let place = dir.staged_partition(tip, &ingest.new.directory);
            let listing = Listing { place, attempts };
            match listings.iter_mut().find(|(one, _)| Arc::ptr_eq(one, dir)) {
                Some((_, of_dir)) => of_dir.push(listing),
                None => listings.push((Arc::clone(dir), vec![listing])),
            }
            prepared.push((tip.partition, rows, bytes));
        }
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
            let _ = ingest.state.compare_exchange(
                COMMITTING,
                OPEN,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// The second half of a commit, for one partition: what was listed becomes part of its log. Once only, however
    /// often it is called and whatever crash lies between. `timestamps` as the ingest began with. Blocks on the disk.
    ///
    /// # Errors
    /// [`PartitionError`]; it can be tried again.
    pub fn attach_ingest(
        &self,
        tip: TopicIdPartition,
        directory: &str,
        timestamps: TimestampType,
        now_ms: i64,
    ) -> Result<Attached, PartitionError> {
        let partition = self.partition(tip).ok_or(PartitionError::NotLeader)?;
        let attached = partition.attach(
            directory,
            timestamps,
            now_ms,
            self.ingests.quota.copy_bytes_max(),
        )?;
        if !attached.repeated {
            self.ingests.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(attached)
    }
}
