//! Reads for Fetch, ListOffsets and OffsetForLeaderEpoch, and waiting for new data. No read takes a lock.

use std::task::Waker;
use std::time::Instant;

use pybroker_storage::{Log, LogSlice};

use super::Partition;
use super::attaches::NextAttach;
use crate::{
    EpochEnd, FetchRead, Follower, Isolation, Leader, ListedOffset, OffsetSpec, PartitionError,
    PartitionRead, Registration, Role, check_leader_epoch,
};

impl Partition {
    /// Read for a Fetch.
    ///
    /// # Errors
    /// `NotLeader`, `FencedLeaderEpoch`, `UnknownLeaderEpoch`, `OffsetOutOfRange`, `Storage`, `Corrupt`; on a follower
    /// `OffsetNotAvailable`.
    pub fn read(&self, fetch: &FetchRead) -> Result<PartitionRead, PartitionError> {
        self.read_as(None, fetch)
    }

    /// Like [`Partition::read`], but a read for a `replica` stops at staged records that the replica attaches from its
    /// own files.
    fn read_as(
        &self,
        replica: Option<i32>,
        fetch: &FetchRead,
    ) -> Result<PartitionRead, PartitionError> {
        let role = self.progress.role();
        let (leader_epoch, hosted) = match (&**role, &self.hosted) {
            (
                Role::Follower {
                    leader_epoch,
                    leader: 0..,
                },
                Some(hosted),
            ) if fetch.any_replica => (*leader_epoch, hosted),
            _ => {
                let (leader, hosted) = self.led(&role)?;
                (leader.leader_epoch, hosted)
            }
        };
        check_leader_epoch(fetch.current_leader_epoch, leader_epoch)?;
        let log = &hosted.log;
        let mut read = PartitionRead {
            records: LogSlice {
                file: None,
                position: 0,
                len: 0,
            },
            bound: -1,
            high_watermark: self.progress.high_watermark.get(),
            last_stable_offset: 0,
            log_start_offset: log.log_start_offset(),
            aborted: (fetch.isolation == Isolation::ReadCommitted).then(Vec::new),
            diverging: None,
            attach: None,
        };
        // The last stable offset is raised before the high watermark, and stable records are committed. So return a
        // high watermark of at least that offset. The log start may also have passed it.
        read.last_stable_offset = self.progress.last_stable.get().max(read.log_start_offset);
        read.high_watermark = read.high_watermark.max(read.last_stable_offset);
        let log_end = log.log_end_offset();
        read.bound = match fetch.isolation {
            Isolation::ReadUncommitted => read.high_watermark,
            Isolation::ReadCommitted => read.last_stable_offset,
            Isolation::LogEnd => log_end,
        };
        if fetch.last_fetched_epoch >= 0 {
            let end = self.epoch_end(log, fetch.last_fetched_epoch);
            if end.leader_epoch < 0 || end.end_offset < 0 {
                return Err(self.out_of_range(log, fetch.offset));
            }
            if end.leader_epoch < fetch.last_fetched_epoch || end.end_offset < fetch.offset {
                read.diverging = Some(end);
                return Ok(read);
            }
        }
        if matches!(**role, Role::Follower { .. }) && fetch.offset > read.high_watermark {
            return Err(PartitionError::OffsetNotAvailable {
                requested: fetch.offset,
                known: read.high_watermark,
            });
        }
        if fetch.offset < read.log_start_offset || fetch.offset > log_end {
            return Err(self.out_of_range(log, fetch.offset));
        }
        let mut limit = read.bound;
        // The log end was read before, so the list has every attach below it.
        match replica.and_then(|replica| self.attaches.next_attach(replica, fetch.offset, log_end))
        {
            None => {}
            Some(NextAttach::Below(base)) => limit = limit.min(base),
            Some(NextAttach::Here(told)) => {
                read.attach = Some(told);
                return Ok(read);
            }
        }
        if fetch.offset < limit {
            let bytes_max = fetch.max_bytes;
            read.records = log.read(fetch.offset, bytes_max, limit, fetch.at_least_one)?;
            if let Some(aborted) = &mut read.aborted
                && read.records.len > 0
            {
                let transactions = log.aborted_transactions(fetch.offset, read.bound)?;
                aborted.extend(
                    transactions
                        .iter()
                        .map(|aborted| (aborted.producer_id, aborted.first_offset)),
                );
            }
        }
        Ok(read)
    }

