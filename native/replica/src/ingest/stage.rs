//! Appends to a staged ingest: the records that one attempt of a task sends for one partition. They are validated as in
//! Produce.

use pybroker_model::{
    BatchError, BatchHeader, CompressionType, ProduceRules, TimestampType, validate_produce,
};
use pybroker_storage::{AppendError, AppendOrigin, StorageError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLockReadGuard;

use crate::open_ingests::{Attempt, Ingest, StagedLog, too_many_attempts};
use crate::{IngestError, IngestName, NewIngest, Partition, PartitionError, Replicas};

/// Number of unflushed bytes of one attempt and partition after which the staging thread syncs them. The commit then
/// has little left to sync, and syncs of other producers wait only for a few such chunks.
const FLUSH_BYTES: u64 = 4 << 20;
/// If all ingests have more attempts than this, each append requests a flush, because an unflushed log keeps its file
/// open. If more logs than this wait for the flusher, the append flushes by itself.
const UNFLUSHED_FILES_MAX: usize = 512;
/// Largest number of records in one attempt.
const ROWS_MAX: i64 = 1 << 48;

impl Replicas {
    /// Stage whole batches of one attempt for one partition; return the attempt's number of staged records. Batches
    /// that are already staged are skipped: a repeated request stages nothing twice. On return, every in-sync replica
    /// has staged them. Blocks on the disk and on other brokers.
    ///
    /// # Errors
    /// [`IngestError`]; batches before a faulty one are staged.
    #[expect(
        clippy::too_many_arguments,
        reason = "one for each field of the request"
    )]
    pub fn stage_records(
        &self,
        name: &IngestName,
        epoch: i32,
        writer: i32,
        attempt: i64,
        partition: &Partition,
        sequence: i64,
        records: &mut [u8],
        now_ms: i64,
    ) -> Result<i64, IngestError> {
        let ingest = self.ingests.get(name, epoch)?;
        let gate = ingest.gate.read();
        // Check again after taking the gate, because a commit may have closed the ingest meanwhile.
        self.ingests.get(name, epoch)?;
        if records.is_empty() {
            return Err(BatchError::invalid("no record batch").into());
        }
        // This call fails if there are too few in-sync replicas. Nothing is staged then.
        partition.in_sync_followers()?;
        let led = partition.hold_led()?;
        let attempt = self.attempt_of(&ingest, partition, writer, attempt)?;
        let rows = self.stage_in(&ingest, &attempt, sequence, records, led, now_ms)?;
        drop(gate);
        self.bring_to_followers(&ingest, partition, &attempt, rows)?;
        Ok(rows)
    }

    /// Stage records on a follower, at the request of the partition's leader. This is allowed during a commit. Without
    /// records, only return how many are staged.
    ///
    /// # Errors
    /// As [`Replicas::stage_records`].
    #[expect(
        clippy::too_many_arguments,
        reason = "one for each field of the request"
    )]
    pub fn stage_copy(
        &self,
        name: &IngestName,
        epoch: i32,
        writer: i32,
        attempt: i64,
        partition: &Partition,
        sequence: i64,
        records: &mut [u8],
        now_ms: i64,
    ) -> Result<i64, IngestError> {
        let ingest = self.ingests.copied(name, epoch)?;
        let _gate = ingest.gate.read();
        self.ingests.copied(name, epoch)?;
        let hosted = partition.hold_hosted()?;
        let attempt = self.attempt_of(&ingest, partition, writer, attempt)?;
        if records.is_empty() && !attempt.has_staged() {
            return Ok(0);
        }
        let sealed = {
            let sealed = ingest.sealed.lock();
            sealed.contains(&(partition.tip().partition, attempt.writer, attempt.attempt))
        };
        let records = if sealed { &mut [] } else { records };
        self.stage_in(&ingest, &attempt, sequence, records, hosted, now_ms)
    }

    fn stage_in(
        &self,
        ingest: &Ingest,
        attempt: &Attempt,
        sequence: i64,
        records: &mut [u8],
        held: RwLockReadGuard<'_, ()>,
        now_ms: i64,
    ) -> Result<i64, IngestError> {
        let mut staged = attempt.staged.lock();
        let staged = attempt.opened(&mut staged, &ingest.new.config, &self.ingests, now_ms)?;
        // The attempt's directory exists now, so the partition cannot move to another log directory.
        drop(held);
        if records.is_empty() {
            return Ok(staged.totals.rows);
        }
        if sequence < 0 || sequence > staged.totals.rows {
            return Err(IngestError::Gap {
                got: sequence,
                next: staged.totals.rows,
            });
        }
        let done = self.stage_batches(ingest, attempt, staged, sequence, records, now_ms);
        // Flush even after a refused batch: the batches before it are staged, and their file stays open until it is
        // synced.
        let flushed = self.flush_in_time(attempt, staged);
        done?;
        flushed?;
        ingest.touched_ms.store(now_ms, Ordering::Relaxed);
        Ok(staged.totals.rows)
    }

    /// Return the attempt, in the partition's log directory.
    ///
    /// # Errors
    /// `Mismatch` if the attempt is staged in another log directory, `Throttled` if there are too many attempts.
    pub(super) fn attempt_of(
        &self,
        ingest: &Ingest,
        partition: &Partition,
        writer: i32,
        attempt: i64,
    ) -> Result<Arc<Attempt>, IngestError> {
        let tip = partition.tip();
        let key = (tip.partition, writer, attempt);
        let mut attempts = ingest.attempts.lock();
        let dir = partition.log_dir().ok_or(PartitionError::NotLeader)?;
        match attempts.get(&key) {
            Some(known) if Arc::ptr_eq(&known.dir, dir) => return Ok(Arc::clone(known)),
            Some(known) if known.has_staged() => {
                return Err(IngestError::Mismatch(format!(
                    "partition {} has moved to another log directory since the ingest began. Begin the ingest again",
                    tip.partition
                )));
            }
            // The attempt has no directory yet, and the partition has moved: start the attempt in the new log
            // directory.
            Some(_) => {}
            None => {
                let open = &self.ingests.attempts;
                if open.fetch_add(1, Ordering::Relaxed) >= self.ingests.quota.attempts_max() {
                    open.fetch_sub(1, Ordering::Relaxed);
                    return Err(too_many_attempts());
                }
            }
        }
        let place = dir.staged_partition(tip, &ingest.new.directory);
        let new = Arc::new(Attempt::new(Arc::clone(dir), place, writer, attempt, 0));
        attempts.insert(key, Arc::clone(&new));
        Ok(new)
    }

    /// Stage the batches in order, up to the first refused one.
    fn stage_batches(
        &self,
        ingest: &Ingest,
        attempt: &Attempt,
        staged: &mut StagedLog,
        sequence: i64,
        records: &mut [u8],
        now_ms: i64,
    ) -> Result<(), IngestError> {
        let rules = ingest.new.staging_rules(now_ms);
        let required = match ingest.new.config.compression {
            CompressionType::Producer => None,
            CompressionType::Recompress(codec, _) => Some(codec),
        };
        let mut next = sequence;
        let mut position = 0;
        while position < records.len() {
            let rest = &mut records[position..];
            let size = batch_size(rest)?;
            let header = BatchHeader::parse(rest)?;
            let rows = i64::from(header.last_offset_delta).saturating_add(1);
            position += size;
            if rows > 0 && next + rows <= staged.totals.rows {
                // An earlier request staged these records, but its response was lost.
                next += rows;
                continue;
            }
            if next != staged.totals.rows {
                return Err(IngestError::Gap {
                    got: next,
                    next: staged.totals.rows,
                });
            }
            if header.has_producer_id() {
                return Err(BatchError::invalid("staged batches have no producer id").into());
            }
            let valid = validate_produce(&mut rest[..size], &rules)?;
            if required.is_some_and(|codec| header.codec() != Ok(codec)) {
                return Err(BatchError::UnsupportedCompression(header.attributes as u8 & 7).into());
            }
            if valid.first().crc != header.crc {
                return Err(BatchError::invalid(
                    "the largest timestamp of the batch is not that of its records",
                )
                .into());
            }
            if staged.totals.rows > ROWS_MAX {
                return Err(BatchError::invalid("too many records in one attempt").into());
            }
            let appended = staged
                .log
                .append_as_leader(valid, -1, AppendOrigin::Client, now_ms);
            if let Err(error) = appended {
                if !matches!(error, AppendError::Storage(StorageError::Full { .. })) {
                    attempt.stale.store(true, Ordering::Release);
                }
                return Err(match error {
                    AppendError::Storage(error) => error.into(),
                    other => IngestError::Partition(other.into()),
                });
            }
            staged.totals.add(rows, size as u64, header.crc);
            attempt.rows.store(staged.totals.rows, Ordering::Relaxed);
            attempt.bytes.store(staged.totals.bytes, Ordering::Relaxed);
            self.ingests
                .staged_bytes
                .fetch_add(size as u64, Ordering::Relaxed);
            self.ingests
                .appended_bytes
                .fetch_add(size as u64, Ordering::Relaxed);
            staged.unflushed += size as u64;
            next += rows;
        }
        Ok(())
    }

    /// Sync the attempt, or request a sync, once it has many unflushed bytes or there are many attempts.
    fn flush_in_time(&self, attempt: &Attempt, staged: &mut StagedLog) -> Result<(), IngestError> {
        if staged.unflushed >= FLUSH_BYTES {
            staged.unflushed = 0;
            staged.log.flush()?;
        } else if self.ingests.attempts.load(Ordering::Relaxed) > UNFLUSHED_FILES_MAX {
            let flusher = attempt.dir.flusher();
            if flusher.waiting() < UNFLUSHED_FILES_MAX {
                flusher.request(&staged.log);
            } else {
                // The disk is slow, and files would open faster than they close. So flush on this thread.
                staged.unflushed = 0;
                staged.log.flush()?;
            }
        }
        Ok(())
    }
}

impl NewIngest {
    /// Return the validation rules for staged batches. If the topic uses LogAppendTime, the attach stamps the batches;
    /// until then they keep the client's checksums.
    fn staging_rules(&self, now_ms: i64) -> ProduceRules {
        let rules = self.config.produce_rules(true, now_ms);
        let stamped = rules.timestamp_type == TimestampType::LogAppendTime;
        ProduceRules {
            timestamp_type: TimestampType::CreateTime,
            compression_type: CompressionType::Producer,
            before_max_ms: if stamped {
                i64::MAX
            } else {
                rules.before_max_ms
            },
            after_max_ms: if stamped {
                i64::MAX
            } else {
                rules.after_max_ms
            },
            ..rules
        }
    }
}

/// Return the size of the first batch in `bytes`, which must contain it completely.
fn batch_size(bytes: &[u8]) -> Result<usize, BatchError> {
    let header = BatchHeader::parse(bytes)?;
    let size = header.size_in_bytes();
    if size > bytes.len() {
        return Err(BatchError::Truncated {
            needed: size,
            got: bytes.len(),
        });
    }
    Ok(size)
}
