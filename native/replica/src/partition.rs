//! One partition hosted here: append, read, and how far it may be shown.
//!
//! Readers take no lock: they load the role and the published offsets. Appends hold `gate` for reading while they
//! check the role and write, so that a change of role (`gate` for writing) has no append under way: what was resolved
//! before a delete or a new epoch never takes effect after it (R4).

use std::sync::Arc;
use std::task::Waker;

use arc_swap::Guard;
use parking_lot::RwLock;
use pybroker_model::{ProduceRules, TopicIdPartition, ValidBatches};
use pybroker_storage::{AppendOrigin, FlushMode, Log, LogDir, LogSlice};

use crate::progress::Progress;
use crate::{
    AppendInfo, Commit, EpochEnd, FetchRead, Isolation, Leader, ListedOffset, OffsetSpec,
    PartitionError, PartitionRead, Registration, Role, TopicConfig, check_leader_epoch,
};

/// One partition hosted here.
#[derive(Debug)]
pub struct Partition {
    tip: TopicIdPartition,
    topic: Arc<str>,
    broker_id: i32,
    /// `None` if it could not be opened: such a partition is `Offline` for good; a later order makes a new one.
    hosted: Option<Hosted>,
    gate: RwLock<()>,
    progress: Arc<Progress>,
}

#[derive(Debug)]
struct Hosted {
    log: Arc<Log>,
    /// Position of its log directory.
    dir: usize,
    log_dir: Arc<LogDir>,
}

impl Partition {
    /// A partition with its open log, not leading yet (a follower of nobody). Flushes of the log raise the high
    /// watermark from here on.
    pub(crate) fn hosting(
        tip: TopicIdPartition,
        topic: Arc<str>,
        broker_id: i32,
        config: Arc<TopicConfig>,
        log: Arc<Log>,
        dir: usize,
        log_dir: Arc<LogDir>,
    ) -> Arc<Self> {
        let follower = Role::Follower {
            leader_epoch: -1,
            leader: -1,
        };
        let log_start = log.log_start_offset();
        let partition = Self::new(
            tip,
            topic,
            broker_id,
            config,
            follower,
            Some(Hosted { log, dir, log_dir }),
            log_start,
        );
        let partition = Arc::new(partition);
        if let Some(hosted) = &partition.hosted {
            let progress = Arc::clone(&partition.progress);
            let log = Arc::downgrade(&hosted.log);
            hosted.log.set_on_flush(Box::new(move |_flushed_end| {
                if let Some(log) = log.upgrade() {
                    progress.advance(&log);
                }
            }));
        }
        partition
    }

    /// A partition that could not be opened: it answers `Storage` until an order replaces it.
    pub(crate) fn offline(
        tip: TopicIdPartition,
        topic: Arc<str>,
        broker_id: i32,
        config: Arc<TopicConfig>,
        leader_epoch: i32,
        reason: Arc<str>,
    ) -> Arc<Self> {
        let role = Role::Offline {
            leader_epoch,
            reason,
        };
        Arc::new(Self::new(tip, topic, broker_id, config, role, None, 0))
    }

    fn new(
        tip: TopicIdPartition,
        topic: Arc<str>,
        broker_id: i32,
        config: Arc<TopicConfig>,
        role: Role,
        hosted: Option<Hosted>,
        high_watermark: i64,
    ) -> Self {
        Self {
            tip,
            topic,
            broker_id,
            hosted,
            gate: RwLock::new(()),
            progress: Arc::new(Progress::new(role, config, high_watermark)),
        }
    }

    /// Its identity.
    pub fn tip(&self) -> TopicIdPartition {
        self.tip
    }

    /// Name of its topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The role now.
    pub fn role(&self) -> Guard<Arc<Role>> {
        self.progress.role()
    }

    /// The topic's settings now.
    pub fn config(&self) -> Guard<Arc<TopicConfig>> {
        self.progress.config()
    }

