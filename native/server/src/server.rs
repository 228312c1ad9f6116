//! The server: start, stop, and what its owner may ask and change while it runs.

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

use crate::budget::MemoryBudget;
use crate::client_software::ClientSoftware;
use crate::cold_reads::ColdReads;
use crate::config::{DynamicSettings, LogLevel, Registry, ServerConfig};
use crate::connection_counts::ConnectionCounts;
use crate::control_plane::ControlPlane;
use crate::listener::{Bound, Distributor, accept_all, bind};
use crate::metadata_view::MetadataHolder;
use crate::metrics::{ThreadMetrics, TopicSlots};
use crate::producers::Producers;
use crate::prometheus::{Recent, Sources, render};
use crate::quotas::{ConnectionRate, QuotaDelta};
use crate::shared::{Shared, with_thread_state};
use crate::slow_appends::SlowAppends;
use crate::slow_requests::{SlowRequest, SlowRequests};
use crate::threads::{Command, DataThread};
use crate::throttled_log::ThrottledLog;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on: in use, not ours, not allowed.
    #[error("listener {name} cannot bind {address}: {error}")]
    Bind {
        /// Name of the listener.
        name: String,
        /// Where it should listen.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// No thread or event queue to be had.
    #[error("data thread {number} cannot start: {error}")]
    Thread {
        /// Which one.
        number: usize,
        /// What the system says.
        error: io::Error,
    },
}

/// A running server. Dropping it stops it without waiting for clients.
pub struct Server {
    shared: Arc<Shared>,
    threads: Mutex<Vec<DataThread>>,
    addresses: Vec<(Arc<str>, SocketAddr)>,
    /// Bound and not accepting yet.
    bound: Mutex<Vec<Bound>>,
    distributor: Arc<Distributor>,
    stop_accepting: watch::Sender<bool>,
    /// What scrapes remember.
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
    /// Binds all listeners and starts the data threads; accepting starts with [`Server::start_accepting`].
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind then.
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
        let shared = Arc::new(Shared {
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

    /// Name and address of each listener; ports are the real ones.
    pub fn addresses(&self) -> &[(Arc<str>, SocketAddr)] {
        &self.addresses
    }

    /// Starts accepting where only brokers talk: they are heard before clients are.
    pub fn start_accepting_brokers(&self) {
        self.accept(|registry| registry == Registry::InterBroker);
    }

    /// Starts accepting on all listeners that do not yet.
    pub fn start_accepting(&self) {
        self.accept(|_| true);
    }

    fn accept(&self, chosen: impl Fn(Registry) -> bool) {
        let threads = self.threads.lock();
        let Some(first) = threads.first() else { return };
        let mut waiting = self.bound.lock();
        let (accepting, left): (Vec<Bound>, Vec<Bound>) = mem::take(&mut *waiting)
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

    /// Closes the listening sockets; connections go on.
    pub fn stop_accepting(&self) {
        self.stop_accepting.send_replace(true);
        self.bound.lock().clear();
    }

    /// The settings now.
    pub fn settings(&self) -> Arc<DynamicSettings> {
        self.shared.settings.load_full()
    }

    /// Changes settings; connections obey from their next request on.
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

    /// Puts in force what clients may use: requests that start later obey it, and those who wait for what does not hold
    /// any more wait no longer.
    pub fn change_quotas(&self, delta: &QuotaDelta) {
        self.shared.metadata.quotas().apply(delta);
        for thread in &*self.threads.lock() {
            thread.send(Command::Wake);
        }
    }

    /// The metadata that requests are answered from.
    pub fn metadata(&self) -> &Arc<MetadataHolder> {
        &self.shared.metadata
    }

    /// Writes a line that a client has caused: its rate and its length have a limit.
    pub fn line_about_client(&self, level: LogLevel, text: &str) {
        self.shared.log.line(level, text);
    }

    /// Admits such a line of the control plane, under the same limit: how many were left out since the last one.
    /// `None`: leave it out.
    pub fn admit_line_about_client(&self) -> Option<u64> {
        self.shared.log.admit()
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.open()
    }

    /// Requests that took `slow.request.log.ms` or longer since this was called last, the oldest first; bounded. The first
    /// call gives none.
    pub fn take_slow_requests(&self) -> VecDeque<SlowRequest> {
        self.shared.slow_requests.take()
    }

    /// Counters and gauges as a fragment in Prometheus' text format. Takes milliseconds for each thousand partitions:
    /// not for a data thread.
    ///
    /// # Panics
    /// On a data thread.
    pub fn metrics(&self) -> String {
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
        render(&Sources {
            shared: &self.shared,
            threads: &metrics,
            recent: &self.recent,
        })
    }

    /// Stops: no new connections, no new requests; what was read is answered (fetches with what there is), until
    /// `deadline`, when the rest is dropped. Blocks until all threads have ended. Once; later calls do nothing.
    pub fn shutdown(&self, deadline: Instant) {
        self.stop_accepting();
        self.shared.draining.store(true, Ordering::SeqCst);
        let mut threads = self.threads.lock();
        for thread in &*threads {
            thread.send(Command::StopBy(deadline));
        }
        for thread in &mut *threads {
            if let Some(handle) = thread.thread.take() {
                // A data thread that panicked has been reported by the panic itself.
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

/// Half of the cores stage at most: the others stay for everybody else.
fn ingest_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(1, 4)
}