    /// Read for another replica, up to the log end at any isolation level. If the request names the current leader
    /// epoch, its fetch offset counts as the end of the replica's flushed log. Once the follower has caught up, propose
    /// to add it to the ISR.
    ///
    /// # Errors
    /// As [`Partition::read`]. If the broker is not a replica: `UnknownLeaderEpoch`, or `NotLeader` if the request
    /// names no epoch. `StaleBrokerEpoch` if the broker epoch is outdated.
    pub fn read_for_follower(
        &self,
        follower: Follower,
        fetch: &FetchRead,
        now: Instant,
    ) -> Result<PartitionRead, PartitionError> {
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        let (requested, current) = (fetch.current_leader_epoch, leader.leader_epoch);
        check_leader_epoch(requested, current)?;
        if !leader.replicas.contains(&follower.broker) {
            return Err(if requested < 0 {
                PartitionError::NotLeader
            } else {
                PartitionError::UnknownLeaderEpoch { requested, current }
            });
        }
        let fetch = &FetchRead {
            isolation: Isolation::LogEnd,
            ..*fetch
        };
        let read = self.read_as(Some(follower.broker), fetch);
        if let Err(PartitionError::Corrupt(damage)) = &read
            && leader.isr.len() > 1
        {
            self.give_up(damage);
        }
        let read = read?;
        // The follower fetches the same offset again, perhaps because it rejected the records. Check them for damage.
        if read.records.len > 0
            && self.progress.gives(follower.broker, fetch.offset)
            && leader.isr.len() > 1
            && let Some(damage) = hosted.log.damage_at(fetch.offset)
        {
            self.give_up(&damage);
            return Err(PartitionError::Corrupt(damage.into()));
        }
        if read.diverging.is_none()
            && requested >= 0
            && let Some(proposal) =
                self.progress
                    .claimed(&hosted.log, follower, requested, fetch.offset, now)?
        {
            self.propose(requested, proposal);
        }
        Ok(read)
    }

    /// Return the replica from which a consumer should read at `offset` (KIP-392): the most advanced in-sync replica
    /// for which `is_near` holds. `None` means this leader.
    pub fn near_replica(&self, offset: i64, is_near: impl Fn(i32) -> bool) -> Option<i32> {
        if is_near(self.broker_id) {
            return None;
        }
        self.progress.most_advanced(offset, is_near)
    }

    /// Return the lag of a consumer at `offset`: the number of records up to the high watermark, and the first
    /// timestamp (in milliseconds) of the batch with the consumer's next record, or -1 if there is none. Return `None`
    /// if the broker does not host the partition, or its high watermark is below the start of its leader epoch. Reads
    /// index and log files.
    pub fn lag(&self, offset: i64) -> Option<(i64, i64)> {
        const HEADER_BYTES: usize = 61;
        const FIRST_TIMESTAMP: core::ops::Range<usize> = 27..35;
        let log = self.log()?;
        if self.lags_epoch_start() {
            return None;
        }
        let (start, end) = (log.log_start_offset(), self.high_watermark());
        let first = offset.max(start);
        if first >= end {
            return Some((0, -1));
        }
        let header = log.read(first, 0, end, true).ok().and_then(|slice| {
            let len = slice.len.min(HEADER_BYTES);
            LogSlice { len, ..slice }.to_vec().ok()
        });
        let time = header
            .as_deref()
            .and_then(|header| header.get(FIRST_TIMESTAMP)?.try_into().ok())
            .map_or(-1, i64::from_be_bytes);
        Some((end - first, time))
    }

    /// Wake `waker` once when data beyond `bound` (from the last read) becomes readable at `isolation`, or when the
    /// partition stops. If the result is `None`, the caller must read again now instead of waiting.
    pub fn watch(&self, isolation: Isolation, bound: i64, waker: &Waker) -> Option<Registration> {
        let watched = match isolation {
            Isolation::ReadUncommitted => &self.progress.high_watermark,
            Isolation::ReadCommitted => &self.progress.last_stable,
            Isolation::LogEnd => &self.progress.log_end,
        };
        let registration = watched.register(bound, waker)?;
        // A stop stores the role before it wakes waiters. So it either wakes this waiter, or this check sees the new
        // role.
        let role = self.progress.role();
        matches!(**role, Role::Leader(_) | Role::Follower { .. }).then_some(registration)
    }

