//! The server: start, stop, queries and changes at run time.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pybroker_replica::Replicas;
use tokio::sync::watch;

use crate::blocking::cold_reads::ColdReads;
use crate::blocking::slow_appends::SlowAppends;
use crate::clients::client_software::ClientSoftware;
use crate::clients::connection_counts::ConnectionCounts;
use crate::config::{DynamicSettings, LogLevel, Registry, ServerConfig};
use crate::connections::data_threads::{Command, DataThread};
use crate::connections::listener::{BoundListener, Distributor, accept_all, bind};
use crate::control_plane::ControlPlane;
use crate::metadata_view::MetadataHolder;
use crate::metrics::slow_requests::{SlowRequest, SlowRequests};
use crate::metrics::{ThreadMetrics, TopicSlots};
use crate::net::budget::MemoryBudget;
use crate::prometheus::exposition::Families;
use crate::prometheus::{self, Recent, Sources};
use crate::quotas::active_producers::Producers;
use crate::quotas::{ConnectionRate, QuotaDelta};
use crate::shared::{ServerState, with_thread_state};
use crate::throttled_log::ThrottledLog;

/// Error that prevents a server from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Binding an address failed: it is in use, not local, or not permitted.
    #[error("listener {name} cannot bind {address}: {error}")]
    Bind {
        /// Name of the listener.
        name: String,
        /// Address to bind.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The system provides no thread or event queue.
    #[error("data thread {number} cannot start: {error}")]
    Thread {
        /// Number of the thread.
        number: usize,
        /// Error of the system.
        error: io::Error,
    },
}

/// A running server. Dropping it stops it without waiting for clients.
pub struct Server {
    shared: Arc<ServerState>,
    threads: Mutex<Vec<DataThread>>,
    addresses: Vec<(Arc<str>, SocketAddr)>,
    /// Sockets that do not accept yet.
    bound: Mutex<Vec<BoundListener>>,
    distributor: Arc<Distributor>,
    stop_accepting: watch::Sender<bool>,
    /// State that the metrics keep between scrapes.
    recent: Mutex<Recent>,
}

