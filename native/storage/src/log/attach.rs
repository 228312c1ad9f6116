//! Attaching staged segments: links instead of copies, one append in the eyes of everybody else.
//!
//! A leader puts them at its log's end. A follower that has the same files staged puts them where its leader has, when
//! its log has come there; with the same stamps, so that both logs hold the same bytes.

use super::{Log, Writer};
use crate::error::{AppendError, StorageError};
use crate::staged::intent::{self, Intent, State};
use crate::staged::{StagedPartition, StagedSegment, content, patch, plan};
use notice::notice;
use parking_lot::MutexGuard;
use pybroker_model::TimestampType;
use std::sync::Arc;

mod notice;
mod placing;

pub use notice::AttachNotice;

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
            copy = Some(content::read_all(&staged, append_time)?);
        } else {
            patch::segments(&staged, expected, attaching.leader_epoch, append_time)?;
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

    fn check_ends_at(&self, base: i64) -> Result<(), AppendError> {
        let end = self.log_end_offset();
        if end == base {
            return Ok(());
        }
        Err(AppendError::UnexpectedOffset { got: base, end })
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
