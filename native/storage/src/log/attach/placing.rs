//! The part of an attach under the writer lock: write the intent, link or copy the records, and undo this on failure.

use super::super::append::assign;
use super::super::{Log, Segments, Writer};
use super::{AttachParameters, Step};
use crate::error::{AppendError, StorageError};
use crate::file_names::LOG;
use crate::files;
use crate::segment::Segment;
use crate::staged::intent::{self, Intent, State};
use crate::staged::{StagedPartition, StagedSegment, links, patch};
use parking_lot::MutexGuard;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Log {
    /// Write the intent durably, then link or copy the records, under the writer lock.
    #[expect(
        clippy::too_many_arguments,
        reason = "what was found out before the lock was taken"
    )]
    pub(super) fn place(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        place: &StagedPartition,
        parameters: &AttachParameters<'_>,
        staged: &[StagedSegment],
        mut copy: Option<Vec<u8>>,
        expected: i64,
        stop: &impl Fn(Step) -> Result<(), AppendError>,
    ) -> Result<Intent, AppendError> {
        let &AttachParameters {
            leader_epoch,
            append_time,
            now_ms,
            ..
        } = parameters;
        let intent_path = &place.intent_path();
        match parameters.given {
            Some((base, _)) => self.check_ends_at(base)?,
            None => self.check_leads(leader_epoch)?,
        }
        let base = self.log_end_offset();
        let rows: i64 = staged.iter().map(|segment| segment.rows).sum();
        let end = base
            .checked_add(rows)
            .filter(|&end| end < i64::MAX)
            .ok_or(AppendError::OffsetsExhausted { end: base })?;
        if copy.is_none() && base != expected {
            patch::segments(staged, base, leader_epoch, None)?;
        }
        let mut found = Intent {
            base,
            end,
            leader_epoch,
            append_time: append_time.unwrap_or(-1),
            state: State::Linking,
            plan: place.plan(),
        };
        if let Some(bytes) = copy.as_mut().filter(|_| rows > 0) {
            self.note_epoch(leader_epoch, base)?;
            found.state = State::Copying;
            intent::write(intent_path, Some(&found)).map_err(|error| self.fatal_sync(error))?;
            stop(Step::Intended)?;
            (parameters.announce)(&found, false);
            let last = assign(bytes, None, base, leader_epoch)?;
            debug_assert_eq!(last + 1, end);
            if let Err(error) = self.write(&mut writer, bytes, None, last, now_ms) {
                (parameters.announce)(&found, true);
                return Err(match intent::write(intent_path, None) {
                    Ok(()) => error,
                    Err(worse) => self.fatal_sync(worse).into(),
                });
            }
        } else if rows > 0 {
            self.note_epoch(leader_epoch, base)?;
            if writer.active.size() > 0 {
                self.roll_locked(&mut writer, now_ms)?;
            }
            stop(Step::Rolled)?;
            intent::write(intent_path, Some(&found)).map_err(|error| self.fatal_sync(error))?;
            stop(Step::Intended)?;
            (parameters.announce)(&found, false);
            if let Err(error) = self.link_all(&mut writer, staged, base, now_ms, stop) {
                if matches!(error, AppendError::Storage(StorageError::Closed { .. })) {
                    return Err(error);
                }
                (parameters.announce)(&found, true);
                return Err(self.undo(&writer, staged, base, intent_path, error));
            }
            // Consumers see these records after the flush, as with any append.
            self.log_end.store(end, Ordering::Release);
            // Recovery does not need the snapshot. This error must not be reported as a failed attach.
            if let Err(error) = self.write_snapshot(&mut writer, end) {
                self.fatal(error);
                writer.producers.changed = true;
            }
        }
        Ok(found)
    }

    fn link_all(
        &self,
        writer: &mut Writer,
        staged: &[StagedSegment],
        base: i64,
        now_ms: i64,
        stop: &impl Fn(Step) -> Result<(), AppendError>,
    ) -> Result<(), AppendError> {
        let directory = self.directory();
        let mut segments: Segments = self.segments.load().as_ref().clone();
        // The active segment is empty and begins at `base`. The first attached segment replaces it.
        segments.pop();
        let mut next = base;
        for one in staged {
            links::link(one, &directory, next)?;
            let segment = Segment::new(next, &self.dir, &self.handles, now_ms);
            segment.set_end(next + one.rows, one.bytes);
            // Open the file before the flush and keep it open, so that the flush reports errors of the patched pages.
            segment.set_dirty(true);
            segment.file(false)?;
            next += one.rows;
            segments.push(Arc::new(segment));
            stop(Step::LinkedOne)?;
        }
        stop(Step::Linked)?;
        let active = Arc::new(Segment::fresh(next, &self.dir, &self.handles, now_ms));
        let path = active.path(LOG);
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0) {
            return Err(StorageError::Exists { path }.into());
        }
        segments.push(Arc::clone(&active));
        writer.active = active;
        self.publish_segments(segments);
        Ok(())
    }

    /// Undo the links, usually after a full disk: the log continues without the attach. A failure here takes the
    /// directory offline.
    fn undo(
        &self,
        writer: &Writer,
        staged: &[StagedSegment],
        base: i64,
        intent_path: &Path,
        cause: AppendError,
    ) -> AppendError {
        let directory = self.directory();
        let mut next = base;
        let undone = staged.iter().try_for_each(|one| {
            let removed = links::unlink(one, &directory, next);
            next += one.rows;
            removed
        });
        // The active segment begins at `base`, and a link may have replaced its empty file. The next append needs a
        // file with a name, which may be the only record of the log end.
        writer.active.forget();
        let undone = undone
            .and_then(|()| writer.active.file(true).map(|_| ()))
            .and_then(|()| files::sync_dir(&directory))
            .and_then(|()| intent::write(intent_path, None));
        match undone {
            Ok(()) => cause,
            Err(error) => self.fatal_sync(error).into(),
        }
    }
}
