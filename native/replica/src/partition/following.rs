//! Following: what a follower asks of its leader, and what it does with the answer.
//!
//! The log of a follower is a prefix of its leader's. Each fetch names the epoch of the last record that is here; where
//! the leader has another history it says how far both agree (KIP-595's diverging epoch), and the rest is cut off. Each
//! step holds `gate` for reading and looks at the role under it: what was asked of one leader never takes effect after
//! the partition has got another.

use std::task::Waker;

use parking_lot::RwLockReadGuard;
use pybroker_storage::{AttachNotice, FlushMode, Log};

use super::{Hosted, Partition};
use crate::{EpochEnd, PartitionError, Role, check_leader_epoch};

/// Where a follower's next fetch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchFrom {
    /// The leadership that it follows.
    pub leader_epoch: i32,
    /// The end of its log.
    pub offset: i64,
    /// Epoch of the last record before it, -1: there is none.
    pub last_epoch: i32,
    /// Where its log starts.
    pub log_start: i64,
}

impl Partition {
    /// What to ask of this leader; `None`: another one leads, or nobody, or the data cannot be used.
    pub fn fetch_from(&self, leader: i32) -> Option<FetchFrom> {
        // A leadership that begins meanwhile has its epoch in the log already.
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

    /// Appends what the leader has answered to a fetch from `asked`, as it is; gives the log's end. It counts as had only
    /// once it is on disk ([`Partition::may_claim`]); the flush is asked for here.
    ///
    /// # Errors
    /// `NotLeader` if it does not follow any more, `FencedLeaderEpoch`; `Corrupt` or `Batch` for records that are
    /// damaged; `Storage`, also if the log does not end any more where it did.
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

    /// Attaches what is staged here where the leader has, as it has answered to a fetch from `asked`; on disk when it
    /// returns, with the log's end. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`]; `Storage` also if it is not staged here as the leader has it.
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

    /// Whether everything below `offset` counts as had, so that a fetch from there may claim it: on disk in commit mode,
    /// at once otherwise. If not, `waker` is woken after the next flush, or when the partition's role changes; only the
    /// last waker is.
    pub fn may_claim(&self, offset: i64, waker: &Waker) -> bool {
        let Some(log) = self.log() else { return false };
        self.is_safe(log, offset) || {
            self.progress.flush_waiter.set(waker);
            self.is_safe(log, offset)
        }
    }

    /// Asks for the flush of what is not on disk: after a restart nobody else does.
    pub fn request_flush(&self) {
        if let Some(hosted) = &self.hosted {
            hosted.log_dir.flusher().request(&hosted.log);
        }
    }

    fn is_safe(&self, log: &Log, offset: i64) -> bool {
        self.progress.config().log.flush_mode == FlushMode::Os || log.flushed_end_offset() >= offset
    }

    /// Takes over from the leader of `leader_epoch` what is committed, as far as it is safe here, and where its log
    /// starts.
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

    /// Once the leader has answered: cuts off what stands behind records that were damaged when the log was opened. From
    /// there on everything is copied anew, beginning with the next fetch.
    fn cut_behind_damage(&self, log: &Log, now_ms: i64) -> Result<(), PartitionError> {
        let Some(lost) = log.lost_from() else {
            return Ok(());
        };
        log.truncate_to(lost, now_ms)?;
        self.progress.cut_to(log.log_end_offset());
        Err(PartitionError::storage(format_args!(
            "records from {lost} on were damaged, and are copied anew"
        )))
    }

    /// Cuts off what the leader does not have: `common` is the largest epoch, with its end, that the leader knows of
    /// those up to the last one here; its answer to a fetch from `asked`. Gives the log's end. Durable when it returns.
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
        // The end of that epoch here: later epochs of this log are not the leader's. Where this log has not even that
        // epoch, an older one ends before it, and the next fetch finds out how far that agrees.
        let mine = log
            .end_offset_for(common.leader_epoch)
            .map_or(0, |(_, end)| end);
        let end = mine.min(common.end_offset).max(0);
        log.truncate_to(end, now_ms)?;
        self.progress.cut_to(log.log_end_offset());
        Ok(log.log_end_offset())
    }

    /// Begins anew at `offset`: the leader does not have what would follow upon this log, which ends where `asked` says.
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

    /// As [`Partition::follows`], and the log still ends where it did when that was asked: another log may have taken
    /// its place since, whose end has another answer.
    fn followed(
        &self,
        asked: &FetchFrom,
    ) -> Result<(RwLockReadGuard<'_, ()>, &Hosted), PartitionError> {
        let (gate, hosted) = self.follows(asked.leader_epoch)?;
        let end = hosted.log.log_end_offset();
        if end != asked.offset {
            return Err(PartitionError::storage(format_args!(
                "the log ends at {end}, and the answer follows upon {}",
                asked.offset
            )));
        }
        Ok((gate, hosted))
    }

    fn follows(
        &self,
        leader_epoch: i32,
    ) -> Result<(RwLockReadGuard<'_, ()>, &Hosted), PartitionError> {
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
