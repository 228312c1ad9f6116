//! A hosted partition: appends, reads, and the offsets up to which clients may read.
//!
//! Readers take no lock: they load the role and the published offsets. Appends hold `gate` for reading from the role
//! check to the end of the write. A role change takes `gate` for writing, so an append that was checked before a
//! deletion or a new epoch never takes effect afterwards.

mod attaches;
mod following;
mod leading;
mod reading;
mod refused;
mod role_changes;

pub use following::FetchFrom;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::Guard;
use parking_lot::RwLock;
use pybroker_model::TopicIdPartition;
use pybroker_storage::{Log, LogDir};

use attaches::Attaches;
use refused::RefusedBatches;

use crate::progress::{Progress, Proposals};
use crate::{Leader, PartitionError, Role, TopicConfig};

/// A partition hosted on this broker.
#[derive(Debug)]
pub struct Partition {
    tip: TopicIdPartition,
    topic: Arc<str>,
    broker_id: i32,
    /// `None` if the log failed to open. The partition then stays `Offline`, and a later order replaces it.
    hosted: Option<HostedLog>,
    gate: RwLock<()>,
    /// Whether the write fence is set, which refuses appends because the topic is about to be deleted.
    fenced: AtomicBool,
    /// Whether the partition has declined a leadership before.
    declined: AtomicBool,
    progress: Arc<Progress>,
    proposals: Arc<Proposals>,
    attaches: Attaches,
    refused: RefusedBatches,
}

#[derive(Debug)]
struct HostedLog {
    log: Arc<Log>,
    /// Position of its log directory.
    dir: usize,
    log_dir: Arc<LogDir>,
}

impl Partition {
    /// Return a partition with an open log and no leader yet. From then on, flushes of the log raise the high
    /// watermark.
    pub(crate) fn hosting(
        tip: TopicIdPartition,
        topic: Arc<str>,
        broker_id: i32,
        config: Arc<TopicConfig>,
        log: Arc<Log>,
        place: (usize, Arc<LogDir>),
        proposals: &Arc<Proposals>,
    ) -> Arc<Self> {
        let (dir, log_dir) = place;
        let follower = Role::Follower {
            leader_epoch: -1,
            leader: -1,
        };
        let partition = Self::new(
            tip,
            topic,
            broker_id,
            config,
            follower,
            Some(HostedLog { log, dir, log_dir }),
            Arc::clone(proposals),
        );
        let partition = Arc::new(partition);
        if let Some(hosted) = &partition.hosted {
            let progress = Arc::clone(&partition.progress);
            let log = Arc::downgrade(&hosted.log);
            hosted
                .log
                .set_on_flush(Box::new(move |_flushed_end, woken| {
                    if let Some(log) = log.upgrade() {
                        progress.advance_with(&log, woken);
                        progress.flush_waiter.wake_with(woken);
                    }
                }));
        }
        partition
    }

