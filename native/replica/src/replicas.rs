//! The table of all partitions hosted on this broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pybroker_model::{IdMap, TopicId, TopicIdPartition};
use pybroker_storage::{Log, ProducerCount, StorageError};

use crate::failures::{FailedDirs, OfflineReport, OnOffline};
use crate::legacies::Legacies;
use crate::log_dirs::{LogDirs, UnhostedReplicas};
use crate::move_table::Moves;
use crate::{
    BrokerLogSettings, Ingests, LocalPartition, Partition, PartitionError, Proposals,
    ReplicasConfig, Throttles, TopicConfig, TopicMap,
};

/// All partitions hosted on this broker.
#[derive(Debug)]
pub struct Replicas {
    pub(crate) config: ReplicasConfig,
    /// The topic map that each request loads.
    pub(crate) map: ArcSwap<TopicMap<Partition>>,
    pub(crate) dirs: LogDirs,
    /// Directories on disk that the broker does not host. Each change of the hosted partitions holds this lock, so
    /// batches of orders run one after the other.
    pub(crate) unhosted: Mutex<UnhostedReplicas>,
    pub(crate) log_settings: ArcSwap<BrokerLogSettings>,
    pub(crate) failed: Arc<FailedDirs>,
    pub(crate) ingests: Ingests,
    pub(crate) legacies: Legacies,
    /// Latest settings of topics that changed after an order for the topic was sent.
    changed_configs: Mutex<IdMap<TopicId, Arc<TopicConfig>>>,
    pub(crate) moves: Moves,
    pub(crate) proposals: Arc<Proposals>,
    offline: OfflineReport,
    pub(crate) throttles: Throttles,
    stopping: AtomicBool,
}

impl Replicas {
    /// Open the log directories and scan them; opens no log yet. Blocks on the disk.
    ///
    /// # Errors
    /// If another process uses a directory, a directory holds another owner's data, or no directory is usable.
    pub fn start(config: ReplicasConfig) -> Result<(Self, Vec<LocalPartition>), StorageError> {
        let dirs = LogDirs::open(&config)?;
        let (unhosted, list) = dirs.scan(&|text| (config.report)(text))?;
        let failed = Arc::new(FailedDirs::default());
        for (at, dir) in dirs.iter().enumerate() {
            if let Ok(log_dir) = dir.online() {
                let failed = Arc::clone(&failed);
                log_dir.set_on_failure(Box::new(move |reason| failed.note(at, reason)));
            }
        }
        let replicas = Self {
            log_settings: ArcSwap::from_pointee(config.log_settings),
            config,
            map: ArcSwap::default(),
            dirs,
            unhosted: Mutex::new(unhosted),
            failed,
            ingests: Ingests::default(),
            legacies: Legacies::default(),
            changed_configs: Mutex::default(),
            moves: Moves::default(),
            proposals: Arc::default(),
            offline: OfflineReport::default(),
            throttles: Throttles::default(),
            stopping: AtomicBool::new(false),
        };
        Ok((replicas, list))
    }

    /// Return the current map for the duration of one request: `snapshot().topic(id)?.partition(index)?`.
    #[inline]
    pub fn snapshot(&self) -> Guard<Arc<TopicMap<Partition>>> {
        self.map.load()
    }

    /// Return the open staged ingests.
    pub fn ingests(&self) -> &Ingests {
        &self.ingests
    }

    /// Return the ISR proposals of local leaders.
    pub fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// Return the replication throttles.
    pub fn throttles(&self) -> &Throttles {
        &self.throttles
    }

    /// Check all partitions that this broker leads for followers that have been behind for longer than `lag_max`
    /// (`replica.lag.time.max.ms`).
    pub fn judge_followers(&self, now: Instant, lag_max: Duration) {
        for partition in self.snapshot().partitions() {
            partition.judge_followers(now, lag_max);
        }
    }

    /// Register `told`, which is called on any thread with the partitions that went offline because their log directory
    /// failed. It must not block. Call this once.
    pub fn on_offline(&self, told: OnOffline) {
        self.offline.set(told);
    }

