//! One partition hosted here: append, read, and how far it may be shown.
//!
//! Readers take no lock: they load the role and the published offsets. Appends hold `gate` for reading while they
//! check the role and write, so that a change of role (`gate` for writing) has no append under way: what was resolved
//! before a delete or a new epoch never takes effect after it (R4).

mod reading;
mod role_changes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::Guard;
use parking_lot::{RwLock, RwLockReadGuard};
use pybroker_model::{ProduceRules, TimestampType, TopicIdPartition, ValidBatches};
use pybroker_storage::{AppendOrigin, Attached, FlushMode, Log, LogDir};

use crate::progress::Progress;
use crate::{AppendInfo, Commit, Leader, PartitionError, Role, TopicConfig, check_leader_epoch};

/// One partition hosted here.
#[derive(Debug)]
pub struct Partition {
    tip: TopicIdPartition,
    topic: Arc<str>,
    broker_id: i32,
    /// `None` if it could not be opened: such a partition is `Offline` for good; a later order makes a new one.
    hosted: Option<Hosted>,
    gate: RwLock<()>,
    /// Appends are refused until further notice: its topic is about to be deleted.
    fenced: AtomicBool,
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
            fenced: AtomicBool::new(false),
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
    pub fn dir(&self) -> Option<usize> {
        self.hosted.as_ref().map(|hosted| hosted.dir)
    }

    /// What `validate_produce` must check for this topic, now.
    pub fn produce_rules(&self, zstd_allowed: bool, now_ms: i64) -> ProduceRules {
        self.progress.config().produce_rules(zstd_allowed, now_ms)
    }

    /// Whether an append would wait longer than `patience` for somebody who writes to the log or changes the role.
    pub fn is_busy(&self, patience: Duration) -> bool {
        let changing = self.gate.try_read().is_none() && self.gate.try_read_for(patience).is_none();
        changing || self.log().is_some_and(|log| log.is_busy(patience))
    }

    /// [`pybroker_storage::Flusher::running`] of its log directory.
    pub fn running_sync(&self) -> Option<u64> {
        self.hosted.as_ref()?.log_dir.flusher().running()
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
        self.append_from(AppendOrigin::Client, -1, batches, required_acks, now_ms)
    }

    /// Appends as leader. `leader_epoch`: the one under which a coordinator has loaded what it writes upon, -1: any.
    /// `required_acks` -1 asks for `min.insync.replicas`; the caller then waits on [`Partition::committed`]. Schedules
    /// the flush of commit mode, for a duplicate that of its original.
    ///
    /// # Errors
    /// `NotLeader`, `FencedLeaderEpoch`, `UnknownLeaderEpoch`, `Deleted`, `NotEnoughReplicas`, `Storage`, and what the
    /// producer state refuses.
    pub fn append_from(
        &self,
        origin: AppendOrigin,
        leader_epoch: i32,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        let gate = self.gate.read();
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        if self.is_fenced() {
            return Err(PartitionError::NotLeader);
        }
        check_leader_epoch(leader_epoch, leader.leader_epoch)?;
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

    /// Attaches what an ingest has staged for this partition and its commit lists (R16), as leader; on disk when it
    /// returns. Blocks on the disk.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`; it can be tried again.
    pub fn attach(
        &self,
        directory: &str,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<Attached, PartitionError> {
        let gate = self.gate.read();
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        if self.is_fenced() {
            return Err(PartitionError::NotLeader);
        }
        let place = hosted.log_dir.staged_partition(self.tip, directory);
        let attached = hosted.log.attach(
            &place,
            leader.leader_epoch,
            timestamps,
            now_ms,
            copy_bytes_max,
        )?;
        drop(gate);
        self.progress.advance(&hosted.log);
        Ok(attached)
    }

    /// Holds the partition as it is led here: neither its role nor its log directory changes until the guard is dropped.
    /// Moves rely on it, which must see what is staged beside the log.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub(crate) fn hold_led(&self) -> Result<RwLockReadGuard<'_, ()>, PartitionError> {
        let gate = self.gate.read();
        self.check_led()?;
        Ok(gate)
    }

    /// Whether it is led here, so that records may be staged for it or attached.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub fn check_led(&self) -> Result<(), PartitionError> {
        self.led(&self.progress.role()).map(|_| ())
    }

    /// The log directory it lies in.
    pub fn log_dir(&self) -> Option<&Arc<LogDir>> {
        self.hosted.as_ref().map(|hosted| &hosted.log_dir)
    }

    /// Refuses appends (`NotLeader`, which clients try again) from now on, or takes them again. When it returns no
    /// append is under way: the log's end stays where it is while the partition is fenced.
    pub fn set_fenced(&self, fenced: bool) {
        self.fenced.store(fenced, Ordering::Release);
        drop(self.gate.write());
    }

    /// Whether appends are refused because the topic is about to be deleted. Look at it while holding what keeps the
    /// append and the role together.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Ready once `appended` is committed (high watermark above its last offset), or with the reason why it never
    /// will be. A plain future; dropping it takes the waiter out.
    pub fn committed(&self, appended: &AppendInfo) -> Commit {
        Commit::new(Arc::clone(&self.progress), appended.last_offset)
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
}
