//! What all data threads share, and what one data thread has for itself.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_model::TopicId;
use pybroker_protocol::hot::fetch_request::FetchRequest;
use pybroker_protocol::hot::produce_request::ProduceRequest;
use pybroker_replica::Replicas;

use crate::access::Decisions;
use crate::budget::MemoryBudget;
use crate::buffers::BufferPool;
use crate::cold_reads::ColdReads;
use crate::config::{DynamicSettings, LogLevel, LogSink, SecurityProtocol};
use crate::control_plane::{ControlPlane, Peer};
use crate::fetch_sessions::FetchSessions;
use crate::limits::Limits;
use crate::metadata_view::MetadataHolder;
use crate::metrics::ThreadMetrics;
use crate::producers::Producers;
use crate::slow_appends::{FlushWatch, SlowAppends};

/// State of the server that all threads see. Nothing here is locked on the way of a Produce or Fetch.
pub(crate) struct Shared {
    pub(crate) broker_id: i32,
    pub(crate) settings: ArcSwap<DynamicSettings>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) metadata: Arc<MetadataHolder>,
    pub(crate) control: Arc<dyn ControlPlane>,
    pub(crate) budget: MemoryBudget,
    pub(crate) connections: ConnectionCounts,
    pub(crate) cold_reads: ColdReads,
    /// Staged ingest writes here (R16).
    pub(crate) ingest_io: ColdReads,
    pub(crate) producers: Producers,
    pub(crate) slow_appends: SlowAppends,
    /// Set once the server stops: connections answer what they have and close.
    pub(crate) draining: AtomicBool,
    pub(crate) log: ThrottledLog,
}

/// How many connections there are; looked at when one opens or closes.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    next_id: AtomicU64,
    open: AtomicUsize,
    refused: AtomicU64,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl ConnectionCounts {
    /// A place for a connection from `address`, or the limit in its way.
    pub(crate) fn admit(&self, address: IpAddr, limits: &Limits) -> Result<u64, &'static str> {
        let mut by_address = self.by_address.lock();
        let refuse = |limit| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            Err(limit)
        };
        if self.open.load(Ordering::Relaxed) >= limits.connections_max {
            return refuse("max.connections");
        }
        let here = by_address.get(&address).copied().unwrap_or(0);
        let max = limits
            .connections_per_ip_overrides
            .get(&address)
            .copied()
            .unwrap_or(limits.connections_per_ip_max);
        if here >= max {
            return refuse("max.connections.per.ip");
        }
        by_address.insert(address, here + 1);
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(self.next_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Gives a place up.
    pub(crate) fn leave(&self, address: IpAddr) {
        let mut by_address = self.by_address.lock();
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Lines about single connections, at most so many a second: strangers must not fill the log.
pub(crate) struct ThrottledLog {
    sink: LogSink,
    window: Mutex<(Option<Instant>, u32, u64)>,
}

const LINES_PER_SECOND_MAX: u32 = 20;

impl ThrottledLog {
    pub(crate) fn new(sink: LogSink) -> Self {
        ThrottledLog {
            sink,
            window: Mutex::new((None, 0, 0)),
        }
    }

    /// Writes a line, or counts it as left out.
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        let left_out = {
            let mut window = self.window.lock();
            let now = Instant::now();
            let (start, lines, left_out) = &mut *window;
            if start.is_none_or(|start| now - start >= Duration::from_secs(1)) {
                *start = Some(now);
                *lines = 0;
            }
            if *lines >= LINES_PER_SECOND_MAX {
                *left_out += 1;
                return;
            }
            *lines += 1;
            core::mem::take(left_out)
        };
        if left_out > 0 {
            (self.sink)(
                LogLevel::Warning,
                &format!("{left_out} lines about connections were left out"),
            );
        }
        (self.sink)(level, text);
    }
}

/// Who a connection is.
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Arc<Peer>,
    pub(crate) principal: Arc<str>,
    /// False until a client of a listener with SASL has proven who it is (R18).
    pub(crate) authenticated: bool,
    /// The listener authenticates by SASL.
    pub(crate) sasl: bool,
    /// When it was accepted.
    pub(crate) opened: Instant,
    /// After a SaslHandshake v0 its tokens come as they are, without Kafka's headers (KIP-43).
    pub(crate) raw_tokens: bool,
    /// When authentication must have been renewed (KIP-368).
    pub(crate) session_ends: Option<Instant>,
    /// Which incarnation of a name was fetched over this connection last, by requests without session and without
    /// epochs (R4). Bounded; used by the connection's own task only.
    incarnations: RefCell<HashMap<Arc<str>, TopicId>>,
    /// What was decided about topics (`access`).
    pub(crate) decisions: RefCell<Decisions>,
}

/// Names that a connection remembers: more than an old client consumes from.
const INCARNATIONS_MAX: usize = 1_000;

impl ConnectionInfo {
    pub(crate) fn new(peer: Arc<Peer>, security: SecurityProtocol, anonymous: Arc<str>) -> Self {
        let authenticated = security == SecurityProtocol::Plaintext;
        ConnectionInfo {
            peer,
            principal: anonymous,
            authenticated,
            sasl: !authenticated,
            opened: Instant::now(),
            raw_tokens: false,
            session_ends: None,
            incarnations: RefCell::default(),
            decisions: RefCell::default(),
        }
    }
}

impl ConnectionInfo {
    /// Notes which incarnation of a name is fetched now; gives the one fetched before.
    pub(crate) fn fetched(&self, name: &Arc<str>, id: TopicId) -> Option<TopicId> {
        let mut incarnations = self.incarnations.borrow_mut();
        if let Some(known) = incarnations.get_mut(name) {
            return Some(core::mem::replace(known, id));
        }
        if incarnations.len() < INCARNATIONS_MAX {
            incarnations.insert(Arc::clone(name), id);
        }
        None
    }
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
