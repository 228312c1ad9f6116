//! What makes a log durable: flushes, leader epochs, checkpoints, closing.

use super::Log;
use crate::clean_state::{CleanState, SegmentStamp, modified_ns};
use crate::error::StorageError;
use crate::file_names::{self, LEADER_EPOCHS, LOG, SNAPSHOT, TXN_INDEX};
use crate::files;
use crate::segment::{Place, Segment};
use crate::woken::Woken;
use parking_lot::MutexGuard;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a sync that begins now will cover.
pub(crate) struct FlushSample {
    truncations: u64,
    end: i64,
    segments: Vec<(Arc<Segment>, Place)>,
}

impl FlushSample {
    /// Whether its ends and places are those of the log still. Odd: of a log that was just being truncated.
    const fn holds(&self, truncations: u64) -> bool {
        self.truncations == truncations && truncations.is_multiple_of(2)
    }
}

impl Log {
    /// Brings everything appended so far to disk, with the leader epochs it was written in; answers
    /// the flushed end. Writers go on meanwhile.
    ///
    /// # Errors
    /// The first failure takes the log directory offline and is final: the kernel forgets which
    /// pages were lost, so that a second attempt would succeed without them.
    pub fn flush(&self) -> Result<i64, StorageError> {
        let moved = {
            let flushing = self.flush.lock();
            self.flush_locked(&flushing)?
        };
        self.tell_flushed(moved);
        Ok(self.flushed_end_offset())
    }

    /// As [`Log::flush`], for who holds the flush lock and calls [`Log::tell_flushed`] with the answer later.
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

    /// It was not moved away; for who holds the flush lock.
    fn check_in_place(&self) -> Result<(), StorageError> {
        if self.staged.load(Ordering::Acquire) {
            return Err(StorageError::Closed {
                path: self.directory(),
            });
        }
        Ok(())
    }

    /// As [`Log::flush`], but without the flush lock while the disk is at work: what is appended meanwhile finds its way
    /// into the journal.
    pub(crate) fn flush_beside(&self) -> Result<(), StorageError> {
        self.health.check()?;
        let sample = self.sample();
        let on_disk = |segment: &Arc<Segment>| segment.entry_synced.load(Ordering::Acquire);
        let known = !self.epochs_dirty.load(Ordering::Acquire)
            && sample.segments.iter().all(|(segment, _)| on_disk(segment));
        // Names are synced under the lock, and what is moved, replaced or taken away now is looked at there.
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
        self.tell_flushed_with(moved, &mut Woken::default());
    }

    /// The same for one of several logs: who hears of it is woken when `woken` is dropped.
    pub(crate) fn tell_flushed_with(&self, moved: Option<i64>, woken: &mut Woken) {
        if let (Some(end), Some(callback)) = (moved, self.on_flush.get()) {
            callback(end, woken);
        }
    }

    /// Notes what there is to sync, before syncing it.
    pub(crate) fn sample(&self) -> FlushSample {
        let truncations = *self.truncations.lock();
        let synced = self.synced_end_offset();
        // The end first: the list loaded after it holds every segment below it.
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

    /// As [`Log::flush`] for who cannot take the flush lock: nothing is published.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sync_sampled(&self) -> Result<(), StorageError> {
        self.sync(&self.sample())
    }

    fn sync(&self, sample: &FlushSample) -> Result<(), StorageError> {
        let mut sync_directory = false;
        for (segment, _) in &sample.segments {
            let file = match segment.file(false) {
                Ok(file) => file,
                // Retention took it away since the sample: nobody asks for its bytes any more.
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

    /// The `.log` file of a segment.
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

    /// Publishes what a finished sync covered; answers the flushed end if it moved. Who does not hold the flush lock
    /// asks [`Log::was_truncated`] then: of a log that was truncated meanwhile nothing is published.
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

    /// Whether the log was truncated after that sample was taken, or meanwhile.
    pub(crate) fn was_truncated(&self, sample: &FlushSample) -> bool {
        !sample.holds(*self.truncations.lock())
    }

    /// Notes that leader epoch `epoch` begins at the log end; appends in older epochs are
    /// refused from now on. Answers whether the epoch was new.
    ///
    /// The file is written before the first record of the epoch, and the flush that covers the
    /// record covers the file: an epoch without records costs nothing, however many logs begin one
    /// at a restart (replacing 10,000 files takes seconds). If a crash forgets such an epoch, the
    /// next leader's begins at the same offset and would have replaced it.
    ///
    /// # Errors
    /// [`StorageError`] when the log is closed or its directory offline.
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

    /// Writes the epochs as they are in memory; the next flush syncs them.
    pub(crate) fn rewrite_epochs(&self) -> Result<(), StorageError> {
        let _file = self.epochs_file.lock();
        self.epochs_unwritten.store(false, Ordering::Release);
        let text = self.epochs.read().render();
        let path = self.directory().join(LEADER_EPOCHS);
        if let Err(error) = files::write_replacing(&path, text.as_bytes()) {
            // A full disk: the next append tries again, and no record gets ahead of its epoch.
            self.epochs_unwritten.store(true, Ordering::Release);
            return Err(error);
        }
        self.epochs_dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Brings index files and producer snapshot up to date, so that recovery may start at the
    /// answer: everything below is on disk in the log's own files. The caller syncs the files (one barrier for many
    /// logs) before it writes the answer into a checkpoint.
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

    /// Base offset of the first segment in which a reader met damage: recovery must not begin after it.
    fn first_damaged(&self) -> i64 {
        let segments = self.segments.load();
        let damaged = segments
            .iter()
            .find(|segment| segment.damaged.load(Ordering::Acquire));
        damaged.map_or(i64::MAX, |segment| segment.base_offset)
    }

    /// Syncs what [`Log::prepare_checkpoint`] wrote, file by file.
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

    /// First half of a clean close: nothing is appended any more, indexes and snapshot are
    /// written. The caller syncs.
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

    /// The segments with bytes as they are on disk. One that never took a byte may have no file.
    fn stamps(&self) -> Result<Vec<SegmentStamp>, StorageError> {
        let segments = self.segments.load();
        let with_bytes = segments.iter().filter(|segment| segment.size() > 0);
        let stamp = |segment: &Arc<Segment>| {
            let path = segment.path(LOG);
            let modified_ns = match std::fs::metadata(&path) {
                // Known to be damaged: the next start is to look at it.
                Ok(_) if segment.damaged.load(Ordering::Acquire) => i64::MIN,
                Ok(metadata) => modified_ns(&metadata),
                // Somebody took it away. The next start says what was in it.
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

    /// Closes the log: flushes, if `clean`, and refuses everything afterwards. Readers in progress
    /// finish. Closing twice is harmless.
    ///
    /// # Errors
    /// [`StorageError`] when the flush fails; the log is closed all the same.
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

/// Bytes of a file; none if it is not there.
fn size_of_file(path: &Path) -> Result<u64, StorageError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(StorageError::io("look at", path)(error)),
    }
}
