//! Attaching staged segments: links instead of copies, one append in the eyes of everybody else.
//!
//! A leader puts them at its log's end. A follower that has the same files staged puts them where its leader has, when
//! its log has come there; with the same stamps, so that both logs hold the same bytes.

use super::append::assign;
use super::{Log, Segments, Writer};
use crate::error::{AppendError, StorageError};
use crate::file_names::LOG;
use crate::files;
use crate::segment::Segment;
use crate::staged::intent::{self, Intent, State};
use crate::staged::patch::{self, Stamp};
use crate::staged::{StagedPartition, StagedSegment, links, plan, staged_file, waiting};
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

/// Where a leader has put what an ingest staged, for its followers to do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachNotice {
    /// The ingest's name, see `LogDir::staged_partition`.
    pub ingest: Arc<str>,
    /// Number of its plan.
    pub plan: u32,
    /// Offset of the first record.
    pub base_offset: i64,
    /// After the last one.
    pub end_offset: i64,
    /// Of the leader that attached it.
    pub leader_epoch: i32,
    /// The stamp of a topic with LogAppendTime.
    pub append_time: Option<i64>,
    /// Ids of the brokers that have it staged: they attach it themselves, the others copy the records.
    pub holders: Arc<[i32]>,
}

/// What an attach is to do, but for the place.
struct Attaching<'a> {
    leader_epoch: i32,
    append_time: Option<i64>,
    now_ms: i64,
    copy_bytes_max: u64,
    /// Of a follower: where the leader has put it.
    given: Option<(i64, i64)>,
    /// Hears of it under the writer's lock, before anybody can read the records; and that it is undone.
    announce: &'a dyn Fn(&Intent, bool),
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

    /// As [`Log::attach`], as the leader of a partition with followers: `announce` is told where, before anybody can
    /// read the records, and told `None` if nothing comes of it.
    ///
    /// # Errors
    /// As there.
    pub fn attach_and_announce(
        &self,
        place: &StagedPartition,
        leader_epoch: i32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
        announce: &dyn Fn(Option<AttachNotice>),
    ) -> Result<Attached, AppendError> {
        let holders: Arc<[i32]> = plan::read(place)?.holders.into();
        let announce = |intent: &Intent, undone: bool| {
            announce((!undone).then(|| notice(place, intent, &holders)));
        };
        let attaching = Attaching {
            leader_epoch,
            append_time: (timestamps == TimestampType::LogAppendTime).then_some(now_ms),
            now_ms,
            copy_bytes_max,
            given: None,
            announce: &announce,
        };
        self.attach_as(place, &attaching, &|_| false)
    }

    /// Attaches as a follower what this broker has staged, where the leader says that it is.
    ///
    /// # Errors
    /// As [`Log::attach`]; `UnexpectedOffset` if the log does not end where the leader has put it, `Corrupt` if what is
    /// staged here is not that.
    pub fn attach_as_follower(
        &self,
        place: &StagedPartition,
        told: &AttachNotice,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<Attached, AppendError> {
        let attaching = Attaching {
            leader_epoch: told.leader_epoch,
            append_time: told.append_time,
            now_ms,
            copy_bytes_max,
            given: Some((told.base_offset, told.end_offset)),
            announce: &|_, _| {},
        };
        self.attach_as(place, &attaching, &|_| false)
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
        let attaching = Attaching {
            leader_epoch,
            append_time: (timestamps == TimestampType::LogAppendTime).then_some(now_ms),
            now_ms,
            copy_bytes_max,
            given: None,
            announce: &|_, _| {},
        };
        self.attach_as(place, &attaching, &killed)
    }

    fn attach_as(
        &self,
        place: &StagedPartition,
        attaching: &Attaching<'_>,
        killed: &dyn Fn(Step) -> bool,
    ) -> Result<Attached, AppendError> {
        // Retention and compaction must not touch the segments before the intent is done.
        let _maintenance = self.maintenance.lock();
        let &Attaching {
            append_time,
            copy_bytes_max,
            ..
        } = attaching;
        let intent_path = place.intent_path();
        if let Some(known) = intent::read(&intent_path)?
            .filter(|intent| intent.state == State::Done && self.has_attached(intent))
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
        let expected = match attaching.given {
            Some((base, end)) => {
                check_rows(place, &staged, end - base)?;
                self.check_ends_at(base)?;
                base
            }
            None => self.log_end_offset(),
        };
        let limit = copy_bytes_max.min(u64::from(self.config.load().segment_bytes));
        let mut copy = None;
        if staged.iter().map(|segment| segment.bytes).sum::<u64>() <= limit {
            copy = Some(read_all(&staged, append_time)?);
        } else {
            patch_all(&staged, expected, attaching.leader_epoch, append_time)?;
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
        let placed = self.place(writer, place, attaching, &staged, copy, expected, &stop);
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
        place: &StagedPartition,
        attaching: &Attaching<'_>,
        staged: &[StagedSegment],
        mut copy: Option<Vec<u8>>,
        expected: i64,
        stop: &impl Fn(Step) -> Result<(), AppendError>,
    ) -> Result<Intent, AppendError> {
        let &Attaching {
            leader_epoch,
            append_time,
            now_ms,
            ..
        } = attaching;
        let intent_path = &place.intent_path();
        match attaching.given {
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
            patch_all(staged, base, leader_epoch, None)?;
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
            (attaching.announce)(&found, false);
            let last = assign(bytes, None, base, leader_epoch)?;
            debug_assert_eq!(last + 1, end);
            if let Err(error) = self.write(&mut writer, bytes, None, last, now_ms) {
                (attaching.announce)(&found, true);
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
            (attaching.announce)(&found, false);
            if let Err(error) = self.link_all(&mut writer, staged, base, now_ms, stop) {
                if matches!(error, AppendError::Storage(StorageError::Closed { .. })) {
                    return Err(error);
                }
                (attaching.announce)(&found, true);
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

    /// What is attached to this log and still lies staged in `log_dir`, which is its own: a leader that begins tells its
    /// followers of that.
    ///
    /// # Errors
    /// [`StorageError`] when it cannot be read.
    pub fn attached(&self, log_dir: &Path) -> Result<Vec<AttachNotice>, StorageError> {
        let mut found = Vec::new();
        for (place, intent) in waiting(log_dir, self.id, State::Done)? {
            if intent.end > intent.base && self.has_attached(&intent) {
                let holders = plan::read(&place)?.holders.into();
                found.push(notice(&place, &intent, &holders));
            }
        }
        Ok(found)
    }

    /// Whether this log holds what the intent says was attached. A truncation may have taken it out again since: then it
    /// ends before, or other records, of a later epoch, have come to these offsets. What is below the log's start was
    /// there.
    fn has_attached(&self, intent: &Intent) -> bool {
        let start = self.log_start_offset();
        let held = |offset: i64| {
            offset < start
                || intent.leader_epoch < 0
                || self.epoch_for(offset) == Some(intent.leader_epoch)
        };
        intent.end == intent.base
            || (self.log_end_offset() >= intent.end && held(intent.base) && held(intent.end - 1))
    }

    fn check_ends_at(&self, base: i64) -> Result<(), AppendError> {
        let end = self.log_end_offset();
        if end == base {
            return Ok(());
        }
        Err(AppendError::UnexpectedOffset { got: base, end })
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

fn notice(place: &StagedPartition, intent: &Intent, holders: &Arc<[i32]>) -> AttachNotice {
    AttachNotice {
        ingest: place.ingest().into(),
        plan: place.plan(),
        base_offset: intent.base,
        end_offset: intent.end,
        leader_epoch: intent.leader_epoch,
        append_time: (intent.append_time >= 0).then_some(intent.append_time),
        holders: Arc::clone(holders),
    }
}

fn check_rows(
    place: &StagedPartition,
    staged: &[StagedSegment],
    told: i64,
) -> Result<(), StorageError> {
    let rows: i64 = staged.iter().map(|segment| segment.rows).sum();
    if rows == told {
        return Ok(());
    }
    Err(StorageError::Corrupt {
        path: place.plan_path(),
        reason: format!("{rows} records are staged, the leader has attached {told}"),
    })
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