    /// Return a partition whose log failed to open. Its operations fail with `Storage` until an order replaces it.
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
        // A partition that is offline never leads, so it proposes no ISR.
        let proposals = Arc::default();
        Arc::new(Self::new(
            tip, topic, broker_id, config, role, None, proposals,
        ))
    }

    fn new(
        tip: TopicIdPartition,
        topic: Arc<str>,
        broker_id: i32,
        config: Arc<TopicConfig>,
        role: Role,
        hosted: Option<HostedLog>,
        proposals: Arc<Proposals>,
    ) -> Self {
        // Start with the log start. The partition learns its high watermark from its leader, or by becoming leader.
        let known = hosted
            .as_ref()
            .map_or(0, |hosted| hosted.log.log_start_offset());
        Self {
            tip,
            topic,
            broker_id,
            hosted,
            gate: RwLock::new(()),
            fenced: AtomicBool::new(false),
            declined: AtomicBool::new(false),
            progress: Arc::new(Progress::new(role, config, known)),
            proposals,
            attaches: Attaches::default(),
            refused: RefusedBatches::default(),
        }
    }

    /// Return the topic id and the partition index.
    pub fn tip(&self) -> TopicIdPartition {
        self.tip
    }

    /// Return the id of this broker.
    pub(crate) fn broker_id(&self) -> i32 {
        self.broker_id
    }

    /// Return the name of the partition's topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Return the current role.
    pub fn role(&self) -> Guard<Arc<Role>> {
        self.progress.role()
    }

    /// Return the topic's current settings.
    pub fn config(&self) -> Guard<Arc<TopicConfig>> {
        self.progress.config()
    }

    /// Return whether fetches by followers that are out of sync are throttled.
    pub fn is_throttled_as_leader(&self) -> bool {
        let config = self.progress.config();
        config
            .throttled_as_leader
            .includes(self.tip.partition, self.broker_id)
    }

    /// Return whether this replica's fetches from the leader are throttled while it is out of sync.
    pub fn is_throttled_as_follower(&self) -> bool {
        let config = self.progress.config();
        config
            .throttled_as_follower
            .includes(self.tip.partition, self.broker_id)
    }

    /// Return whether this broker leads the partition and `broker` is in the ISR.
    pub fn has_in_sync(&self, broker: i32) -> bool {
        let role = self.progress.role();
        role.leader()
            .is_ok_and(|leader| leader.isr.contains(&broker))
    }

    /// Return the partition's log, if it could be opened.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.hosted.as_ref().map(|hosted| &hosted.log)
    }

    /// Return the index of the partition's log directory, if the log could be opened.
    pub fn dir(&self) -> Option<usize> {
        self.hosted.as_ref().map(|hosted| hosted.dir)
    }

    /// Return the partition's log directory, if the log could be opened.
    pub fn log_dir(&self) -> Option<&Arc<LogDir>> {
        self.hosted.as_ref().map(|hosted| &hosted.log_dir)
    }

    /// Return the high watermark: the end of the records that consumers may read.
    pub fn high_watermark(&self) -> i64 {
        self.progress.high_watermark.get()
    }

    /// Return the last stable offset: the smaller of the high watermark and the start of the first open transaction,
    /// but at least the log start.
    pub fn last_stable_offset(&self) -> i64 {
        let stable = self.progress.last_stable.get();
        stable.max(self.log_start_offset())
    }

    /// Return the log start offset.
    pub fn log_start_offset(&self) -> i64 {
        self.log().map_or(0, |log| log.log_start_offset())
    }

    /// Return the log end offset.
    pub fn log_end_offset(&self) -> i64 {
        self.log().map_or(0, |log| log.log_end_offset())
    }

    /// Return the last leader epoch in the log, or -1.
    pub fn last_epoch(&self) -> i32 {
        self.log()
            .and_then(|log| log.latest_epoch())
            .map_or(-1, |latest| latest.epoch)
    }

    /// Return the size of the log in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.log().map_or(0, |log| log.size_bytes())
    }

    /// Return the number of segments of the log.
    pub fn segment_count(&self) -> usize {
        self.log().map_or(0, |log| log.segment_count())
    }

    /// Return the number of appended records that are not yet flushed.
    pub fn unflushed_records(&self) -> i64 {
        self.log().map_or(0, |log| log.unflushed_records())
    }

    /// Return the current leader epoch, or -1 after the partition was stopped.
    pub fn leader_epoch(&self) -> i32 {
        self.progress.role().leader_epoch()
    }

    /// Apply the topic's settings, unless the partition already has newer ones.
    pub(crate) fn set_config(&self, config: &Arc<TopicConfig>) {
        let in_force = self.progress.set_config(config);
        if let Some(log) = self.log() {
            log.set_config(Arc::clone(&in_force.log));
        }
    }

    fn led<'a>(&'a self, role: &'a Role) -> Result<(&'a Leader, &'a HostedLog), PartitionError> {
        let leader = role.leader()?;
        // A partition without a log never becomes leader.
        let hosted = self.hosted.as_ref().ok_or(PartitionError::NotLeader)?;
        Ok((leader, hosted))
    }
}
