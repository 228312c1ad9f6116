//! Rolling to a new segment.

use super::{Log, Segments, Writer};
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{self, LOG, SNAPSHOT};
use crate::files;
use crate::index::{OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES};
use crate::producer_state::snapshot;
use crate::segment::Segment;
use pybroker_model::NO_TIMESTAMP;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

impl Log {
    /// Close the active segment and begin a new one, unless it is empty.
    ///
    /// # Errors
    /// [`StorageError`]; an IO error takes the log directory offline.
    pub fn roll(&self, now_ms: i64) -> Result<(), StorageError> {
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        if writer.active.size() > 0 {
            self.roll_locked(&mut writer, now_ms)
        } else {
            Ok(())
        }
    }

    /// Check Kafka's conditions for a roll: the bytes do not fit, the segment is old, an index is full, or the offset
    /// does not fit the index's 31 bits. `last_offset` and `max_timestamp` are those of the bytes to write.
    pub(super) fn must_roll(
        &self,
        active: &Segment,
        bytes: usize,
        last_offset: i64,
        max_timestamp: i64,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<bool, StorageError> {
        let size = active.size();
        if last_offset - active.base_offset >= i64::from(i32::MAX) {
            return Ok(true);
        }
        if size == 0 {
            return Ok(false);
        }
        if size + bytes as u64 > u64::from(config.segment_bytes) {
            return Ok(true);
        }
        if self.is_old(active, max_timestamp, now_ms, config)? {
            return Ok(true);
        }
        let (offset_bytes, time_bytes) = active.index_bytes()?;
        let limit = u64::from(config.segment_index_bytes);
        Ok(offset_bytes + OFFSET_ENTRY_BYTES > limit || time_bytes + TIME_ENTRY_BYTES > limit)
    }

    /// Return whether `segment.ms` has passed: in record time if the records have timestamps, else since the segment
    /// was opened.
    pub(super) fn is_old(
        &self,
        active: &Segment,
        max_timestamp: i64,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<bool, StorageError> {
        let limit = config
            .segment_ms
            .saturating_sub(self.roll_jitter(config))
            .max(1);
        let waited = match active.first_timestamp()? {
            Some(first) if max_timestamp != NO_TIMESTAMP => max_timestamp.saturating_sub(first),
            _ => now_ms.saturating_sub(active.opened_ms),
        };
        Ok(waited > limit)
    }

    /// Return a part of `segment.jitter.ms` that is constant for a log but differs between logs, so that not all
    /// segments roll in the same second.
    fn roll_jitter(&self, config: &LogConfig) -> i64 {
        let most = config.segment_jitter_ms.min(config.segment_ms);
        if most <= 0 {
            return 0;
        }
        let mut hasher =
            std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().build_hasher();
        hasher.write_u128(self.id.topic_id.uuid().as_u128());
        hasher.write_i32(self.id.partition);
        (hasher.finish() % most as u64) as i64
    }

    /// Roll to a new segment without waiting for the disk: the flusher syncs the old segment before it publishes
    /// anything in the new one.
    pub(super) fn roll_locked(&self, writer: &mut Writer, now_ms: i64) -> Result<(), StorageError> {
        let end = self.log_end_offset();
        if end == writer.active.base_offset {
            // The active segment is empty, so it is not full, and a new one would begin at the same offset.
            return Ok(());
        }
        writer
            .active
            .persist_indexes(true)
            .map_err(|error| self.fatal(error))?;
        self.write_snapshot(writer, end)
            .map_err(|error| self.fatal(error))?;
        let segment = Arc::new(Segment::fresh(end, &self.dir, &self.handles, now_ms));
        // A crash between a roll and the first write leaves an empty file. A file with content is unexpected.
        let path = segment.path(LOG);
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0) {
            return Err(StorageError::Exists { path });
        }
        let mut segments: Segments = self.segments.load().as_ref().clone();
        segments.push(Arc::clone(&segment));
        writer.active = segment;
        self.publish_segments(segments);
        Ok(())
    }

    /// Write the producer state as of `offset`, without syncing: recovery can rebuild it.
    pub(super) fn write_snapshot(
        &self,
        writer: &mut Writer,
        offset: i64,
    ) -> Result<(), StorageError> {
        let dir = self.directory();
        files::write_replacing(
            &file_names::of_segment(&dir, offset, SNAPSHOT),
            &snapshot::write(&writer.producers),
        )?;
        if let Some(old) = writer.checkpoint_snapshot.take()
            && old != offset
        {
            files::remove(&file_names::of_segment(&dir, old, SNAPSHOT))?;
        }
        writer.producers.changed = false;
        Ok(())
    }
}
