//! Checkpoints of all logs, and the clean stop.

use super::{LogDir, clean_shutdown};
use crate::error::StorageError;
use crate::file_names::{CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS};
use crate::log::Log;
use std::sync::Arc;

/// Number of logs from which one barrier is cheaper than a sync of each log's small files.
const BARRIER_LOGS: usize = 16;

impl LogDir {
    /// Write index files, producer snapshots and the checkpoints of recovery points and log starts, so that recovery
    /// after a crash has little to scan. `logs` are all logs of this directory; closed ones are left out.
    ///
    /// # Errors
    /// [`StorageError`]; the old checkpoints stay valid.
    pub fn checkpoint(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        self.health.check()?;
        let mut points = Vec::with_capacity(logs.len());
        for log in logs {
            match log.prepare_checkpoint() {
                Ok(offset) => points.push((log, offset)),
                Err(StorageError::Closed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if logs.len() >= BARRIER_LOGS && cfg!(target_os = "linux") {
            self.barrier()?;
        } else {
            for (log, _) in &points {
                log.sync_checkpoint()?;
            }
        }
        let entries = points.iter().map(|(log, offset)| (*log, *offset));
        self.checkpoints.write(RECOVERY_POINTS, entries)?;
        self.checkpoint_cleaner(logs)?;
        self.checkpoint_log_starts(logs)
    }

    /// Write the checkpoint of log starts, durably: call it before answering DeleteRecords.
    ///
    /// # Errors
    /// [`StorageError`]; the old checkpoint stays.
    pub fn checkpoint_log_starts(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        let moved = logs.iter().filter(|log| log.log_start_offset() > 0);
        let entries = moved.map(|log| (log, log.log_start_offset()));
        self.checkpoints.write(LOG_STARTS, entries)
    }

    /// Write the progress of compaction. If it is lost, logs need another compaction pass.
    fn checkpoint_cleaner(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        let cleaned = logs
            .iter()
            .filter(|log| log.config().cleanup_policy.compact);
        let entries = cleaned.map(|log| (log, log.cleaned_to()));
        self.checkpoints.write(CLEANED_TO, entries)
    }

    /// Write the checkpoint of high watermarks, durably.
    ///
    /// # Errors
    /// [`StorageError`]; the old checkpoint stays.
    pub fn checkpoint_high_watermarks(&self, logs: &[(Arc<Log>, i64)]) -> Result<(), StorageError> {
        let entries = logs.iter().map(|(log, offset)| (log, *offset));
        self.checkpoints.write(HIGH_WATERMARKS, entries)
    }

    /// Stop cleanly: close all logs, sync everything and write the clean-shutdown marker, so that the next start scans
    /// nothing. `logs` are all logs of this directory with their high watermarks. After an error there is no marker,
    /// and the next start recovers.
    ///
    /// # Errors
    /// The first [`StorageError`].
    pub fn close(&self, logs: &[(Arc<Log>, i64)]) -> Result<(), StorageError> {
        self.health.check()?;
        let mut closed = Vec::with_capacity(logs.len());
        for (log, _) in logs {
            match log.prepare_close() {
                Ok(state) => {
                    if let Some(name) = self.name_of(&log.directory()) {
                        closed.push((name, state));
                    }
                }
                Err(StorageError::Closed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if cfg!(target_os = "linux") {
            self.barrier()?;
        } else {
            for (log, _) in logs {
                log.flush()?;
                log.sync_checkpoint()?;
            }
        }
        let ends = logs.iter().map(|(log, _)| (log, log.log_end_offset()));
        self.checkpoints.write(RECOVERY_POINTS, ends)?;
        let all: Vec<_> = logs.iter().map(|(log, _)| Arc::clone(log)).collect();
        self.checkpoint_cleaner(&all)?;
        self.checkpoint_log_starts(&all)?;
        self.checkpoint_high_watermarks(logs)?;
        self.flusher.journaling().end()?;
        clean_shutdown::write(&self.path, &closed)
    }
}
