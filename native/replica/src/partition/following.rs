//! The follower's side: its fetch requests to the leader, and how it applies the responses.
//!
//! A follower's log is a prefix of its leader's. Each fetch names the epoch of the follower's last record. If the
//! leader's log differs, the leader returns the offset up to which both logs agree (KIP-595's diverging epoch), and the
//! follower truncates the rest. Each step holds `gate` for reading and checks the role under it: a response from an
//! earlier leader never takes effect.

use std::task::Waker;

use parking_lot::RwLockReadGuard;
use pybroker_storage::{AttachNotice, FlushMode, Log};

use super::{HostedLog, Partition};
use crate::{EpochEnd, PartitionError, Role, check_leader_epoch};

/// Position of a follower's next fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchFrom {
    /// Epoch of the leader that the follower follows.
    pub leader_epoch: i32,
    /// Log end offset.
    pub offset: i64,
    /// Epoch of the last record before the offset, or -1 without a record.
    pub last_epoch: i32,
    /// Log start offset.
    pub log_start: i64,
}

impl Partition {
    /// Return the next fetch position; `None` if the partition does not follow `leader` or has no usable log.
    pub fn fetch_from(&self, leader: i32) -> Option<FetchFrom> {
        // Hold the gate. Otherwise the log could already have an epoch whose leadership has not begun yet.
        let _gate = self.gate.read();
        let role = self.progress.role();
        let Role::Follower {
            leader_epoch,
            leader: followed,
        } = **role
        else {
            return None;
        };
        let log = self.log().filter(|_| followed == leader)?;
        Some(FetchFrom {
            leader_epoch,
            offset: log.log_end_offset(),
            last_epoch: log.latest_epoch().map_or(-1, |latest| latest.epoch),
            log_start: log.log_start_offset(),
        })
    }

    /// Append the records in the leader's response to a fetch from `asked` without changes. Return the log end.
    /// Requests a flush; only after it may the follower's fetches claim the records ([`Partition::may_claim`]).
    ///
    /// # Errors
    /// `NotLeader` if it no longer follows, `FencedLeaderEpoch`; `Corrupt` or `Batch` for damaged records; `Storage`,
    /// also if the log end has changed since the fetch.
    pub fn append_fetched(
        &self,
        asked: &FetchFrom,
        records: &[u8],
        now_ms: i64,
    ) -> Result<i64, PartitionError> {
        let (_gate, hosted) = self.followed(asked)?;
        self.cut_behind_damage(&hosted.log, now_ms)?;
        let end = hosted.log.append_as_follower(records, now_ms)?;
        let config = self.progress.config();
        let flush = match config.log.flush_mode {
            FlushMode::Commit => true,
            FlushMode::Os => hosted.log.unflushed_records() >= config.log.flush_messages,
        };
        if flush {
            hosted.log_dir.flusher().request(&hosted.log);
        }
        Ok(end)
    }

