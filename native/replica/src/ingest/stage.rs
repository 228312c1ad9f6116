//! Appends: records of one attempt for one partition, validated as Produce validates them.

use pybroker_model::{
    BatchError, BatchHeader, CompressionType, ProduceRules, TimestampType, validate_produce,
};
use pybroker_storage::{AppendError, AppendOrigin, StorageError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLockReadGuard;

use crate::open_ingests::{Attempt, Ingest, Staged, too_many_attempts};
use crate::{IngestError, IngestName, NewIngest, Partition, PartitionError, Replicas};

/// Staged bytes of one attempt's partition after which they are synced, by the thread that staged them: so a commit
/// finds little left to do, and the syncs of other producers never wait behind more than a few of these.
const FLUSH_BYTES: u64 = 4 << 20;
/// Attempts of all ingests from which on each append asks for a flush, because what waits for one keeps its file open;
/// and logs waiting for a flush from which on it flushes by itself.
const UNFLUSHED_FILES_MAX: usize = 512;
/// Largest staged offset: what an index of a segment can hold, many times over.
const ROWS_MAX: i64 = 1 << 48;

impl Replicas {
    /// Stages whole batches of one attempt for one partition; answers how many records it has staged. Records before
    /// `sequence` + what is there are passed over: a repeated request stages nothing twice. When it returns, every replica
    /// in sync has them, too. Blocks on the disk and on other brokers.
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
        // Again, behind the gate: a commit may have closed it meanwhile.
        self.ingests.get(name, epoch)?;
        if records.is_empty() {
            return Err(BatchError::invalid("no record batch").into());
        }
        // Too few in sync: nothing is staged.
        partition.in_sync_followers()?;
        let led = partition.hold_led()?;
        let attempt = self.attempt_of(&ingest, partition, writer, attempt)?;
        let rows = self.stage_in(&ingest, &attempt, sequence, records, led, now_ms)?;
        drop(gate);
        self.bring_to_followers(&ingest, partition, &attempt, rows)?;
        Ok(rows)
    }

    /// The same on a replica, for the leader of the partition, which has staged it; also while it is being committed.
    /// Without records it only tells what is there.
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
        // Its directory is there: the partition does not move any more.
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
        // Also if a batch is refused: those before it are staged, and their file stays open until it is synced.
        let flushed = self.flush_in_time(attempt, staged);
        done?;
        flushed?;
        ingest.touched_ms.store(now_ms, Ordering::Relaxed);
        Ok(staged.totals.rows)
    }

    /// The attempt, where the partition lies.
    ///
    /// # Errors
    /// `Mismatch` if it lies elsewhere, `Throttled` if it is one too many.
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
                    "partition {} has moved to another log directory since the ingest began: begin it anew",
                    tip.partition
                )));
            }
            // Its directory could not be made where the partition was: it begins where that is now.
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

    /// Stages the batches one after another, up to the first that is refused.
    fn stage_batches(
        &self,
        ingest: &Ingest,
        attempt: &Attempt,
        staged: &mut Staged,
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
                // Staged by an earlier request whose answer was lost.
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

    /// Syncs what an attempt has staged, or asks for it, once there is much of it or there are many attempts.
    fn flush_in_time(&self, attempt: &Attempt, staged: &mut Staged) -> Result<(), IngestError> {
        if staged.unflushed >= FLUSH_BYTES {
            staged.unflushed = 0;
            staged.log.flush()?;
        } else if self.ingests.attempts.load(Ordering::Relaxed) > UNFLUSHED_FILES_MAX {
            let flusher = attempt.dir.flusher();
            if flusher.waiting() < UNFLUSHED_FILES_MAX {
                flusher.request(&staged.log);
            } else {
                // The disk is behind: files would come to be open faster than they are closed.
                staged.unflushed = 0;
                staged.log.flush()?;
            }
        }
        Ok(())
    }
}

impl NewIngest {
    /// What staged batches must satisfy. A topic with LogAppendTime stamps them when they are attached; until then
    /// they keep the client's checksums.
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

/// Size of the batch at the front of `bytes`, which must hold it whole.
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
