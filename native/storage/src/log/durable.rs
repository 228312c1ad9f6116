//! Durability of a log: flushes, leader epochs, checkpoints, close.

use super::Log;
use crate::clean_state::{CleanState, SegmentStamp, modified_ns};
use crate::error::StorageError;
use crate::file_names::{self, LEADER_EPOCHS, LOG, SNAPSHOT, TXN_INDEX};
use crate::files;
use crate::segment::{Place, Segment};
use crate::waker_batch::WakerBatch;
use parking_lot::MutexGuard;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The range that a starting sync will cover.
pub(crate) struct FlushSample {
    truncations: u64,
    end: i64,
    segments: Vec<(Arc<Segment>, Place)>,
}

impl FlushSample {
    /// Return whether the sample's ends and positions still apply to the log. An odd count means that a truncation was
    /// under way.
    const fn holds(&self, truncations: u64) -> bool {
        self.truncations == truncations && truncations.is_multiple_of(2)
    }
}

impl Log {
    /// Flush everything appended so far, with its leader epochs; return the flushed end. Writers continue meanwhile.
    ///
    /// # Errors
    /// The first failure takes the log directory offline and is final: the kernel forgets the pages that it could not
    /// write, so a second attempt would succeed without them.
    pub fn flush(&self) -> Result<i64, StorageError> {
        let moved = {
            let flushing = self.flush.lock();
            self.flush_locked(&flushing)?
        };
        self.tell_flushed(moved);
        Ok(self.flushed_end_offset())
    }

    /// Like [`Log::flush`], for a caller that holds the flush lock and later calls [`Log::tell_flushed`] with the
    /// result.
    pub(crate) fn flush_locked(
        &self,
        _flushing: &MutexGuard<'_, ()>,
    ) -> Result<Option<i64>, StorageError> {
        self.health.check()?;
        self.check_in_place()?;
        let sample = self.sample();
        self.sync(&sample)?;
        Ok(self.publish_flushed(&sample))
    }

    /// Return an error if the log was moved away; requires the flush lock.
    fn check_in_place(&self) -> Result<(), StorageError> {
        if self.staged.load(Ordering::Acquire) {
            return Err(StorageError::Closed {
                path: self.directory(),
            });
        }
        Ok(())
    }

