//! Removal at the start of the log: DeleteRecords and retention.

use super::{Log, Segments};
use crate::clean_state::modified_ns;
use crate::error::{ReadError, StorageError};
use crate::file_names::{DELETED, INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX};
use crate::files;
use crate::segment::Segment;
use pybroker_model::NO_TIMESTAMP;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Result of a retention pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionResult {
    /// Segments removed.
    pub segments: usize,
    /// Bytes removed.
    pub bytes: u64,
}

impl Log {
    /// Raise the log start to `offset` (DeleteRecords); return the new log start. The next retention pass frees the
    /// space. The caller checkpoints log starts.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] above `high_watermark`.
    pub fn delete_records(&self, offset: i64, high_watermark: i64) -> Result<i64, ReadError> {
        if offset < 0 || offset > high_watermark {
            let start = self.log_start_offset();
            return Err(ReadError::OutOfRange {
                offset,
                start,
                end: high_watermark,
            });
        }
        let writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        self.raise_log_start(offset)?;
        Ok(self.log_start_offset())
    }

    /// Raise the log start, and drop leader epochs that ended below it.
    pub(super) fn raise_log_start(&self, offset: i64) -> Result<(), StorageError> {
        if self.log_start.fetch_max(offset, Ordering::AcqRel) >= offset {
            return Ok(());
        }
        if self.epochs.write().truncate_from_start(offset) {
            self.rewrite_epochs().map_err(|error| self.fatal(error))?;
        }
        Ok(())
    }

    /// Remove segments by `retention.ms`, `retention.bytes` or the log start, oldest first, but no segment that reaches
    /// above `high_watermark`. For a topic that is only compacted, remove only segments below its log start. Also rolls
    /// a segment older than `segment.ms` and expires idle producers.
    ///
    /// # Errors
    /// [`StorageError`]; an IO error takes the log directory offline.
    pub fn apply_retention(
        &self,
        high_watermark: i64,
        now_ms: i64,
    ) -> Result<RetentionResult, StorageError> {
        let _maintenance = self.maintenance.lock();
        let config = self.config();
        {
            let producers = &mut self.writer.lock().producers;
            producers.expire(now_ms, config.producer_id_expiration_ms);
            self.producer_share.note(producers);
        }
        let segments = self.segments.load_full();
        let count = self.deletable(&segments, high_watermark, now_ms)?;
        if count == 0 {
            return Ok(RetentionResult::default());
        }
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        if count == segments.len() {
            // All segments can be removed. Roll first, so that a new, empty segment replaces the active one; its file
            // name then records the log end.
            self.roll_locked(&mut writer, now_ms)?;
            writer
                .active
                .file(true)
                .map_err(|error| self.fatal(error))?;
            files::sync_dir(&self.directory()).map_err(|error| self.fatal(error))?;
            writer.active.entry_synced.store(true, Ordering::Release);
        }
        let mut kept: Segments = self.segments.load().as_ref().clone();
        let removed: Vec<_> = kept.drain(..count).collect();
        self.raise_log_start(kept[0].base_offset)?;
        self.publish_segments(kept);
        drop(writer);
        let bytes = removed.iter().map(|segment| segment.size()).sum();
        for segment in &removed {
            self.retire(segment, now_ms)
                .map_err(|error| self.fatal(error))?;
        }
        self.cleaned_to
            .fetch_max(self.log_start_offset(), Ordering::AcqRel);
        self.purge_deleted_files(now_ms)?;
        Ok(RetentionResult {
            segments: count,
            bytes,
        })
    }

    /// Return how many segments at the start can be removed.
    fn deletable(
        &self,
        segments: &[Arc<Segment>],
        high_watermark: i64,
        now_ms: i64,
    ) -> Result<usize, StorageError> {
        let config = self.config();
        let log_start = self.log_start_offset();
        let delete = config.cleanup_policy.delete;
        let mut excess = if delete && config.retention_bytes >= 0 {
            self.size_bytes()
                .saturating_sub(config.retention_bytes as u64)
        } else {
            0
        };
        let mut count = 0;
        for segment in segments {
            let is_last = count + 1 == segments.len();
            let end = segment.end_offset();
            if end > high_watermark || (is_last && segment.size() == 0) {
                break;
            }
            let below_start = end <= log_start && !is_last;
            let too_big = excess > 0 && excess >= segment.size();
            let too_old = delete && config.retention_ms >= 0 && {
                let newest = self.newest(segment)?;
                now_ms.saturating_sub(newest) > config.retention_ms
            };
            if !(below_start || too_big || too_old) {
                break;
            }
            excess = excess.saturating_sub(segment.size());
            count += 1;
        }
        Ok(count)
    }

    /// Return the time from which a segment's age counts: its largest timestamp, or else the file's modification time.
    fn newest(&self, segment: &Segment) -> Result<i64, StorageError> {
        match segment.largest_timestamp()? {
            Some((timestamp, _)) if timestamp != NO_TIMESTAMP => Ok(timestamp),
            _ => {
                let path = segment.path(LOG);
                let metadata =
                    std::fs::metadata(&path).map_err(StorageError::io("look at", &path))?;
                Ok(modified_ns(&metadata) / 1_000_000)
            }
        }
    }

    /// Take a segment's files out of the log: rename them now and remove them after `file.delete.delay.ms`. A reader
    /// that still has the segment in its list uses its open file. If the file is gone, it looks up the offset again.
    pub(super) fn retire(&self, segment: &Segment, now_ms: i64) -> Result<(), StorageError> {
        let deadline = now_ms.saturating_add(self.config.load().file_delete_delay_ms);
        let mut retired = Vec::new();
        for suffix in [LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT] {
            let path = segment.path(suffix);
            let mut name = path.as_os_str().to_owned();
            name.push(DELETED);
            let renamed = PathBuf::from(name);
            match std::fs::rename(&path, &renamed) {
                Ok(()) => retired.push((deadline, renamed)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(StorageError::io("rename", &path)(error)),
            }
        }
        self.deleted_files.lock().extend(retired);
        Ok(())
    }

    /// Remove renamed files that are due; return how many.
    ///
    /// # Errors
    /// [`StorageError`] if a file cannot be removed; the others wait for the next call.
    pub fn purge_deleted_files(&self, now_ms: i64) -> Result<usize, StorageError> {
        let due: Vec<PathBuf> = {
            let mut waiting = self.deleted_files.lock();
            let (due, left) = std::mem::take(&mut *waiting)
                .into_iter()
                .partition(|(at, _)| *at <= now_ms);
            *waiting = left;
            due.into_iter()
                .map(|(_, path): (i64, PathBuf)| path)
                .collect()
        };
        for path in &due {
            files::remove(path)?;
        }
        Ok(due.len())
    }
}