    /// Its log, if it could be opened.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.hosted.as_ref().map(|hosted| &hosted.log)
    }

    /// Position of its log directory, if it could be opened.
    pub(crate) fn dir(&self) -> Option<usize> {
        self.hosted.as_ref().map(|hosted| hosted.dir)
    }

    /// What `validate_produce` must check for this topic, now.
    pub fn produce_rules(&self, zstd_allowed: bool, now_ms: i64) -> ProduceRules {
        self.progress.config().produce_rules(zstd_allowed, now_ms)
    }

    /// Appends what a client sent, see [`Partition::append_from`].
    ///
    /// # Errors
    /// As there.
    pub fn append(
        &self,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        self.append_from(AppendOrigin::Client, batches, required_acks, now_ms)
    }

    /// Appends as leader. `required_acks` -1 asks for `min.insync.replicas`; the caller then waits on
    /// [`Partition::committed`]. Schedules the flush of commit mode, for a duplicate that of its original.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `NotEnoughReplicas`, `Storage`, and what the producer state refuses.
    pub fn append_from(
        &self,
        origin: AppendOrigin,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        let gate = self.gate.read();
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        if required_acks == -1 {
            self.check_isr(leader)?;
        }
        let appended = hosted
            .log
            .append_as_leader(batches, leader.leader_epoch, origin, now_ms)?;
        drop(gate);
        let config = self.progress.config();
        match config.log.flush_mode {
            FlushMode::Commit => hosted.log_dir.flusher().request(&hosted.log),
            FlushMode::Os => {
                if hosted.log.unflushed_records() >= config.log.flush_messages {
                    hosted.log_dir.flusher().request(&hosted.log);
                }
                self.progress.advance(&hosted.log);
            }
        }
        Ok(AppendInfo {
            base_offset: appended.base_offset,
            last_offset: appended.last_offset,
            log_append_time: appended.log_append_time,
            log_start_offset: appended.log_start_offset,
        })
    }

    /// Ready once `appended` is committed (high watermark above its last offset), or with the reason why it never
    /// will be. A plain future; dropping it takes the waiter out.
    pub fn committed(&self, appended: &AppendInfo) -> Commit {
        Commit::new(Arc::clone(&self.progress), appended.last_offset)
    }

    /// Reads for a Fetch.
    ///
    /// # Errors
    /// `NotLeader`, `FencedLeaderEpoch`, `UnknownLeaderEpoch`, `OffsetOutOfRange`, `Storage`.
    pub fn read(&self, fetch: &FetchRead) -> Result<PartitionRead, PartitionError> {
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        check_leader_epoch(fetch.current_leader_epoch, leader.leader_epoch)?;
        let log = &hosted.log;
        let mut read = PartitionRead {
            records: LogSlice {
                file: None,
                position: 0,
                len: 0,
            },
            high_watermark: self.progress.high_watermark.get(),
            last_stable_offset: 0,
            log_start_offset: log.log_start_offset(),
            aborted: (fetch.isolation == Isolation::ReadCommitted).then(Vec::new),
            diverging: None,
        };
        // It moves first; what is stable is committed, so the watermark is at least there.
        read.last_stable_offset = self.progress.last_stable.get();
        read.high_watermark = read.high_watermark.max(read.last_stable_offset);
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
        let log_end = log.log_end_offset();
        if fetch.offset < read.log_start_offset || fetch.offset > log_end {
            return Err(self.out_of_range(log, fetch.offset));
        }
        let bound = match fetch.isolation {
            Isolation::ReadUncommitted => read.high_watermark,
            Isolation::ReadCommitted => read.last_stable_offset,
            Isolation::LogEnd => log_end,
        };
        if fetch.offset < bound {
            read.records = log.read(fetch.offset, fetch.max_bytes, bound, fetch.at_least_one)?;
            if let Some(aborted) = &mut read.aborted
                && read.records.len > 0
            {
                let transactions = log.aborted_transactions(fetch.offset, bound)?;
                aborted.extend(
                    transactions
                        .iter()
                        .map(|aborted| (aborted.producer_id, aborted.first_offset)),
                );
            }
        }
        Ok(read)
    }

    /// Wakes `waker` once when more can be read at `isolation` than up to `bound` (what the last read gave as its
    /// bound: high watermark or last stable offset), or when the partition stops. `None`: look again now.
    pub fn watch(&self, isolation: Isolation, bound: i64, waker: &Waker) -> Option<Registration> {
        let watched = match isolation {
            Isolation::ReadUncommitted | Isolation::LogEnd => &self.progress.high_watermark,
            Isolation::ReadCommitted => &self.progress.last_stable,
        };
        let registration = watched.register(bound, waker)?;
        // A stop stores the role, then wakes: one of the two sees the other.
        self.progress.role().leader().ok()?;
        Some(registration)
    }

    /// End of what consumers may see.
    pub fn high_watermark(&self) -> i64 {
        self.progress.high_watermark.get()
    }

    /// min(high watermark, first open transaction).
    pub fn last_stable_offset(&self) -> i64 {
        self.progress.last_stable.get()
    }

    /// First offset there is.
    pub fn log_start_offset(&self) -> i64 {
        self.log().map_or(0, |log| log.log_start_offset())
    }

    /// Offset of the next record.
    pub fn log_end_offset(&self) -> i64 {
        self.log().map_or(0, |log| log.log_end_offset())
    }

    /// Bytes on disk.
    pub fn size_bytes(&self) -> u64 {
        self.log().map_or(0, |log| log.size_bytes())
    }

    /// Records appended that are not known to be on disk.
    pub fn unflushed_records(&self) -> i64 {
        self.log().map_or(0, |log| log.unflushed_records())
    }

    /// The current leader epoch; -1 once stopped.
    pub fn leader_epoch(&self) -> i32 {
        self.progress.role().leader_epoch()
    }

    /// ListOffsets. Reads index and log files for timestamps: call it on the pool.
    ///
    /// # Errors
    /// As [`Partition::read`].
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
        let bound = match isolation {
            Isolation::ReadUncommitted => self.progress.high_watermark.get(),
            Isolation::ReadCommitted => self.progress.last_stable.get(),
            Isolation::LogEnd => log.log_end_offset(),
        };
        let found = match spec {
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
            OffsetSpec::MaxTimestamp => log.max_timestamp_offset(bound)?,
            OffsetSpec::Timestamp(timestamp) => log.offset_for_timestamp(timestamp, bound)?,
        };
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

    /// Moves the log start up to `offset`, -1: to the high watermark. Gives the new log start. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Partition::read`], and `Policy` if the topic is compacted only.
    pub fn delete_records(&self, offset: i64) -> Result<i64, PartitionError> {
        let role = self.progress.role();
        let (_, hosted) = self.led(&role)?;
        let policy = self.progress.config().log.cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(PartitionError::Policy(
                "records of a compacted topic cannot be deleted",
            ));
        }
        let high_watermark = self.progress.high_watermark.get();
        let offset = if offset == -1 { high_watermark } else { offset };
        Ok(hosted.log.delete_records(offset, high_watermark)?)
    }

    /// Notes how far a follower has got: its fetch offset, which it flushed before it claimed it.
    pub fn follower_fetched(&self, broker: i32, offset: i64) {
        if self.progress.claim(broker, offset)
            && let Some(log) = self.log()
        {
            self.progress.advance(log);
        }
    }

    /// Takes the leadership of `leader.leader_epoch`. The epoch is in the log's epoch cache, durably, before any
    /// record can be appended under it (R6).
    ///
    /// # Errors
    /// `FencedLeaderEpoch` for an older epoch than the current; `Storage`.
    pub(crate) fn become_leader(&self, leader: Leader) -> Result<(), PartitionError> {
        let gate = self.gate.write();
        let Some(hosted) = &self.hosted else {
            let role = self.progress.role();
            return Err(role.leader().err().unwrap_or(PartitionError::NotLeader));
        };
        let current = self.progress.role().leader_epoch();
        if leader.leader_epoch < current {
            return Err(PartitionError::FencedLeaderEpoch {
                requested: leader.leader_epoch,
                current,
            });
        }
        if leader.leader_epoch > current {
            hosted.log.begin_epoch(leader.leader_epoch)?;
        }
        let same_epoch = leader.leader_epoch == current;
        self.progress.lead(self.broker_id, leader, same_epoch);
        drop(gate);
        self.progress.advance(&hosted.log);
        Ok(())
    }

    /// Follows `leader` from now on.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` for an older epoch than the current.
    pub(crate) fn follow(&self, leader: i32, leader_epoch: i32) -> Result<(), PartitionError> {
        let role = self.progress.role();
        let current = role.leader_epoch();
        if leader_epoch < current {
            return Err(PartitionError::FencedLeaderEpoch {
                requested: leader_epoch,
                current,
            });
        }
        if let Role::Offline { reason, .. } = &**role {
            return Err(PartitionError::Storage(Arc::clone(reason)));
        }
        self.step_down(Role::Follower {
            leader_epoch,
            leader,
        });
        Ok(())
    }

    /// Its log directory failed.
    pub(crate) fn go_offline(&self, reason: &Arc<str>) {
        let leader_epoch = self.leader_epoch();
        self.step_down(Role::Offline {
            leader_epoch,
            reason: Arc::clone(reason),
        });
    }

    /// Leads no more: `role` says what it is now. After it no append takes effect; those who wait are told.
    pub(crate) fn step_down(&self, role: Role) {
        let gate = self.gate.write();
        self.progress.step_down(role);
        drop(gate);
    }

    /// Follows the topic's settings from now on, unless newer ones are in force.
    pub(crate) fn set_config(&self, config: &Arc<TopicConfig>) {
        let in_force = self.progress.set_config(config);
        if let Some(log) = self.log() {
            log.set_config(Arc::clone(&in_force.log));
        }
    }

    fn led<'a>(&'a self, role: &'a Role) -> Result<(&'a Leader, &'a Hosted), PartitionError> {
        let leader = role.leader()?;
        // A partition without a log is never made leader.
        let hosted = self.hosted.as_ref().ok_or(PartitionError::NotLeader)?;
        Ok((leader, hosted))
    }

    fn check_isr(&self, leader: &Leader) -> Result<(), PartitionError> {
        let required = self.progress.config().min_insync_replicas;
        if leader.has_enough(required) {
            Ok(())
        } else {
            Err(PartitionError::NotEnoughReplicas {
                isr: leader.isr.len(),
                required,
            })
        }
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