    /// Return the id of the hosted topic with this name.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.snapshot().topic_id(name)
    }

    /// Return one partition.
    #[must_use]
    pub fn partition(&self, tip: TopicIdPartition) -> Option<Arc<Partition>> {
        self.snapshot()
            .partition(tip.topic_id, tip.partition)
            .cloned()
    }

    /// Return the broker settings that apply when a log is opened or its settings change.
    pub fn log_settings(&self) -> BrokerLogSettings {
        **self.log_settings.load()
    }

    /// Change the broker settings.
    pub fn set_log_settings(&self, settings: BrokerLogSettings) {
        self.log_settings.store(Arc::new(settings));
    }

    /// Set `cordoned.log.dirs`: directories that get no new partitions.
    pub fn set_cordoned(&self, listed: &[String]) {
        self.dirs.set_cordoned(listed);
    }

    /// Apply changed topic settings without waiting for running orders. Each order checks `changed_configs` once its
    /// partitions are in the map.
    pub fn set_topic_config(&self, id: TopicId, config: &Arc<TopicConfig>) {
        self.changed_configs.lock().insert(id, Arc::clone(config));
        if let Some(topic) = self.snapshot().topic(id) {
            for (_, partition) in topic.partitions() {
                partition.set_config(config);
            }
        }
    }

    /// Apply settings that changed while an order opened its partitions.
    pub(crate) fn catch_up_config(&self, partition: &Partition) {
        let changed = self
            .changed_configs
            .lock()
            .get(&partition.tip().topic_id)
            .cloned();
        if let Some(config) = changed {
            partition.set_config(&config);
        }
    }

    /// Forget the changed settings of topics that are no longer hosted.
    pub(crate) fn forget_configs(&self, topics: impl Iterator<Item = TopicId>) {
        let map = self.snapshot();
        let mut changed = self.changed_configs.lock();
        for topic in topics.filter(|id| map.topic(*id).is_none()) {
            changed.remove(&topic);
        }
    }

    /// DeleteRecords: raise the log start of a partition, see [`Partition::delete_records`]; durable on return.
    ///
    /// # Errors
    /// As [`Partition::delete_records`]; `NotLeader` if it is not hosted.
    pub fn delete_records(
        &self,
        tip: TopicIdPartition,
        offset: i64,
    ) -> Result<i64, PartitionError> {
        let partition = self.partition(tip).ok_or(PartitionError::NotLeader)?;
        let log_start = partition.delete_records(offset)?;
        if let Some(dir) = partition.dir() {
            self.dirs
                .get(dir)
                .online()?
                .checkpoint_log_starts(&self.logs_of(dir))?;
        }
        Ok(log_start)
    }

    /// Return the logs in the log directory at this position.
    pub(crate) fn logs_of(&self, dir: usize) -> Vec<Arc<Log>> {
        self.partitions_of(dir)
            .iter()
            .filter_map(|partition| partition.log().cloned())
            .collect()
    }

    /// Return the partitions in the log directory at this position.
    pub(crate) fn partitions_of(&self, dir: usize) -> Vec<Arc<Partition>> {
        self.snapshot()
            .partitions()
            .filter(|partition| partition.dir() == Some(dir))
            .cloned()
            .collect()
    }

    /// Return the number of offline log directories.
    pub fn failed_dirs(&self) -> usize {
        self.dirs.iter().filter(|dir| dir.online().is_err()).count()
    }

    /// Return the counter of the producers that the partitions remember.
    pub fn producers(&self) -> &ProducerCount {
        self.dirs.producers()
    }

    /// Take a failed log directory offline: requests to its partitions fail, and their waiters wake up. Other
    /// directories continue.
    pub(crate) fn take_offline(&self, dir: usize, reason: &str) {
        self.report(&format!(
            "log directory {} is offline: {reason}",
            self.dirs.get(dir).path.display()
        ));
        let reason = Arc::from(reason);
        let partitions = self.partitions_of(dir);
        for partition in &partitions {
            partition.go_offline(&reason);
        }
        self.offline
            .tell(partitions.iter().map(|one| one.tip()).collect());
        if self.failed_dirs() == self.dirs.len() {
            (self.config.on_all_failed)(&format!(
                "all log directories are offline, the last one {}: {reason}",
                self.dirs.get(dir).path.display()
            ));
        }
    }

    /// Record that the broker is stopping.
    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Return whether the broker is stopping.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn report(&self, text: &str) {
        (self.config.report)(text);
    }

    /// Report a failure of one log.
    pub(crate) fn report_storage(&self, what: &dyn std::fmt::Display, error: &StorageError) {
        self.report(&format!("{what}: {error}"));
    }
}
