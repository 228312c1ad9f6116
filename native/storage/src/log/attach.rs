//! Attaching staged segments : links instead of copies, one append in the eyes of everybody else.

use super::append::assign;
use super::{Log, Segments, Writer};
use crate::error::{AppendError, StorageError};
use crate::file_names::LOG;
use crate::files;
use crate::segment::Segment;
use crate::staged::intent::{self, Intent, State};
use crate::staged::patch::{self, Stamp};
use crate::staged::{StagedPartition, StagedSegment, links, plan, staged_file};
use parking_lot::MutexGuard;
use pybroker_model::{BatchHeader, TimestampType, set_timestamp_type_and_max};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often what was appended meanwhile is flushed without the writer's lock before it is flushed with it.
const FLUSH_ROUNDS: usize = 4;

/// Where an attach has put the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Offset of the first record.
    pub base_offset: i64,
    /// After the last one.
    pub end_offset: i64,
    /// It had been done before.
    pub repeated: bool,
}

/// Names of the steps between which a crash can come, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Patched,
    Below,
    Intended,
    Rolled,
    LinkedOne,
    Linked,
    Published,
    Flushed,
}

impl Log {
    /// Attaches what the plan of `place` lists, after the records that are there, as the leader of `leader_epoch`.
    /// The records are on disk and the intent is done when it returns; doing it again answers the same offsets.
    ///
    /// If all of it has at most `copy_bytes_max` bytes it is copied to the end of the active segment instead of linked,
    /// so that many small commits do not make many small segments.
    ///
    /// `timestamps` is the rule that the ingest began with, whatever the topic's is by now: what is staged was
    /// validated by it. With LogAppendTime the records are stamped `now_ms`.
    ///
    /// The staged files were synced before the commit was decided. Offsets and epochs are patched before the lock is
    /// taken, for the log end as it is then; if others append meanwhile they are patched once more under it. What lies
    /// below is on disk before the intent is: a power cut leaves no gap in front of what is attached.
    ///
    /// # Errors
    /// [`AppendError`]; the log is then as it was before, and the attach can be tried again.
    pub fn attach(
        &self,
        place: &StagedPartition,
        leader_epoch: i32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<Attached, AppendError> {
        self.attach_until(
            place,
            leader_epoch,
            timestamps,
            now_ms,
            copy_bytes_max,
            |_| false,
        )
    }

    /// As [`Log::attach`]; goes no further, as a process that is killed, once `killed` says so of a step.
    pub(crate) fn attach_until(
        &self,
        place: &StagedPartition,
        leader_epoch: i32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
        killed: impl Fn(Step) -> bool,
    ) -> Result<Attached, AppendError> {
        // Retention and compaction must not touch the segments before the intent is done.
        let _maintenance = self.maintenance.lock();
        let intent_path = place.intent_path();
        if let Some(known) =
            intent::read(&intent_path)?.filter(|intent| intent.state == State::Done)
        {
            return Ok(Attached {
                base_offset: known.base,
                end_offset: known.end,
                repeated: true,
            });
        }
        // Of an attach that broke off after its links, the files are the log's: nobody patches them again but recovery.
        self.health.check()?;
        let staged = plan::segments(place)?;
        let append_time = (timestamps == TimestampType::LogAppendTime).then_some(now_ms);
        let expected = self.log_end_offset();
        let limit = copy_bytes_max.min(u64::from(self.config.load().segment_bytes));
        let mut copy = None;
        if staged.iter().map(|segment| segment.bytes).sum::<u64>() <= limit {
            copy = Some(read_all(&staged, append_time)?);
        } else {
            patch_all(&staged, expected, leader_epoch, append_time)?;
        }
        let stop = |step| {
            if killed(step) {
                return Err(AppendError::Storage(StorageError::Closed {
                    path: self.directory(),
                }));
            }
            Ok(())
        };
        stop(Step::Patched)?;

        let (writer, moved) = self.lock_flushed(&stop)?;
        let placed = self.place(
            writer,
            &intent_path,
            leader_epoch,
            append_time,
            &staged,
            copy,
            expected,
            now_ms,
            &stop,
        );
        // Others wait for what was flushed under the lock, whatever has become of the attach.
        self.tell_flushed(moved);
        let mut found = placed?;
        stop(Step::Published)?;
        self.flush()?;
        stop(Step::Flushed)?;
        found.state = State::Done;
        intent::write(&intent_path, Some(&found)).map_err(|error| self.fatal_sync(error))?;
        Ok(Attached {
            base_offset: found.base,
            end_offset: found.end,
            repeated: false,
        })
    }

    /// The writer's lock, at a moment when all that was appended is on disk; with the flushed end, if it moved under
    /// the lock: the caller tells of it when it has given the lock back.
    ///
    /// The sync is made without the lock. Only if others have appended during each of a few of them is the little that
    /// the last ones brought synced while they wait. Locks in the order of truncation: maintenance, flush, writer.
    fn lock_flushed(
        &self,
        stop: &impl Fn(Step) -> Result<(), AppendError>,
    ) -> Result<(MutexGuard<'_, Writer>, Option<i64>), AppendError> {
        for _ in 0..FLUSH_ROUNDS {
            self.flush()?;
            stop(Step::Below)?;
            let writer = self.writer.lock();
            self.check_usable(writer.closed)?;
            if self.unflushed_records() == 0 {
                return Ok((writer, None));
            }
        }
        let flushing = self.flush.lock();
        let writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        let moved = self.flush_locked(&flushing)?;
        Ok((writer, moved))
    }

    /// What of an attach happens under the writer's lock: the intent, durably, and then the records.
    #[expect(
        clippy::too_many_arguments,
        reason = "what was found out before the lock was taken"
    )]
    fn place(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        intent_path: &Path,
        leader_epoch: i32,
        append_time: Option<i64>,
        staged: &[StagedSegment],
        mut copy: Option<Vec<u8>>,
        expected: i64,
        now_ms: i64,
        stop: &impl Fn(Step) -> Result<(), AppendError>,
    ) -> Result<Intent, AppendError> {
        self.check_leads(leader_epoch)?;
        let base = self.log_end_offset();
        let rows: i64 = staged.iter().map(|segment| segment.rows).sum();
        let end = base
            .checked_add(rows)
            .filter(|&end| end < i64::MAX)
            .ok_or(AppendError::OffsetsExhausted { end: base })?;
        if copy.is_none() && base != expected {
            patch_all(staged, base, leader_epoch, None)?;
        }
        let mut found = Intent {
            base,
            end,
            leader_epoch,
            append_time: append_time.unwrap_or(-1),
            state: State::Linking,
        };
        if let Some(bytes) = copy.as_mut().filter(|_| rows > 0) {
            self.note_epoch(leader_epoch, base)?;
            found.state = State::Copying;
            intent::write(intent_path, Some(&found)).map_err(|error| self.fatal_sync(error))?;
            stop(Step::Intended)?;
            let last = assign(bytes, None, base, leader_epoch)?;
            debug_assert_eq!(last + 1, end);
            if let Err(error) = self.write(&mut writer, bytes, None, last, now_ms) {
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
            if let Err(error) = self.link_all(&mut writer, staged, base, now_ms, stop) {
                if matches!(error, AppendError::Storage(StorageError::Closed { .. })) {
                    return Err(error);
                }
                return Err(self.undo(&writer, staged, base, intent_path, error));
            }
            // Readers see it with the flush, as every record.
            self.log_end.store(end, Ordering::Release);
            // Recovery can do without it. An error must not say that nothing was attached, now that it is.
            if let Err(error) = self.write_snapshot(&mut writer, end) {
                self.fatal(error);
                writer.producers.changed = true;
            }
        }
        Ok(found)
    }

    /// Where an attach that is done has put the records; `None` while it is not.
    ///
    /// # Errors
    /// [`StorageError`] when the intent cannot be read.
    pub fn attached(place: &StagedPartition) -> Result<Option<Attached>, StorageError> {
        let known =
            intent::read(&place.intent_path())?.filter(|intent| intent.state == State::Done);
        Ok(known.map(|intent| Attached {
            base_offset: intent.base,
            end_offset: intent.end,
            repeated: true,
        }))
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
        // The active segment is empty and begins at `base`: the first attached one takes its place.
        segments.pop();
        let mut next = base;
        for one in staged {
            links::link(one, &directory, next)?;
            let segment = Segment::new(next, &self.dir, &self.handles, now_ms);
            segment.set_end(next + one.rows, one.bytes);
            // Open from before the flush on: it hears of errors that come to the patched pages.
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

    /// A full disk, mostly: the log goes on without the attach. What cannot be undone takes the directory offline.
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
        // The active segment begins at `base`, and a link may have taken the place of its empty file: the next append
        // must not go to a file without a name, and the name may be all that remembers the log's end.
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

/// The staged bytes in order, with the append time where the topic stamps it.
fn read_all(staged: &[StagedSegment], append_time: Option<i64>) -> Result<Vec<u8>, StorageError> {
    let mut bytes = Vec::new();
    for one in staged {
        let path = staged_file(one, LOG);
        let content = std::fs::read(&path).map_err(StorageError::io("read", &path))?;
        let corrupt = |reason: String| StorageError::Corrupt {
            path: path.clone(),
            reason,
        };
        if content.len() as u64 != one.bytes {
            return Err(corrupt(format!(
                "{} bytes, planned were {}",
                content.len(),
                one.bytes
            )));
        }
        let start = bytes.len();
        bytes.extend_from_slice(&content);
        let mut position = start;
        let mut rows = 0;
        while position < bytes.len() {
            let header = BatchHeader::parse(&bytes[position..])
                .and_then(|header| header.check().map(|()| header))
                .map_err(|error| corrupt(format!("at position {}: {error}", position - start)))?;
            let end = position + header.size_in_bytes();
            let Some(batch) = bytes.get_mut(position..end) else {
                return Err(corrupt("ends inside a batch".into()));
            };
            if let Some(time) = append_time {
                set_timestamp_type_and_max(batch, TimestampType::LogAppendTime, time);
            }
            rows += i64::from(header.last_offset_delta) + 1;
            position = end;
        }
        if rows != one.rows {
            return Err(corrupt(format!(
                "{rows} records, planned were {}",
                one.rows
            )));
        }
    }
    Ok(bytes)
}

fn patch_all(
    staged: &[StagedSegment],
    base: i64,
    leader_epoch: i32,
    append_time: Option<i64>,
) -> Result<(), StorageError> {
    let mut next = base;
    for one in staged {
        let stamp = Stamp {
            base: next,
            leader_epoch,
            append_time,
        };
        patch::segment(one, stamp)?;
        next += one.rows;
    }
    Ok(())
}
