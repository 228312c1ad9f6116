//! The data plane of one broker and its lifecycle: log directories, then listeners, then changes of settings, then
//! shutdown. `broker` has Python's interface to it, one file per subject.

pub(crate) mod block_on;
pub(crate) mod control_queue;
pub(crate) mod pending_append;
pub(crate) mod record_watch;
pub(crate) mod settings;
pub(crate) mod wake;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use pybroker_client::ConnectionSettings;
use pybroker_fetcher::{Fetchers, Level};
use pybroker_model::TopicIdPartition;
use pybroker_replica::{Background, LocalPartition, Partition, Replicas, ReplicasConfig};
use pybroker_server::clock::SystemClock;
use pybroker_server::config::{ListenerConfig, LogLevel, LogSink, ServerConfig};
use pybroker_server::control_plane::ControlPlane;
use pybroker_server::metadata_view::MetadataHolder;
use pybroker_server::tls::TlsListener;
use pybroker_server::{Server, StartError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::log_dir_error;
use control_queue::ControlQueue;
use settings::NativeSettings;

/// Maximum bytes of requests that wait for Python.
const CONTROL_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// State shared by the objects of `broker`.
pub(crate) struct DataPlane {
    broker_id: i32,
    cluster_id: String,
    log_dirs: Vec<PathBuf>,
    settings: ArcSwap<NativeSettings>,
    pub(crate) queue: Arc<ControlQueue>,
    pub(crate) metadata: Arc<MetadataHolder>,
    /// The replicas, set by `start_replicas`.
    replicas: ArcSwapOption<Replicas>,
    /// TLS configuration of listeners, by name.
    pub(crate) tls: Mutex<HashMap<String, TlsListener>>,
    /// The server, set by `start_server`.
    server: ArcSwapOption<Server>,
    /// The fetchers, set by `start_fetchers`.
    fetchers: ArcSwapOption<Fetchers>,
    background: Mutex<Option<Background>>,
    /// Held by `stop`, so that a second call waits for the first.
    stopping: Mutex<bool>,
}

impl DataPlane {
    /// Create the data plane without opening anything.
    pub(crate) fn new(
        broker_id: i32,
        cluster_id: String,
        log_dirs: Vec<PathBuf>,
        settings: NativeSettings,
    ) -> std::io::Result<Self> {
        let metadata = Arc::new(MetadataHolder::new(&cluster_id));
        let (of_clients, of_mutations) = settings.quota_windows;
        metadata.quotas().set_windows(of_clients, of_mutations);
        Ok(Self {
            broker_id,
            metadata,
            cluster_id,
            log_dirs,
            queue: Arc::new(ControlQueue::new(
                CONTROL_QUEUE_BYTES_MAX,
                settings.queued_requests_max,
            )?),
            settings: ArcSwap::from_pointee(settings),
            replicas: ArcSwapOption::empty(),
            tls: Mutex::default(),
            server: ArcSwapOption::empty(),
            fetchers: ArcSwapOption::empty(),
            background: Mutex::new(None),
            stopping: Mutex::new(false),
        })
    }

    /// Return the partitions and log directories, if they are open.
    pub(crate) fn open_replicas(&self) -> Option<Arc<Replicas>> {
        self.replicas.load_full()
    }

    /// Return the partitions and log directories. Raises `RuntimeError` if the caller uses them before
    /// `start_replicas`.
    pub(crate) fn replicas(&self) -> PyResult<Arc<Replicas>> {
        self.open_replicas().ok_or_else(|| {
            PyRuntimeError::new_err(
                "log_dirs.start has not been called, or the broker is shut down",
            )
        })
    }

    /// Return the listeners and their connections, if they are open.
    pub(crate) fn server(&self) -> Option<Arc<Server>> {
        self.server.load_full()
    }

    /// Return a partition hosted by this broker.
    pub(crate) fn partition(&self, tip: TopicIdPartition) -> PyResult<Option<Arc<Partition>>> {
        Ok(self.replicas()?.partition(tip))
    }

    fn log_sink(&self) -> LogSink {
        let queue = Arc::clone(&self.queue);
        Arc::new(move |level, text: &str| queue.log(level, text.to_owned()))
    }

    /// Lock and scan the log directories, and start their background work. Raises `LogDirError`.
    pub(crate) fn start_replicas(&self, py: Python<'_>) -> PyResult<Vec<LocalPartition>> {
        if self.replicas.load().is_some() {
            return Err(PyRuntimeError::new_err(
                "log_dirs.start has been called before",
            ));
        }
        let settings = self.settings.load_full();
        let (sink, info) = (self.log_sink(), self.log_sink());
        let queue = Arc::clone(&self.queue);
        let config = ReplicasConfig {
            layout: settings.layout,
            broker_id: self.broker_id,
            cluster_id: self.cluster_id.clone(),
            log_dirs: self.log_dirs.clone(),
            delete_delay_ms: settings.delete_delay_ms,
            threads_per_dir: settings.threads_per_dir,
            log_settings: settings.log,
            clock: Arc::new(SystemClock),
            report: Arc::new(move |text| sink(LogLevel::Error, text)),
            inform: Arc::new(move |text| info(LogLevel::Info, text)),
            on_all_failed: Arc::new(move |text| queue.fail(text)),
        };
        let (replicas, found) = py
            .detach(|| Replicas::start(config))
            .map_err(|error| log_dir_error(&error))?;
        let replicas = Arc::new(replicas);
        replicas.ingests().set_limits(settings.ingest);
        settings.throttled.set(replicas.throttles());
        replicas.set_cordoned(&settings.cordoned);
        self.pass_on_proposals(&replicas);
        let queue = Arc::clone(&self.queue);
        replicas.on_offline(Box::new(move |partitions| queue.offline(partitions)));
        let background = Background::start(&replicas, settings.intervals, settings.cleaner)?;
        *self.background.lock() = Some(background);
        self.replicas.store(Some(replicas));
        Ok(found)
    }

    /// Forward ISR proposals of leaders to Python.
    fn pass_on_proposals(&self, replicas: &Arc<Replicas>) {
        let (queue, proposing) = (Arc::clone(&self.queue), Arc::downgrade(replicas));
        replicas.proposals().on_waiting(Box::new(move || {
            let Some(replicas) = proposing.upgrade() else {
                return;
            };
            for proposal in replicas.proposals().take() {
                queue.propose(proposal);
            }
            let given_up = replicas.proposals().take_given_up();
            if !given_up.is_empty() {
                queue.offline(given_up);
            }
        }));
    }

    /// Open the sockets without accepting connections. Runs without the GIL.
    pub(crate) fn start_server(
        &self,
        listeners: Vec<ListenerConfig>,
        replicas: Arc<Replicas>,
    ) -> Result<Arc<Server>, StartError> {
        let settings = self.settings.load_full();
        let config = ServerConfig {
            broker_id: self.broker_id,
            listeners,
            threads: settings.threads,
            settings: settings.server.clone(),
            log: self.log_sink(),
        };
        let control = Arc::clone(&self.queue) as Arc<dyn ControlPlane>;
        let server = Arc::new(Server::start(
            config,
            replicas,
            Arc::clone(&self.metadata),
            control,
        )?);
        self.server.store(Some(Arc::clone(&server)));
        Ok(server)
    }

    /// Return the fetchers, if they have been started.
    pub(crate) fn fetchers(&self) -> Option<Arc<Fetchers>> {
        self.fetchers.load_full()
    }

    /// Start the fetchers with these connection settings. They do not follow any leader yet.
    pub(crate) fn start_fetchers(&self, connection: ConnectionSettings) -> PyResult<()> {
        if self.fetchers.load().is_some() {
            return Err(PyRuntimeError::new_err(
                "fetchers.start has been called before",
            ));
        }
        let sink = self.log_sink();
        let fetchers = Fetchers::new(
            self.broker_id,
            &self.replicas()?,
            self.settings.load().fetcher,
            ConnectionSettings {
                client_id: format!("broker-{}-fetcher", self.broker_id),
                ..connection
            },
            Arc::new(SystemClock),
            Arc::new(move |level, text| {
                let level = match level {
                    Level::Info => LogLevel::Info,
                    Level::Warning => LogLevel::Warning,
                };
                sink(level, text);
            }),
        );
        self.fetchers.store(Some(Arc::new(fetchers)));
        Ok(())
    }

    /// Return the current settings.
    pub(crate) fn settings(&self) -> Arc<NativeSettings> {
        self.settings.load_full()
    }

    /// Apply the settings that can change while the broker runs.
    pub(crate) fn change_settings(&self, changed: NativeSettings) -> PyResult<()> {
        self.metadata.cached_responses().invalidate_all();
        let changed = Arc::new(changed);
        if let Some(replicas) = self.open_replicas() {
            replicas.set_log_settings(changed.log);
            replicas.set_cordoned(&changed.cordoned);
            replicas.ingests().set_limits(changed.ingest);
            changed.throttled.set(replicas.throttles());
        }
        if let Some(background) = &*self.background.lock() {
            background.set(changed.intervals, changed.cleaner)?;
        }
        if let Some(server) = self.server() {
            server.set_settings(changed.server.clone());
        }
        if let Some(fetchers) = self.fetchers() {
            fetchers.set_topic_ids(changed.fetcher.topic_ids);
            fetchers.set_threads(changed.fetcher.threads)?;
        }
        self.settings.store(changed);
        Ok(())
    }

    /// Stop after the listeners have closed: stop the fetchers, finish Produce requests, close connections, flush logs,
    /// and write snapshots, checkpoints and the clean-shutdown marker. The function neither holds the GIL nor waits for
    /// it.
    pub(crate) fn stop(&self, timeout: Duration) -> Result<(), String> {
        let start = Instant::now();
        // Reserve half of the time for the disks, so that clients with unanswered requests cannot use it up.
        let clients_deadline = start + timeout / 2;
        let mut stopped = self.stopping.lock();
        if std::mem::replace(&mut *stopped, true) {
            return Ok(());
        }
        if let Some(fetchers) = self.fetchers.swap(None) {
            fetchers.stop();
        }
        // Python no longer drains the queue. Close it, so that no connection waits for the answer to its last request.
        self.queue.close();
        if let Some(server) = self.server() {
            server.shutdown(clients_deadline);
        }
        if let Some(background) = self.background.lock().take() {
            background.stop();
        }
        // This drops the last references to the logs and to the directories' locks.
        drop(self.server.swap(None));
        match self.replicas.swap(None) {
            Some(replicas) => replicas.shutdown(timeout.saturating_sub(start.elapsed())),
            None => Ok(()),
        }
    }
}
