//! What one attempt of a writer has staged for one partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use pybroker_storage::{Log, LogConfig, LogDir, StagedPartition, StagedTotals};

use super::{Ingest, IngestError, Ingests, quota};
use crate::{Partition, PartitionError, Replicas, TopicConfig};

/// What one attempt stages for one partition.
pub(super) struct Attempt {
    pub(super) dir: Arc<LogDir>,
    pub(super) place: StagedPartition,
    pub(super) writer: i32,
    pub(super) attempt: i64,
    pub(super) staged: Mutex<Option<Staged>>,
    pub(super) rows: AtomicI64,
    pub(super) bytes: AtomicU64,
    /// A failure in the middle of a write: what is there is looked at again.
    pub(super) stale: AtomicBool,
}

pub(super) struct Staged {
    pub(super) log: Arc<Log>,
    pub(super) totals: StagedTotals,
    pub(super) unflushed: u64,
}

impl Replicas {
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
                    return Err(quota::too_many_attempts());
                }
            }
        }
        let place = dir.staged_partition(tip, &ingest.new.directory);
        let new = Arc::new(Attempt::new(Arc::clone(dir), place, writer, attempt, 0));
        attempts.insert(key, Arc::clone(&new));
        Ok(new)
    }
}

impl Attempt {
    /// One that is not opened yet, and has `bytes` on disk.
    pub(super) fn new(
        dir: Arc<LogDir>,
        place: StagedPartition,
        writer: i32,
        attempt: i64,
        bytes: u64,
    ) -> Self {
        Self {
            dir,
            place,
            writer,
            attempt,
            staged: Mutex::new(None),
            rows: AtomicI64::new(0),
            bytes: AtomicU64::new(bytes),
            stale: AtomicBool::new(false),
        }
    }

    /// Whether something of it may be on disk.
    fn has_staged(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
            || self.dir.has_staged(&self.place, self.writer, self.attempt)
    }

    /// What is staged, looked up on disk the first time and after a failed write.
    pub(super) fn opened<'s>(
        &self,
        staged: &'s mut Option<Staged>,
        config: &TopicConfig,
        ingests: &Ingests,
        now_ms: i64,
    ) -> Result<&'s mut Staged, IngestError> {
        if self.stale.swap(false, Ordering::AcqRel)
            && let Some(old) = staged.take()
        {
            old.log.discard();
        }
        if staged.is_none() {
            let config = LogConfig {
                cached_bytes_max: ingests.quota.cached_bytes_max(),
                ..LogConfig::clone(&config.log)
            };
            let opened =
                self.dir
                    .open_staged(&self.place, self.writer, self.attempt, &config, now_ms);
            let (log, totals) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    self.stale.store(true, Ordering::Release);
                    return Err(error.into());
                }
            };
            ingests
                .staged_bytes
                .fetch_add(totals.bytes, Ordering::Relaxed);
            self.rows.store(totals.rows, Ordering::Relaxed);
            let counted = self.bytes.swap(totals.bytes, Ordering::Relaxed);
            ingests.staged_bytes.fetch_sub(counted, Ordering::Relaxed);
            *staged = Some(Staged {
                log,
                totals,
                unflushed: totals.bytes,
            });
        }
        // Just filled, if it was not.
        staged.as_mut().ok_or(IngestError::Unknown)
    }
}
