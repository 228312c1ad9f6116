//! State shared by all data threads, and state of one data thread.

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

use crate::blocking::cold_reads::ColdReads;
use crate::blocking::slow_appends::{FlushWatch, SlowAppends};
use crate::clients::client_software::ClientSoftware;
use crate::clients::connection_counts::ConnectionCounts;
use crate::config::DynamicSettings;
use crate::control_plane::ControlPlane;
use crate::fetch_sessions::FetchSessions;
use crate::flush_group::FlushGroup;
use crate::metadata_view::MetadataHolder;
use crate::metrics::slow_requests::SlowRequests;
use crate::metrics::{
    AnsweredRequest, Moments, Tally, ThreadMetrics, TopicSlots, TopicsOfThread, UnsentReplies,
};
use crate::net::budget::MemoryBudget;
use crate::net::buffers::BufferPool;
use crate::net::wakeups::Wakeups;
use crate::quotas::ConnectionRate;
use crate::quotas::active_producers::Producers;
use crate::throttled_log::ThrottledLog;

/// State of the server that all threads share. Produce and Fetch take no lock here.
pub(crate) struct ServerState {
    pub(crate) broker_id: i32,
    pub(crate) settings: ArcSwap<DynamicSettings>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) metadata: Arc<MetadataHolder>,
    pub(crate) control: Arc<dyn ControlPlane>,
    pub(crate) budget: MemoryBudget,
    pub(crate) connections: ConnectionCounts,
    /// Connection rate of all client listeners.
    pub(crate) connection_rate: ConnectionRate,
    pub(crate) client_software: ClientSoftware,
    pub(crate) topics: Arc<TopicSlots>,
    pub(crate) cold_reads: ColdReads,
    /// Pool for requests with so many elements that a data thread would be busy for long.
    pub(crate) large_requests: ColdReads,
    /// Pool for appends of staged ingest.
    pub(crate) ingest_io: ColdReads,
    /// Separate pool for staged records that leaders on other brokers send. Those leaders wait for this broker on their
    /// own `ingest_io` threads. With a shared pool, two brokers could block each other.
    pub(crate) ingest_copies: ColdReads,
    pub(crate) producers: Producers,
    pub(crate) slow_appends: SlowAppends,
    pub(crate) slow_requests: SlowRequests,
    /// Set once the server stops. Connections then answer their requests and close.
    pub(crate) draining: AtomicBool,
    /// Set once no connection is accepted any more and the control plane stops, which may leave requests unanswered.
    pub(crate) stopping: AtomicBool,
    pub(crate) log: ThrottledLog,
}

/// State of one data thread; connections borrow it for a turn.
pub(crate) struct ThreadState {
    pub(crate) pool: BufferPool,
    /// This thread's reference to the settings; a command replaces it when they change.
    pub(crate) settings: Arc<DynamicSettings>,
    /// Decoded requests, whose memory is reused.
    pub(crate) produce: ProduceRequest,
    pub(crate) fetch: FetchRequest,
    /// Counts of a Produce, whose memory is reused.
    pub(crate) tally: Tally,
    pub(crate) flushes: FlushWatch,
    /// Group flush of this thread's appends.
    pub(crate) flush_group: FlushGroup,
    pub(crate) sessions: FetchSessions,
    pub(crate) metrics: Arc<ThreadMetrics>,
    /// Topic metrics of this thread.
    pub(crate) topics: TopicsOfThread,
    /// Decompression budget of the current turn.
    pub(crate) expansion: ExpansionBudget,
    /// Requests answered in the current turn whose replies were not sent yet.
    pub(crate) unsent: UnsentReplies,
    /// Time of the last clock read: at the start of a turn, and at the end of a request.
    pub(crate) clock: Instant,
    /// Wakers of this thread's connections, for the shutdown.
    pub(crate) wakers: HashMap<u64, Waker>,
    /// Wake-ups by other threads.
    pub(crate) wakeups: Arc<Wakeups>,
}

impl ThreadState {
    /// Count appended and refused records.
    #[inline]
    pub(crate) fn note(&mut self, tally: &mut Tally) {
        let max = self.settings.metrics.topics_max;
        tally.note(&self.metrics, &mut self.topics, max);
    }

    /// Count error codes in a response.
    #[inline]
    pub(crate) fn count_errors(&self, api_key: i16, errors: &[i16]) {
        for error in errors {
            self.metrics.error(api_key, *error);
        }
    }

    /// Count a request whose reply is written now (or, for acks=0, which is done).
    #[inline]
    pub(crate) fn answered(&mut self, api_key: i16, version: i16, moments: Moments) {
        let now = Instant::now();
        self.clock = now;
        let answered = AnsweredRequest {
            api_key,
            version,
            moments,
            written: now,
        };
        self.metrics.count_answer(&answered);
        self.unsent.push(answered);
    }

    /// Return the time after work that began at `began`. Reads the clock only if no request has ended during the work.
    pub(crate) fn clock_after(&mut self, began: Instant) -> Instant {
        if self.clock == began {
            self.clock = Instant::now();
        }
        self.clock
    }
}

thread_local! {
    /// The state of this thread, set by `data_threads` before the thread takes its first connection.
    static THREAD: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

/// Make the calling thread a data thread.
pub(crate) fn install_thread_state(state: ThreadState) {
    THREAD.set(Some(state));
}

/// Run `work` with the data thread's state. `None` on other threads, and after the thread has finished.
pub(crate) fn with_thread_state<R>(work: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    THREAD
        .try_with(|state| state.try_borrow_mut().ok()?.as_mut().map(work))
        .ok()
        .flatten()
}
