//! Following: what a follower asks of its leader, and what it does with the answer.
//!
//! The log of a follower is a prefix of its leader's. Each fetch names the epoch of the last record that is here; where
//! the leader has another history it says how far both agree (KIP-595's diverging epoch), and the rest is cut off. Each
//! step holds `gate` for reading and looks at the role under it: what was asked of one leader never takes effect after
//! the partition has got another.

use parking_lot::RwLockReadGuard;
use pybroker_storage::FlushMode;

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

    /// Appends what the leader of `leader_epoch` has sent, as it is; gives the log's end. It counts as had only after
    /// [`Partition::flush_fetched`].
    ///
    /// # Errors
    /// `NotLeader` if it does not follow any more, `FencedLeaderEpoch`; `Corrupt` or `Batch` for records that are
    /// damaged or do not follow upon the log; `Storage`.
    pub fn append_fetched(
        &self,
        leader_epoch: i32,
        records: &mut [u8],
        now_ms: i64,
    ) -> Result<i64, PartitionError> {
        let (_gate, hosted) = self.followed(leader_epoch)?;
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

    /// Waits until what was appended may be claimed: on disk in commit mode, at once otherwise. Blocks on the disk.
    ///
    /// # Errors
    /// `Storage`.
    pub fn flush_fetched(&self) -> Result<(), PartitionError> {
        if let Some(log) = self.log()
            && self.progress.config().log.flush_mode == FlushMode::Commit
        {
            log.flush()?;
        }
        Ok(())
    }

    /// Takes over from the leader of `leader_epoch` what is committed, and where its log starts. After
    /// [`Partition::flush_fetched`].
    ///
    /// # Errors
    /// As [`Partition::append_fetched`].
    pub fn follow_bounds(
        &self,
        leader_epoch: i32,
        high_watermark: i64,
        log_start: i64,
    ) -> Result<(), PartitionError> {
        let (_gate, hosted) = self.followed(leader_epoch)?;
        self.progress
            .follow_high_watermark(high_watermark, &hosted.log);
        let end = hosted.log.log_end_offset();
        if log_start > hosted.log.log_start_offset() && log_start <= end {
            hosted.log.delete_records(log_start, log_start)?;
        }
        Ok(())
    }

    /// Cuts off what the leader does not have: `common` is the largest epoch, with its end, that the leader knows of
    /// those up to the last one here. Gives the log's end. Durable when it returns.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`].
    pub fn cut_diverging(
        &self,
        leader_epoch: i32,
        common: EpochEnd,
        now_ms: i64,
    ) -> Result<i64, PartitionError> {
        let (_gate, hosted) = self.followed(leader_epoch)?;
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

    /// Begins anew at `offset`: the leader does not have what would follow upon this log any more.
    ///
    /// # Errors
    /// As [`Partition::append_fetched`].
    pub fn start_over(
        &self,
        leader_epoch: i32,
        offset: i64,
        now_ms: i64,
    ) -> Result<(), PartitionError> {
        let (_gate, hosted) = self.followed(leader_epoch)?;
        hosted.log.truncate_fully_and_start_at(offset, now_ms)?;
        self.progress.cut_to(offset);
        Ok(())
    }

    fn followed(
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