    /// Attach staged records at the offsets in the leader's response to a fetch from `asked`; return the log end. The
    /// result is durable on return. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`]; `Storage` also if the staged files differ from the leader's.
    pub(crate) fn attach_fetched(
        &self,
        asked: &FetchFrom,
        told: &AttachNotice,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<i64, PartitionError> {
        let (_gate, hosted) = self.followed(asked)?;
        let place = hosted.log_dir.staged_partition(self.tip, &told.ingest);
        let place = place.with_plan(told.plan);
        let log = &hosted.log;
        let attached = log.attach_as_follower(&place, told, now_ms, copy_bytes_max)?;
        Ok(attached.end_offset)
    }

    /// Return whether a fetch may claim all records below `offset`: in commit mode if they are flushed, else always. If
    /// not, wake `waker` after the next flush or role change. Only the last waker is kept.
    pub fn may_claim(&self, offset: i64, waker: &Waker) -> bool {
        let Some(log) = self.log() else { return false };
        self.is_safe(log, offset) || {
            self.progress.flush_waiter.set(waker);
            self.is_safe(log, offset)
        }
    }

    /// Request a flush of records that were unflushed at a restart, because no append requests it.
    pub fn request_flush(&self) {
        if let Some(hosted) = &self.hosted {
            hosted.log_dir.flusher().request(&hosted.log);
        }
    }

    fn is_safe(&self, log: &Log, offset: i64) -> bool {
        self.progress.config().log.flush_mode == FlushMode::Os || log.flushed_end_offset() >= offset
    }

    /// Apply the high watermark and the log start of the leader of `leader_epoch`. The high watermark is limited to
    /// this replica's flushed end.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`].
    pub fn follow_bounds(
        &self,
        leader_epoch: i32,
        high_watermark: i64,
        log_start: i64,
    ) -> Result<(), PartitionError> {
        let (_gate, hosted) = self.follows(leader_epoch)?;
        self.cut_behind_damage(&hosted.log, 0)?;
        self.progress
            .follow_high_watermark(high_watermark, &hosted.log);
        let end = hosted.log.log_end_offset();
        if log_start > hosted.log.log_start_offset() && log_start <= end {
            hosted.log.delete_records(log_start, log_start)?;
            self.progress.log_start_raised(&hosted.log);
        }
        Ok(())
    }

    /// Truncate the log at the first record that was damaged when the log was opened; call this once the leader has
    /// responded. The next fetch copies the records from that offset again.
    fn cut_behind_damage(&self, log: &Log, now_ms: i64) -> Result<(), PartitionError> {
        let Some(lost) = log.lost_from() else {
            return Ok(());
        };
        log.truncate_to(lost, now_ms)?;
        self.progress.cut_to(log.log_end_offset());
        Err(PartitionError::storage(format_args!(
            "records from offset {lost} are damaged; copying them again"
        )))
    }

    /// Truncate records that the leader does not have. `common` comes from the leader's response to a fetch from
    /// `asked`. It is the leader's largest epoch that is not above this log's last epoch, with the end offset of that
    /// epoch. Return the log end. Durable on return.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`].
    pub fn cut_diverging(
        &self,
        asked: &FetchFrom,
        common: EpochEnd,
        now_ms: i64,
    ) -> Result<i64, PartitionError> {
        let (_gate, hosted) = self.followed(asked)?;
        let log = &hosted.log;
        // The end of that epoch in this log. The leader does not have the later epochs of this log. If this log lacks
        // the epoch, an older epoch ends before it, and the next fetch compares the older one.
        let mine = log
            .end_offset_for(common.leader_epoch)
            .map_or(0, |(_, end)| end);
        let end = mine.min(common.end_offset).max(0);
        log.truncate_to(end, now_ms)?;
        self.progress.cut_to(log.log_end_offset());
        Ok(log.log_end_offset())
    }

    /// Truncate the whole log and start at `offset`: the leader no longer has the records that follow the log end in
    /// `asked`.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`].
    pub fn start_over(
        &self,
        asked: &FetchFrom,
        offset: i64,
        now_ms: i64,
    ) -> Result<(), PartitionError> {
        let (_gate, hosted) = self.followed(asked)?;
        hosted.log.truncate_fully_and_start_at(offset, now_ms)?;
        self.progress.cut_to(offset);
        Ok(())
    }

    /// Like [`Partition::follows`], and check that the log end is still `asked.offset`. After a move between log
    /// directories the partition may have another log, and the response does not apply to it.
    fn followed(
        &self,
        asked: &FetchFrom,
    ) -> Result<(RwLockReadGuard<'_, ()>, &HostedLog), PartitionError> {
        let (gate, hosted) = self.follows(asked.leader_epoch)?;
        let end = hosted.log.log_end_offset();
        if end != asked.offset {
            return Err(PartitionError::storage(format_args!(
                "the log ends at {end}, but the response continues at {}",
                asked.offset
            )));
        }
        Ok((gate, hosted))
    }

    fn follows(
        &self,
        leader_epoch: i32,
    ) -> Result<(RwLockReadGuard<'_, ()>, &HostedLog), PartitionError> {
        let gate = self.gate.read();
        let role = self.progress.role();
        match &**role {
            Role::Follower {
                leader_epoch: current,
                ..
            } => check_leader_epoch(leader_epoch, *current)?,
            Role::Leader(_) => return Err(PartitionError::NotLeader),
            other => return Err(other.leader().err().unwrap_or(PartitionError::NotLeader)),
        }
        let hosted = self.hosted.as_ref().ok_or(PartitionError::NotLeader)?;
        Ok((gate, hosted))
    }
}
