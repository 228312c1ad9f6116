//! What all data threads share, and what one data thread has for itself.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use pybroker_protocol::hot::fetch_request::FetchRequest;
use pybroker_protocol::hot::produce_request::ProduceRequest;
use pybroker_replica::Replicas;

use crate::budget::MemoryBudget;
use crate::buffers::BufferPool;
use crate::cold_reads::ColdReads;
use crate::config::DynamicSettings;
use crate::connection_counts::ConnectionCounts;
use crate::control_plane::ControlPlane;
use crate::fetch_sessions::FetchSessions;
use crate::metadata_view::MetadataHolder;
use crate::metrics::ThreadMetrics;
use crate::producers::Producers;
use crate::quotas::ConnectionRate;
use crate::slow_appends::{FlushWatch, SlowAppends};
use crate::throttled_log::ThrottledLog;

/// State of the server that all threads see. Nothing here is locked on the way of a Produce or Fetch.
pub(crate) struct Shared {
    pub(crate) broker_id: i32,
    pub(crate) settings: ArcSwap<DynamicSettings>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) metadata: Arc<MetadataHolder>,
    pub(crate) control: Arc<dyn ControlPlane>,
    pub(crate) budget: MemoryBudget,
    pub(crate) connections: ConnectionCounts,
    /// Of all listeners of clients.
    pub(crate) connection_rate: ConnectionRate,
    pub(crate) cold_reads: ColdReads,
    /// Staged ingest writes here.
    pub(crate) ingest_io: ColdReads,
    /// What other brokers' leaders bring of it is written here: those wait for it in their `ingest_io`, and two brokers
    /// must not wait for each other.
    pub(crate) ingest_copies: ColdReads,
    pub(crate) producers: Producers,
    pub(crate) slow_appends: SlowAppends,
    /// Set once the server stops: connections answer what they have and close.
    pub(crate) draining: AtomicBool,
    pub(crate) log: ThrottledLog,
}

/// What one data thread has for itself; connections borrow it for a turn.
pub(crate) struct ThreadState {
    pub(crate) pool: BufferPool,
    /// This thread's share of the settings; replaced by a command when they change.
    pub(crate) settings: Arc<DynamicSettings>,
    /// Decoded requests, reused.
    pub(crate) produce: ProduceRequest,
    pub(crate) fetch: FetchRequest,
    pub(crate) flushes: FlushWatch,
    pub(crate) sessions: FetchSessions,
    pub(crate) metrics: Arc<ThreadMetrics>,
    /// Connections of this thread, to be woken when the server stops.
    pub(crate) wakers: HashMap<u64, Waker>,
}

thread_local! {
    /// Set by `threads` before a thread takes its first connection.
    static THREAD: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

/// Makes the calling thread a data thread.
pub(crate) fn install_thread_state(state: ThreadState) {
    THREAD.set(Some(state));
}

/// Lends the data thread's state. `None` on other threads, and after the thread has ended its work.
pub(crate) fn with_thread_state<R>(work: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    THREAD
        .try_with(|state| state.try_borrow_mut().ok()?.as_mut().map(work))
        .ok()
        .flatten()
}
