//! All partitions hosted here.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pybroker_model::{IdMap, TopicId, TopicIdPartition};
use pybroker_storage::{Layout, Log, StagedDeletion, StorageError};

use crate::failures::FailedDirs;
use crate::found::Found;
use crate::ingest::Ingests;
use crate::legacies::Legacies;
use crate::log_dirs::LogDirs;
use crate::moves::{FutureReplica, Moves};
use crate::{BrokerLogSettings, Partition, PartitionError, Role, StopOrder, TopicConfig, TopicMap};

/// Gives the time in milliseconds since the Unix epoch, to threads that nobody calls with it.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Takes a line about trouble on the disk. Called on any thread; must not block.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// What [`Replicas::start`] needs.
#[derive(Clone)]
pub struct ReplicasConfig {
    /// This broker.
    pub broker_id: i32,
    /// The cluster that the data must belong to.
    pub cluster_id: String,
    /// `log.dirs`.
    pub log_dirs: Vec<PathBuf>,
    /// `log.dir.layout`.
    pub layout: Layout,
    /// `delete.topic.delay.ms`: how long a deleted partition waits for removal.
    pub delete_delay_ms: i64,
    /// `num.recovery.threads.per.data.dir`.
    pub threads_per_dir: usize,
    /// Settings of the broker that go into each log.
    pub log_settings: BrokerLogSettings,
    /// The time, for background threads.
    pub clock: Clock,
    /// Lines for the log.
    pub report: Report,
    /// Gets one line when the last log directory has failed: the broker can do nothing any more and has to halt.
    pub on_all_failed: Report,
}

impl std::fmt::Debug for ReplicasConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReplicasConfig")
            .field("broker_id", &self.broker_id)
            .field("log_dirs", &self.log_dirs)
            .finish_non_exhaustive()
    }
}

/// A partition directory found by the scan at start.
#[derive(Debug, Clone)]
pub struct LocalPartition {
    /// Its log directory.
    pub log_dir: PathBuf,
    /// Its own path.
    pub directory: PathBuf,
    /// From the directory's name; `None` in the layout by id.
    pub topic: Option<String>,
    /// Partition index.
    pub partition: i32,
    /// From `partition.metadata`.
    pub topic_id: Option<TopicId>,
    /// Why it must not be served as it is.
    pub problem: Option<String>,
}

/// A log directory as DescribeLogDirs shows it.
#[derive(Debug)]
pub struct LogDirDescription {
    /// As configured.
    pub path: PathBuf,
    /// Why it is offline.
    pub failure: Option<String>,
    /// What is hosted in it.
    pub partitions: Vec<Arc<Partition>>,
    /// What is on its way into it.
    pub futures: Vec<FutureReplica>,
}

/// All partitions hosted here.
#[derive(Debug)]
pub struct Replicas {
    pub(crate) config: ReplicasConfig,
    /// What requests load.
    pub(crate) map: ArcSwap<TopicMap<Partition>>,
    pub(crate) dirs: LogDirs,
    /// Directories on disk that are not hosted. Its lock is held by whoever changes what is hosted: orders are
    /// carried out one batch after the other.
    pub(crate) found: Mutex<Found>,
    pub(crate) log_settings: ArcSwap<BrokerLogSettings>,
    pub(crate) failed: Arc<FailedDirs>,
    pub(crate) ingests: Ingests,
    pub(crate) legacies: Legacies,
    /// The last settings of topics whose settings changed since they were ordered.
    changed_configs: Mutex<IdMap<TopicId, Arc<TopicConfig>>>,
    pub(crate) moves: Moves,
    stopping: AtomicBool,
}