    /// Return whether this broker leads, but its high watermark has not reached the start of its leader epoch. An
    /// earlier leader may have returned a higher one to clients (KIP-207).
    pub fn lags_epoch_start(&self) -> bool {
        let role = self.progress.role();
        role.leader().is_ok_and(|leader| self.lags(leader))
    }

    fn lags(&self, leader: &Leader) -> bool {
        self.progress.high_watermark.get() < leader.start_offset
    }

    /// ListOffsets. For timestamps it reads index and log files, so call it on the thread pool.
    ///
    /// # Errors
    /// As [`Partition::read`]. `OffsetNotAvailable` if the answer to a client depends on records that may be committed,
    /// but are above the high watermark that a new leader knows so far (KIP-207).
    pub fn list_offset(
        &self,
        spec: OffsetSpec,
        isolation: Isolation,
        current_leader_epoch: i32,
    ) -> Result<ListedOffset, PartitionError> {
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        check_leader_epoch(current_leader_epoch, leader.leader_epoch)?;
        let log = &hosted.log;
        let lags = isolation != Isolation::LogEnd && self.lags(leader);
        let bound = match isolation {
            Isolation::ReadUncommitted => self.progress.high_watermark.get(),
            Isolation::ReadCommitted => self.last_stable_offset(),
            Isolation::LogEnd => log.log_end_offset(),
        };
        let not_available = PartitionError::OffsetNotAvailable {
            requested: leader.start_offset,
            known: bound,
        };
        let found = match spec {
            OffsetSpec::Latest if lags => return Err(not_available),
            OffsetSpec::Latest => {
                return Ok(ListedOffset {
                    offset: bound,
                    timestamp: -1,
                    leader_epoch: leader.leader_epoch,
                });
            }
            OffsetSpec::Earliest => {
                let start = log.log_start_offset();
                let leader_epoch = log.epoch_for(start).unwrap_or(-1);
                return Ok(ListedOffset {
                    offset: start,
                    timestamp: -1,
                    leader_epoch,
                });
            }
            // A record above the high watermark may be committed and have a larger timestamp.
            OffsetSpec::MaxTimestamp if lags => log
                .max_timestamp_offset(leader.start_offset)?
                .filter(|found| found.offset < bound),
            OffsetSpec::MaxTimestamp => log.max_timestamp_offset(bound)?,
            OffsetSpec::Timestamp(timestamp) => log.offset_for_timestamp(timestamp, bound)?,
        };
        if lags && found.is_none() {
            return Err(not_available);
        }
        Ok(found.map_or(ListedOffset::NONE, |found| ListedOffset {
            offset: found.offset,
            timestamp: found.timestamp,
            leader_epoch: found.leader_epoch.unwrap_or(-1),
        }))
    }

    /// OffsetForLeaderEpoch.
    ///
    /// # Errors
    /// As [`Partition::read`].
    pub fn end_offset_for_epoch(
        &self,
        epoch: i32,
        current_leader_epoch: i32,
    ) -> Result<EpochEnd, PartitionError> {
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        check_leader_epoch(current_leader_epoch, leader.leader_epoch)?;
        if epoch == leader.leader_epoch {
            return Ok(EpochEnd {
                leader_epoch: epoch,
                end_offset: hosted.log.log_end_offset(),
            });
        }
        Ok(self.epoch_end(&hosted.log, epoch))
    }

    /// Return whether a leader epoch is older than this log's first one. Such an epoch belongs to an earlier
    /// incarnation of the topic, whose epochs this log continues. Return false if this broker does not lead.
    pub fn is_before(&self, epoch: i32) -> bool {
        let role = self.progress.role();
        self.led(&role)
            .is_ok_and(|(_, hosted)| hosted.log.first_epoch().is_some_and(|first| epoch < first))
    }

    fn epoch_end(&self, log: &Log, epoch: i32) -> EpochEnd {
        match log.end_offset_for(epoch) {
            Some((leader_epoch, end_offset)) => EpochEnd {
                leader_epoch,
                end_offset,
            },
            None => EpochEnd {
                leader_epoch: -1,
                end_offset: -1,
            },
        }
    }

    fn out_of_range(&self, log: &Log, requested: i64) -> PartitionError {
        PartitionError::OffsetOutOfRange {
            requested,
            log_start: log.log_start_offset(),
            end: log.log_end_offset(),
        }
    }
}
