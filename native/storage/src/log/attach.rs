//! Linking of staged segments into a log: hard links instead of copies, visible as one append.
//!
//! A leader links them at its log end. A follower that has the same staged files links them at the leader's offsets,
//! once its log ends there, and with the same timestamps. Both logs then have the same bytes.

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

/// Number of flushes without the writer lock, before the remainder is flushed under the lock.
const FLUSH_ROUNDS: usize = 4;

/// Offsets of attached records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachResult {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset after the last record.
    pub end_offset: i64,
    /// Whether an earlier call had completed the attach.
    pub repeated: bool,
}

/// Parameters of an attach, except for the staged partition.
struct AttachParameters<'a> {
    leader_epoch: i32,
    append_time: Option<i64>,
    now_ms: i64,
    copy_bytes_max: u64,
    /// The leader's offsets, if this replica is a follower.
    given: Option<(i64, i64)>,
    /// A callback that the attach calls under the writer lock before the records are readable, and again if it is
    /// undone.
    announce: &'a dyn Fn(&Intent, bool),
}

/// The steps of an attach. Tests let the process crash between two of them.
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
    /// Attach the segments in the plan of `place` at the log end, as the leader of `leader_epoch`. On return the
    /// records are on disk and the intent is done; a repeated call returns the same offsets.
    ///
    /// If all of the records have at most `copy_bytes_max` bytes, they are copied to the end of the active segment
    /// instead of linked: many small commits must not make many small segments.
    ///
    /// `timestamps` is the topic's timestamp type when the ingest began, even if it has changed since: the staged
    /// records were validated by it. With LogAppendTime the records are stamped `now_ms`.
    ///
    /// The staged files were synced before the commit was decided. Offsets and epochs are patched before taking the
    /// lock, for the current log end; if other appends come first, they are patched again under the lock. All earlier
    /// records are on disk before the intent is written, so a power loss leaves no gap before the attached records.
    ///
    /// # Errors
    /// [`AppendError`]; the log is then unchanged, and the caller can retry.
    pub fn attach(
        &self,
        place: &StagedPartition,
        leader_epoch: i32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<AttachResult, AppendError> {
        self.attach_until(
            place,
            leader_epoch,
            timestamps,
            now_ms,
            copy_bytes_max,
            |_| false,
        )
    }

    /// Like [`Log::attach`], for the leader of a partition with followers: calls `announce` with the offsets before the
    /// records are readable, and with `None` if the attach fails.
    ///
    /// # Errors
    /// As [`Log::attach`].
    pub fn attach_and_announce(
        &self,
        place: &StagedPartition,
        leader_epoch: i32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
        announce: &dyn Fn(Option<AttachNotice>),
    ) -> Result<AttachResult, AppendError> {
        let holders: Arc<[i32]> = plan::read(place)?.holders.into();
        let announce = |intent: &Intent, undone: bool| {
            announce((!undone).then(|| notice(place, intent, &holders)));
        };
        let parameters = AttachParameters {
            leader_epoch,
            append_time: (timestamps == TimestampType::LogAppendTime).then_some(now_ms),
            now_ms,
            copy_bytes_max,
            given: None,
            announce: &announce,
        };
        self.attach_as(place, &parameters, &|_| false)
    }

    /// Attach this broker's staged segments as a follower, at the leader's offsets.
    ///
    /// # Errors
    /// As [`Log::attach`]; `UnexpectedOffset` if the log does not end at the leader's offset, `Corrupt` if the staged
    /// files differ from the leader's.
    pub fn attach_as_follower(
        &self,
        place: &StagedPartition,
        told: &AttachNotice,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<AttachResult, AppendError> {
        let parameters = AttachParameters {
            leader_epoch: told.leader_epoch,
            append_time: told.append_time,
            now_ms,
            copy_bytes_max,
            given: Some((told.base_offset, told.end_offset)),
            announce: &|_, _| {},
        };
        self.attach_as(place, &parameters, &|_| false)
    }

    /// Like [`Log::attach`]; stops like a killed process at the step for which `killed` returns true.
    pub(crate) fn attach_until(
        &self,
        place: &StagedPartition,
        leader_epoch: i32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
        killed: impl Fn(Step) -> bool,
    ) -> Result<AttachResult, AppendError> {
        let parameters = AttachParameters {
            leader_epoch,
            append_time: (timestamps == TimestampType::LogAppendTime).then_some(now_ms),
            now_ms,
            copy_bytes_max,
            given: None,
            announce: &|_, _| {},
        };
        self.attach_as(place, &parameters, &killed)
    }

    fn attach_as(
        &self,
        place: &StagedPartition,
        parameters: &AttachParameters<'_>,
        killed: &dyn Fn(Step) -> bool,
    ) -> Result<AttachResult, AppendError> {
        // Retention and compaction must not touch the segments before the intent is done.
        let _maintenance = self.maintenance.lock();
        let &AttachParameters {
            append_time,
            copy_bytes_max,
            ..
        } = parameters;
        let intent_path = place.intent_path();
        if let Some(known) = intent::read(&intent_path)?
            .filter(|intent| intent.state == State::Done && self.has_attached(intent))
        {
            return Ok(AttachResult {
                base_offset: known.base,
                end_offset: known.end,
                repeated: true,
            });
        }
        // If an earlier attach stopped after its links, the files belong to the log, and only recovery patches them
        // again.
        self.health.check()?;
        let staged = plan::segments(place)?;
        let expected = match parameters.given {
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
            patch::segments(&staged, expected, parameters.leader_epoch, append_time)?;
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
        let placed = self.place(writer, place, parameters, &staged, copy, expected, &stop);
        // Report the flush even if the attach failed, because waiters depend on this report.
        self.tell_flushed(moved);
        let mut found = placed?;
        stop(Step::Published)?;
        self.flush()?;
        stop(Step::Flushed)?;
        found.state = State::Done;
        intent::write(&intent_path, Some(&found)).map_err(|error| self.fatal_sync(error))?;
        Ok(AttachResult {
            base_offset: found.base,
            end_offset: found.end,
            repeated: false,
        })
    }

    /// Take the writer lock when everything appended is on disk. If the flushed end moved under the lock, return it;
    /// the caller publishes it after releasing the lock.
    ///
    /// The function first syncs without the lock. If other threads append during each of these syncs, it syncs the
    /// small remainder under the lock. Lock order as in a truncation: maintenance, flush, writer.
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
        reason: format!("{rows} records are staged here, but the leader has linked {told}"),
    })
}