impl Replicas {
    /// Opens the log directories and looks at what lies in them; no log is opened yet. Blocks on the disk.
    ///
    /// # Errors
    /// A directory in use by another process or with another owner's data, or none that can be used.
    pub fn start(config: ReplicasConfig) -> Result<(Self, Vec<LocalPartition>), StorageError> {
        let dirs = LogDirs::open(&config)?;
        let (found, list) = dirs.scan(&|text| (config.report)(text))?;
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
            found: Mutex::new(found),
            failed,
            ingests: Ingests::default(),
            legacies: Legacies::default(),
            changed_configs: Mutex::default(),
            moves: Moves::default(),
            stopping: AtomicBool::new(false),
        };
        Ok((replicas, list))
    }

    /// The map now, for the duration of one request: `snapshot().topic(id)?.partition(index)?`.
    #[inline]
    pub fn snapshot(&self) -> Guard<Arc<TopicMap<Partition>>> {
        self.map.load()
    }

    /// The topic that has this name among those hosted here.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.snapshot().topic_id(name)
    }

    /// One partition.
    #[must_use]
    pub fn partition(&self, tip: TopicIdPartition) -> Option<Arc<Partition>> {
        self.snapshot()
            .partition(tip.topic_id, tip.partition)
            .cloned()
    }

    /// Settings of the broker that go into each log that is opened or configured from now on.
    pub fn log_settings(&self) -> BrokerLogSettings {
        **self.log_settings.load()
    }

    /// Changes them.
    pub fn set_log_settings(&self, settings: BrokerLogSettings) {
        self.log_settings.store(Arc::new(settings));
    }

    /// A topic's settings changed. Never waits for orders under way: those look here once their partitions are in the
    /// map.
    pub fn set_topic_config(&self, id: TopicId, config: &Arc<TopicConfig>) {
        self.changed_configs.lock().insert(id, Arc::clone(config));
        if let Some(topic) = self.snapshot().topic(id) {
            for (_, partition) in topic.partitions() {
                partition.set_config(config);
            }
        }
    }

    /// Settings that changed while the partitions of an order were being opened.
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

    /// Forgets the settings of topics that are not hosted any more.
    pub(crate) fn forget_configs(&self, stopped: &[StopOrder]) {
        let map = self.snapshot();
        let mut changed = self.changed_configs.lock();
        for order in stopped
            .iter()
            .filter(|order| map.topic(order.tip.topic_id).is_none())
        {
            changed.remove(&order.tip.topic_id);
        }
    }

    /// DeleteRecords: moves the log start of a partition, see [`Partition::delete_records`]; durable when it returns.
    ///
    /// # Errors
    /// As there; `NotLeader` if it is not hosted.
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

    /// The logs in the log directory with this position.
    pub(crate) fn logs_of(&self, dir: usize) -> Vec<Arc<Log>> {
        self.partitions_of(dir)
            .iter()
            .filter_map(|partition| partition.log().cloned())
            .collect()
    }

    /// The partitions in the log directory with this position.
    pub(crate) fn partitions_of(&self, dir: usize) -> Vec<Arc<Partition>> {
        self.snapshot()
            .partitions()
            .filter(|partition| partition.dir() == Some(dir))
            .cloned()
            .collect()
    }

    /// What DescribeLogDirs shows. Blocks on the disk.
    pub fn describe_log_dirs(&self) -> Vec<LogDirDescription> {
        let describe = |(at, dir): (usize, &crate::log_dirs::Dir)| LogDirDescription {
            path: dir.path.clone(),
            failure: dir.failure(),
            partitions: self.partitions_of(at),
            futures: self.futures_of(at),
        };
        self.dirs.iter().enumerate().map(describe).collect()
    }

    /// Log directories that are offline.
    pub fn failed_dirs(&self) -> usize {
        self.dirs.iter().filter(|dir| dir.online().is_err()).count()
    }

    /// What waits for removal: its log directory and what is known of it. Blocks on the disk.
    ///
    /// # Errors
    /// `Storage` if a directory cannot be listed.
    pub fn staged(&self) -> Result<Vec<(PathBuf, StagedDeletion)>, PartitionError> {
        Ok(self.dirs.staged()?)
    }

    /// Removes a staged directory for good; gives the bytes freed. Blocks on the disk.
    ///
    /// # Errors
    /// `Invalid` for a path that is not in a `deleting` directory of ours, `Storage`.
    pub fn purge(&self, path: &Path) -> Result<u64, PartitionError> {
        let dir = self
            .dirs
            .holding_staged(path)
            .ok_or(PartitionError::Invalid("not a staged directory"))?;
        Ok(dir.online()?.purge(path)?)
    }

    /// A log directory failed: its partitions answer so from now on, those who wait are told; the others go on.
    pub(crate) fn take_offline(&self, dir: usize, reason: &str) {
        self.report(&format!(
            "log directory {} is offline: {reason}",
            self.dirs.get(dir).path.display()
        ));
        let reason = Arc::from(reason);
        for partition in self.partitions_of(dir) {
            partition.go_offline(&reason);
        }
        if self.failed_dirs() == self.dirs.len() {
            (self.config.on_all_failed)(&format!(
                "all log directories are offline, the last one {}: {reason}",
                self.dirs.get(dir).path.display()
            ));
        }
    }

    /// The clean stop (R24), after the last produce was answered: no append takes effect any more, then each
    /// directory is flushed and closed: snapshots, checkpoints, clean-shutdown marker. A directory that is not
    /// finished after `timeout` gets no marker; the next start recovers it.
    ///
    /// # Errors
    /// One sentence for each directory that was not closed cleanly.
    pub fn shutdown(self: &Arc<Self>, timeout: Duration) -> Result<(), String> {
        let deadline = Instant::now() + timeout;
        self.stopping.store(true, Ordering::Release);
        self.cancel_moves(deadline);
        let _orders = self.found.lock();
        let (done, closed) = mpsc::channel();
        let mut waiting = 0;
        for at in 0..self.dirs.len() {
            let partitions = self.partitions_of(at);
            for partition in &partitions {
                partition.step_down(Role::Stopped { deleted: false });
            }
            let Ok(log_dir) = self.dirs.get(at).online() else {
                continue;
            };
            let logs: Vec<_> = partitions
                .iter()
                .filter_map(|partition| {
                    Some((Arc::clone(partition.log()?), partition.high_watermark()))
                })
                .collect();
            let (log_dir, done) = (Arc::clone(log_dir), done.clone());
            // A thread of its own: a disk that hangs must not hold the stop beyond its time.
            let close = move || {
                let result = log_dir.close(&logs);
                // Given up before it is told: the caller may let go of the directory's lock then.
                drop((log_dir, logs));
                drop(done.send((at, result)));
            };
            match std::thread::Builder::new()
                .name(format!("close-{at}"))
                .spawn(close)
            {
                Ok(_) => waiting += 1,
                Err(error) => return Err(format!("no thread to close log directories: {error}")),
            }
        }
        let mut problems = Vec::new();
        for _ in 0..waiting {
            match closed.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((_, Ok(()))) => {}
                Ok((at, Err(error))) => {
                    problems.push(format!(
                        "{} was not closed cleanly: {error}",
                        self.dirs.get(at).path.display()
                    ));
                }
                Err(_) => {
                    problems.push("the log directories were not closed in time".to_owned());
                    break;
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }

    /// Whether the broker stops.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn report(&self, text: &str) {
        (self.config.report)(text);
    }

    /// Trouble with one log while others go on.
    pub(crate) fn report_storage(&self, what: &dyn std::fmt::Display, error: &StorageError) {
        self.report(&format!("{what}: {error}"));
    }
}
