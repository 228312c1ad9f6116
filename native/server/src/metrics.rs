//! Metrics of the data threads. Each thread writes its own set with plain stores, so that counting has no contention;
//! rendering adds the sets up.

mod request_times;
mod requests;
pub mod slow_requests;
mod tally;
mod topics;

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pybroker_protocol::ApiKey;

pub(crate) use request_times::{AnsweredRequest, Moments, Split, UnsentReplies};
pub(crate) use requests::{RequestMetrics, STAGES, Stage, VERSIONS};
pub(crate) use tally::Tally;
pub(crate) use topics::{TopicCounters, TopicSlots, TopicsOfThread};

/// Keys below this number have their own counters; others share the last.
pub(crate) const KEYS: usize = 96;
/// Number of error code slots, from code −1; higher codes share the last.
pub(crate) const ERRORS: usize = 160;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one data thread.
#[derive(Debug)]
pub(crate) struct ThreadMetrics {
    /// Counters by API key, created by the first request of a key.
    requests: [OnceLock<Box<RequestMetrics>>; KEYS],
    began: Instant,
    /// When the last Produce request was answered: microseconds since `began`, 0 = never.
    last_produce: Counter,
    /// The system's thread id; 0 before the thread runs or if there is none.
    pub(crate) system_id: AtomicI32,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) produced_bytes: Counter,
    pub(crate) fetched_bytes: Counter,
    /// Totals of all topics, including those without their own counters.
    pub(crate) topics: TopicCounters,
    pub(crate) replication_bytes_out: Counter,
    pub(crate) connections_opened: Counter,
    pub(crate) connections_closed: Counter,
    pub(crate) protocol_errors: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) slow_appends: Counter,
    pub(crate) slow_requests: Counter,
    pub(crate) fetch_sessions_created: Counter,
    pub(crate) fetch_sessions_evicted: Counter,
}

impl ThreadMetrics {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(ThreadMetrics {
            requests: std::array::from_fn(|_| OnceLock::new()),
            began: Instant::now(),
            last_produce: Counter::default(),
            system_id: AtomicI32::new(0),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            produced_bytes: Counter::default(),
            fetched_bytes: Counter::default(),
            topics: TopicCounters::default(),
            replication_bytes_out: Counter::default(),
            connections_opened: Counter::default(),
            connections_closed: Counter::default(),
            protocol_errors: Counter::default(),
            cold_reads: Counter::default(),
            slow_appends: Counter::default(),
            slow_requests: Counter::default(),
            fetch_sessions_created: Counter::default(),
            fetch_sessions_evicted: Counter::default(),
        })
    }

    /// Return the counters of an API key, for the thread that counts.
    #[inline]
    pub(crate) fn of_key(&self, api_key: i16) -> &RequestMetrics {
        self.requests[slot_of(api_key)].get_or_init(Box::default)
    }

    /// Return the counters in a slot (see [`slot_of`]), if there was a request.
    pub(crate) fn in_slot(&self, slot: usize) -> Option<&RequestMetrics> {
        self.requests[slot].get().map(|metrics| &**metrics)
    }

    /// Record the time of a Produce answer.
    #[inline]
    fn note_answer(&self, api_key: i16, now: Instant) {
        if api_key == ApiKey::Produce.code() {
            let since = micros_of(now.saturating_duration_since(self.began));
            self.last_produce.set(since.max(1));
        }
    }

    /// Return when the last Produce request was answered, to the microsecond.
    pub(crate) fn last_produce(&self) -> Option<Instant> {
        let micros = self.last_produce.get();
        (micros > 0).then(|| self.began + Duration::from_micros(micros))
    }

    /// Count an error code in a response to that API key.
    #[inline]
    pub(crate) fn error(&self, api_key: i16, code: i16) {
        if code != 0 {
            self.of_key(api_key).error(code);
        }
    }
}

/// Return the slot of an API key's counters.
#[inline]
pub(crate) fn slot_of(api_key: i16) -> usize {
    usize::try_from(api_key).map_or(KEYS - 1, |key| key.min(KEYS - 1))
}

pub(crate) fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
