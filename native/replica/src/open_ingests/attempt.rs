//! Staged records of one attempt of a writer for one partition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use pybroker_storage::{Log, LogConfig, LogDir, StagedPartition, StagedTotals};

use super::{IngestError, Ingests};
use crate::TopicConfig;

/// Staged records of one attempt for one partition.
pub(crate) struct Attempt {
    pub(crate) dir: Arc<LogDir>,
    pub(crate) place: StagedPartition,
    pub(crate) writer: i32,
    pub(crate) attempt: i64,
    pub(crate) staged: Mutex<Option<StagedLog>>,
    pub(crate) rows: AtomicI64,
    pub(crate) bytes: AtomicU64,
    /// Whether a write failed half way. The next use then opens the log again from disk.
    pub(crate) stale: AtomicBool,
    /// Number of records that each other broker has staged, as far as this broker's copies show.
    pub(crate) copied: Mutex<BTreeMap<i32, i64>>,
}

pub(crate) struct StagedLog {
    pub(crate) log: Arc<Log>,
    pub(crate) totals: StagedTotals,
    pub(crate) unflushed: u64,
}

impl Attempt {
    /// Return an unopened attempt with `bytes` on disk.
    pub(crate) fn new(
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
            copied: Mutex::default(),
        }
    }

    /// Return whether the attempt may have records on disk.
    pub(crate) fn has_staged(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
            || self.dir.has_staged(&self.place, self.writer, self.attempt)
    }

    /// Return the staged log. The first use, and the first one after a failed write, opens it from disk.
    pub(crate) fn opened<'s>(
        &self,
        staged: &'s mut Option<StagedLog>,
        config: &TopicConfig,
        ingests: &Ingests,
        now_ms: i64,
    ) -> Result<&'s mut StagedLog, IngestError> {
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
            *staged = Some(StagedLog {
                log,
                totals,
                unflushed: totals.bytes,
            });
        }
        // `staged` was set above if it was empty.
        staged.as_mut().ok_or(IngestError::Unknown)
    }
}
