//! What all data threads share, and what one data thread has for itself.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;
use std::time::Instant;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use pybroker_model::ExpansionBudget;
use pybroker_protocol::hot::fetch_request::FetchRequest;
use pybroker_protocol::hot::produce_request::ProduceRequest;
use pybroker_replica::Replicas;

use crate::budget::MemoryBudget;
use crate::buffers::BufferPool;
use crate::client_software::ClientSoftware;
use crate::cold_reads::ColdReads;
use crate::config::DynamicSettings;
use crate::connection_counts::ConnectionCounts;
use crate::control_plane::ControlPlane;
use crate::fetch_sessions::FetchSessions;
use crate::flush_group::FlushGroup;
use crate::metadata_view::MetadataHolder;
use crate::metrics::{Answered, Moments, Tally, ThreadMetrics, TopicSlots, TopicsOfThread, Unsent};
use crate::producers::Producers;
use crate::quotas::ConnectionRate;
use crate::slow_appends::{FlushWatch, SlowAppends};
use crate::slow_requests::SlowRequests;
use crate::throttled_log::ThrottledLog;
use crate::wakeups::Wakeups;

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
    pub(crate) client_software: ClientSoftware,
    pub(crate) topics: Arc<TopicSlots>,
    pub(crate) cold_reads: ColdReads,
    /// Requests with so many elements that a data thread would be busy for long.
    pub(crate) large_requests: ColdReads,
    /// Staged ingest writes here.
    pub(crate) ingest_io: ColdReads,
    /// What other brokers' leaders bring of it is written here: those wait for it in their `ingest_io`, and two brokers
    /// must not wait for each other.
    pub(crate) ingest_copies: ColdReads,
    pub(crate) producers: Producers,
    pub(crate) slow_appends: SlowAppends,
    pub(crate) slow_requests: SlowRequests,
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
    /// What is counted of a Produce, reused.
    pub(crate) tally: Tally,
    pub(crate) flushes: FlushWatch,
    /// Flushes of what was appended here in a row.
    pub(crate) flush_group: FlushGroup,
    pub(crate) sessions: FetchSessions,
    pub(crate) metrics: Arc<ThreadMetrics>,
    /// Counters of topics.
    pub(crate) topics: TopicsOfThread,
    /// What the connection whose turn it is may still decompress.
    pub(crate) expansion: ExpansionBudget,
    /// Requests of the connection whose turn it is that are answered, and whose replies have not gone.
    pub(crate) unsent: Unsent,
    /// The time when it was last looked at: a turn's begin, the end of a request.
    pub(crate) clock: Instant,
    /// Connections of this thread, to be woken when the server stops.
    pub(crate) wakers: HashMap<u64, Waker>,
    /// Through which other threads wake them.
    pub(crate) wakeups: Arc<Wakeups>,
}

impl ThreadState {
    /// Counts what was appended and refused.
    #[inline]
    pub(crate) fn note(&mut self, tally: &mut Tally) {
        let max = self.settings.metrics.topics_max;
        tally.note(&self.metrics, &mut self.topics, max);
    }

    /// Counts error codes in a response.
    #[inline]
    pub(crate) fn count_errors(&self, api_key: i16, errors: &[i16]) {
        for error in errors {
            self.metrics.error(api_key, *error);
        }
    }

    /// Counts a request whose reply is written now (or, for acks=0, which is done).
    #[inline]
    pub(crate) fn answered(&mut self, api_key: i16, version: i16, moments: Moments) {
        let now = Instant::now();
        self.clock = now;
        let answered = Answered {
            api_key,
            version,
            moments,
            written: now,
        };
        self.metrics.count_answer(&answered);
        self.unsent.push(answered);
    }

    /// The clock after a piece of work that began at `began`: looked at again, unless a request has ended in it.
    pub(crate) fn clock_after(&mut self, began: Instant) -> Instant {
        if self.clock == began {
            self.clock = Instant::now();
        }
        self.clock
    }
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