    /// Like [`Log::flush`], but without the flush lock during the sync: appends meanwhile can go into the journal.
    pub(crate) fn flush_beside(&self) -> Result<(), StorageError> {
        self.health.check()?;
        let sample = self.sample();
        let on_disk = |segment: &Arc<Segment>| segment.entry_synced.load(Ordering::Acquire);
        let known = !self.epochs_dirty.load(Ordering::Acquire)
            && sample.segments.iter().all(|(segment, _)| on_disk(segment));
        // Use a full flush under the lock if new names must be synced, or if a file was moved, replaced or removed.
        let files: Result<Vec<_>, _> = sample
            .segments
            .iter()
            .map(|(segment, _)| segment.file(false))
            .collect();
        let (true, Ok(files)) = (known, files) else {
            return self.flush().map(drop);
        };
        for (file, (segment, _)) in files.iter().zip(&sample.segments) {
            self.sync_file(file.file(), segment)?;
        }
        let moved = {
            let _flushing = self.flush.lock();
            self.check_in_place()?;
            self.publish_flushed(&sample)
        };
        self.tell_flushed(moved);
        if self.was_truncated(&sample) {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn tell_flushed(&self, moved: Option<i64>) {
        self.tell_flushed_with(moved, &mut WakerBatch::default());
    }

    /// Like `tell_flushed`, for one of several logs. Waiters wake up when `woken` is dropped.
    pub(crate) fn tell_flushed_with(&self, moved: Option<i64>, woken: &mut WakerBatch) {
        if let (Some(end), Some(callback)) = (moved, self.on_flush.get()) {
            callback(end, woken);
        }
    }

    /// Record the range to sync, before the sync.
    pub(crate) fn sample(&self) -> FlushSample {
        let truncations = *self.truncations.lock();
        let synced = self.synced_end_offset();
        // Read the end first. The list loaded afterwards then has every segment below it.
        let end = self.log_end_offset();
        let segments = self.segments.load();
        let first = Self::segment_index(&segments, synced);
        let unsynced = segments[first..]
            .iter()
            .filter(|s| s.end_offset() > synced && s.size() > 0);
        let segments = unsynced
            .map(|segment| {
                segment.set_dirty(false);
                (Arc::clone(segment), segment.end())
            })
            .collect();
        FlushSample {
            truncations,
            end,
            segments,
        }
    }

    /// Like [`Log::flush`], for a caller that cannot take the flush lock. It does not publish the result.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sync_sampled(&self) -> Result<(), StorageError> {
        self.sync(&self.sample())
    }

    fn sync(&self, sample: &FlushSample) -> Result<(), StorageError> {
        let mut sync_directory = false;
        for (segment, _) in &sample.segments {
            let file = match segment.file(false) {
                Ok(file) => file,
                // Retention has removed the segment since the sample, so its bytes are not needed.
                Err(error) if error.is_not_found() && !self.holds(segment) => continue,
                Err(error) => return Err(self.fatal(error)),
            };
            self.sync_file(file.file(), segment)?;
            sync_directory |= !segment.entry_synced.load(Ordering::Acquire);
        }
        if self.epochs_dirty.swap(false, Ordering::AcqRel) {
            let path = self.epochs_path();
            File::open(&path)
                .and_then(|f| files::sync_data(&f))
                .map_err(StorageError::io("sync", &path))
                .map_err(|error| self.fatal_sync(error))?;
            sync_directory = true;
        }
        if sync_directory {
            files::sync_dir(&self.directory()).map_err(|error| self.fatal_sync(error))?;
        }
        Ok(())
    }

    /// Sync the `.log` file of a segment.
    fn sync_file(&self, file: &File, segment: &Segment) -> Result<(), StorageError> {
        files::sync_data(file)
            .map_err(StorageError::io("sync", &segment.path(LOG)))
            .map_err(|error| self.fatal_sync(error))
    }

    fn holds(&self, segment: &Arc<Segment>) -> bool {
        self.segments
            .load()
            .iter()
            .any(|held| Arc::ptr_eq(held, segment))
    }

    /// Publish the range of a finished sync. Return the flushed end if it moved. After a truncation the function
    /// publishes nothing; a caller without the flush lock then checks [`Log::was_truncated`].
    pub(crate) fn publish_flushed(&self, sample: &FlushSample) -> Option<i64> {
        let truncations = self.truncations.lock();
        if !sample.holds(*truncations) {
            return None;
        }
        for (segment, place) in &sample.segments {
            segment.entry_synced.store(true, Ordering::Release);
            segment.set_flushed(*place);
        }
        let before = self.flushed_end.fetch_max(sample.end, Ordering::AcqRel);
        self.synced_end.fetch_max(sample.end, Ordering::AcqRel);
        (before < sample.end).then_some(sample.end)
    }

    /// Return whether the log was truncated after or during the sample.
    pub(crate) fn was_truncated(&self, sample: &FlushSample) -> bool {
        !sample.holds(*self.truncations.lock())
    }

    /// Record that leader epoch `epoch` begins at the log end. The log then refuses appends in older epochs. Return
    /// whether the epoch was new.
    ///
    /// The file is written before the first record of the epoch, and the flush that covers the record covers the file.
    /// So an epoch without records costs no write, even if very many logs begin one at a restart (replacing 10,000
    /// files takes seconds). If a crash loses such an epoch, no harm is done: the next leader's epoch begins at the
    /// same offset and would have replaced it.
    ///
    /// # Errors
    /// [`StorageError`] if the log is closed or its directory offline.
    pub fn begin_epoch(&self, epoch: i32) -> Result<bool, StorageError> {
        let writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        let mut epochs = self.epochs.write();
        let known = epochs.latest().is_some_and(|latest| latest.epoch >= epoch);
        let new = !known && epochs.assign(epoch, self.log_end_offset());
        if new {
            self.epochs_unwritten.store(true, Ordering::Release);
        }
        Ok(new)
    }

    /// Write the epochs from memory to the file; the next flush syncs it.
    pub(crate) fn rewrite_epochs(&self) -> Result<(), StorageError> {
        let _file = self.epochs_file.lock();
        self.epochs_unwritten.store(false, Ordering::Release);
        let text = self.epochs.read().render();
        let path = self.directory().join(LEADER_EPOCHS);
        if let Err(error) = files::write_replacing(&path, text.as_bytes()) {
            // The disk is full. The next append retries this write, and no record is written before its epoch.
            self.epochs_unwritten.store(true, Ordering::Release);
            return Err(error);
        }
        self.epochs_dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Write the index files and the producer snapshot. Return the offset at which recovery may start: everything below
    /// is on disk in the log's own files. The caller syncs the files (one barrier for many logs) before it writes the
    /// offset into a checkpoint.
    pub(crate) fn prepare_checkpoint(&self) -> Result<i64, StorageError> {
        let synced = self.synced_end_offset().min(self.first_damaged());
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        writer.active.persist_indexes(false)?;
        if writer.producers.changed {
            let end = self.log_end_offset();
            self.write_snapshot(&mut writer, end)?;
            if end != writer.active.base_offset {
                writer.checkpoint_snapshot = Some(end);
            }
        }
        Ok(synced)
    }

    /// Return the base offset of the first segment with damage found by a reader: recovery must not begin after it.
    fn first_damaged(&self) -> i64 {
        let segments = self.segments.load();
        let damaged = segments
            .iter()
            .find(|segment| segment.damaged.load(Ordering::Acquire));
        damaged.map_or(i64::MAX, |segment| segment.base_offset)
    }

    /// Sync the files written by [`Log::prepare_checkpoint`], one by one.
    pub(crate) fn sync_checkpoint(&self) -> Result<(), StorageError> {
        for segment in self.segments.load().iter() {
            segment.sync_indexes()?;
        }
        if let Some(offset) = self.writer.lock().checkpoint_snapshot {
            let path = file_names::of_segment(&self.directory(), offset, SNAPSHOT);
            File::open(&path)
                .and_then(|f| files::sync_data(&f))
                .map_err(StorageError::io("sync", &path))?;
        }
        Ok(())
    }

    /// First half of a clean close: refuse appends, write indexes and snapshot. The caller syncs.
    pub(crate) fn prepare_close(&self) -> Result<CleanState, StorageError> {
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        writer.closed = true;
        writer.active.persist_indexes(true)?;
        let log_end = self.log_end_offset();
        let producers = writer.producers.len();
        if producers > 0 || writer.producers.changed {
            self.write_snapshot(&mut writer, log_end)?;
        }
        Ok(CleanState {
            segments: self.stamps()?,
            log_end,
            producers,
        })
    }

    /// Return the stamps of the segments with bytes. A segment without bytes may have no file.
    fn stamps(&self) -> Result<Vec<SegmentStamp>, StorageError> {
        let segments = self.segments.load();
        let with_bytes = segments.iter().filter(|segment| segment.size() > 0);
        let stamp = |segment: &Arc<Segment>| {
            let path = segment.path(LOG);
            let modified_ns = match std::fs::metadata(&path) {
                // A reader found damage in this segment, so the next start must check it.
                Ok(_) if segment.damaged.load(Ordering::Acquire) => i64::MIN,
                Ok(metadata) => modified_ns(&metadata),
                // Something outside the broker removed the file. The next start reports the lost records.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => i64::MIN,
                Err(error) => return Err(StorageError::io("look at", &path)(error)),
            };
            Ok(SegmentStamp {
                base_offset: segment.base_offset,
                size: segment.size(),
                modified_ns,
                aborted_bytes: size_of_file(&segment.path(TXN_INDEX))?,
            })
        };
        with_bytes.map(stamp).collect()
    }

    /// Close the log: flush it if `clean`, and refuse everything afterwards. Readers in progress finish. Closing twice
    /// is harmless.
    ///
    /// # Errors
    /// [`StorageError`] if the flush fails; the log is closed anyway.
    pub fn close(&self, clean: bool) -> Result<(), StorageError> {
        let result = if clean && !self.writer.lock().closed {
            self.prepare_close()
                .and_then(|_| self.leave_journal())
                .and_then(|()| self.flush())
                .and_then(|_| self.sync_checkpoint())
        } else {
            Ok(())
        };
        self.writer.lock().closed = true;
        result
    }
}

/// Return the size of a file; 0 if it does not exist.
fn size_of_file(path: &Path) -> Result<u64, StorageError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(StorageError::io("look at", path)(error)),
    }
}