impl core::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Bind all listeners and start the data threads; accepting starts with [`Server::start_accepting`].
    ///
    /// # Errors
    ///
    /// [`StartError`] if a part cannot start; the parts that had started are then stopped.
    pub fn start(
        config: ServerConfig,
        replicas: Arc<Replicas>,
        metadata: Arc<MetadataHolder>,
        control: Arc<dyn ControlPlane>,
    ) -> Result<Self, StartError> {
        let mut bound = Vec::with_capacity(config.listeners.len());
        for listener in &config.listeners {
            bound.push(bind(listener, &config.settings.limits).map_err(|error| {
                StartError::Bind {
                    name: listener.name.to_string(),
                    address: listener.address,
                    error,
                }
            })?);
        }
        let limits = config.settings.limits.clone();
        let count = config.threads.max(1);
        let metrics: Vec<_> = (0..count).map(|_| ThreadMetrics::new()).collect();
        let connection_rate = ConnectionRate::new(metadata.quotas().windows(), Instant::now());
        let shared = Arc::new(ServerState {
            broker_id: config.broker_id,
            settings: ArcSwap::from_pointee(config.settings),
            replicas,
            metadata,
            control,
            budget: MemoryBudget::new(limits.in_flight_bytes_max),
            connections: ConnectionCounts::default(),
            connection_rate,
            client_software: ClientSoftware::default(),
            topics: Arc::new(TopicSlots::new(count)),
            cold_reads: ColdReads::default(),
            large_requests: ColdReads::new("large-requests", 1),
            ingest_io: ColdReads::in_the_background("ingest", ingest_threads()),
            ingest_copies: ColdReads::in_the_background("ingest-copy", ingest_threads()),
            producers: Producers::new(metrics.clone()),
            slow_appends: SlowAppends::default(),
            slow_requests: SlowRequests::default(),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            log: ThrottledLog::new(config.log),
        });
        let mut threads = Vec::with_capacity(count);
        for (number, metrics) in metrics.into_iter().enumerate() {
            let sessions = limits.fetch_sessions_max.div_ceil(count);
            let thread = DataThread::start(number, Arc::clone(&shared), metrics, sessions)
                .map_err(|error| StartError::Thread { number, error })?;
            threads.push(thread);
        }
        let distributor = Arc::new(Distributor {
            threads: threads
                .iter()
                .map(|thread| thread.commands.clone())
                .collect(),
            next: AtomicUsize::new(0),
        });
        Ok(Server {
            shared,
            addresses: bound
                .iter()
                .map(|bound| (Arc::clone(&bound.config.name), bound.address))
                .collect(),
            threads: Mutex::new(threads),
            bound: Mutex::new(bound),
            distributor,
            stop_accepting: watch::Sender::new(false),
            recent: Mutex::default(),
        })
    }

    /// Return name and address of each listener, with the actual ports.
    pub fn addresses(&self) -> &[(Arc<str>, SocketAddr)] {
        &self.addresses
    }

    /// Start accepting on inter-broker listeners, which serve before client listeners.
    pub fn start_accepting_brokers(&self) {
        self.accept(|registry| registry == Registry::InterBroker);
    }

    /// Start accepting on all other listeners.
    pub fn start_accepting(&self) {
        self.accept(|_| true);
    }

    fn accept(&self, chosen: impl Fn(Registry) -> bool) {
        let threads = self.threads.lock();
        let Some(first) = threads.first() else { return };
        let mut waiting = self.bound.lock();
        let (accepting, left): (Vec<BoundListener>, Vec<BoundListener>) = mem::take(&mut *waiting)
            .into_iter()
            .partition(|bound| chosen(bound.config.registry));
        *waiting = left;
        for bound in accepting {
            let shared = Arc::clone(&self.shared);
            let distributor = Arc::clone(&self.distributor);
            let stop = self.stop_accepting.subscribe();
            first.send(Command::Spawn(Box::new(move || {
                tokio::spawn(accept_all(bound, shared, distributor, stop));
            })));
        }
    }

    /// Close the listening sockets; connections stay open.
    pub fn stop_accepting(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.stop_accepting.send_replace(true);
        self.bound.lock().clear();
    }

    /// Return the current settings.
    pub fn settings(&self) -> Arc<DynamicSettings> {
        self.shared.settings.load_full()
    }

    /// Change settings; connections use them from their next request on.
    pub fn set_settings(&self, settings: DynamicSettings) {
        self.shared
            .budget
            .set_limit(settings.limits.in_flight_bytes_max);
        let settings = Arc::new(settings);
        self.shared.settings.store(Arc::clone(&settings));
        let threads = self.threads.lock();
        let sessions = settings
            .limits
            .fetch_sessions_max
            .div_ceil(threads.len().max(1));
        for thread in &*threads {
            thread.send(Command::Settings(Arc::clone(&settings), sessions));
        }
    }

    /// Apply a change of quotas. Requests that start later use it, and throttled connections whose quotas have changed
    /// resume.
    pub fn change_quotas(&self, delta: &QuotaDelta) {
        self.shared.metadata.quotas().apply(delta);
        for thread in &*self.threads.lock() {
            thread.send(Command::Wake);
        }
    }

    /// Return the metadata that the server uses to answer requests.
    pub fn metadata(&self) -> &Arc<MetadataHolder> {
        &self.shared.metadata
    }

    /// Write a log line caused by a client, within limits of rate and length.
    pub fn line_about_client(&self, level: LogLevel, text: &str) {
        self.shared.log.line(level, text);
    }

    /// Ask whether the control plane may write a log line caused by a client, under the same limit. Return the number
    /// of lines dropped since the last permitted one; `None` if this line must be dropped.
    pub fn admit_line_about_client(&self) -> Option<u64> {
        self.shared.log.admit()
    }

    /// Return the number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.open()
    }

    /// Return the requests that took `slow.request.log.ms` or longer since the last call, the oldest first; bounded.
    /// The first call returns none.
    pub fn take_slow_requests(&self) -> VecDeque<SlowRequest> {
        self.shared.slow_requests.take()
    }

    /// Append the metrics. This takes milliseconds per thousand partitions, so data threads must not call it.
    ///
    /// # Panics
    ///
    /// If it is called on a data thread.
    pub fn collect_metrics(&self, families: &mut Families) {
        assert!(
            with_thread_state(|_| ()).is_none(),
            "a data thread serves clients"
        );
        let metrics: Vec<_> = self
            .threads
            .lock()
            .iter()
            .map(|thread| Arc::clone(&thread.metrics))
            .collect();
        let sources = Sources {
            shared: &self.shared,
            threads: &metrics,
            recent: &self.recent,
        };
        prometheus::write(&sources, families);
    }

    /// Stop the server: accept no connections and requests, and answer the requests that were read (fetches with the
    /// available records) until `deadline`, then drop the rest. Blocks until all threads have ended. Later calls do
    /// nothing.
    pub fn shutdown(&self, deadline: Instant) {
        self.stop_accepting();
        self.shared.draining.store(true, Ordering::SeqCst);
        let mut threads = self.threads.lock();
        for thread in &*threads {
            thread.send(Command::StopBy(deadline));
        }
        for thread in &mut *threads {
            if let Some(handle) = thread.thread.take() {
                // Ignore a panic of the thread; it was reported when it happened.
                drop(handle.join());
            }
        }
        self.shared.slow_appends.stop();
        self.shared.large_requests.stop();
        self.shared.cold_reads.stop();
        self.shared.ingest_io.stop();
        self.shared.ingest_copies.stop();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown(Instant::now());
    }
}

/// Return the number of staging threads: at most half of the cores, so that other work keeps the rest.
fn ingest_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(1, 4)
}
