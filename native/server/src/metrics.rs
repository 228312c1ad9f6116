//! Counters of the data threads. Each thread writes its own set with plain stores (nobody else writes it), so counting
//! costs no contended instruction; rendering adds the sets up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pybroker_protocol::ApiKey;

/// Keys below this number have counters of their own; others share the last.
pub(crate) const KEYS: usize = 96;
/// Error codes from −1 on; the few above share the last.
pub(crate) const ERRORS: usize = 160;
/// Upper bounds of the latency buckets are 2^n microseconds, from 16 µs to 33 s.
pub(crate) const BUCKETS: usize = 22;
pub(crate) const FIRST_BUCKET_POWER: u32 = 4;

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

/// Time from the whole request to the reply, per API key.
#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) buckets: [Counter; BUCKETS],
    pub(crate) microseconds: Counter,
}

/// The counters of one data thread.
#[derive(Debug)]
pub(crate) struct ThreadMetrics {
    pub(crate) requests: [Counter; KEYS],
    pub(crate) latencies: [Latency; KEYS],
    pub(crate) errors: [Counter; ERRORS],
    began: Instant,
    /// When the last Produce request was answered: microseconds since `began`, 0 = none was.
    last_produce: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) produced_bytes: Counter,
    pub(crate) fetched_bytes: Counter,
    pub(crate) connections_opened: Counter,
    pub(crate) connections_closed: Counter,
    pub(crate) protocol_errors: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) slow_appends: Counter,
    pub(crate) fetch_sessions_created: Counter,
    pub(crate) fetch_sessions_evicted: Counter,
}

impl ThreadMetrics {
    pub(crate) fn new() -> Arc<Self> {
        let counters = || std::array::from_fn(|_| Counter::default());
        Arc::new(ThreadMetrics {
            requests: std::array::from_fn(|_| Counter::default()),
            latencies: std::array::from_fn(|_| Latency {
                buckets: counters(),
                microseconds: Counter::default(),
            }),
            errors: std::array::from_fn(|_| Counter::default()),
            began: Instant::now(),
            last_produce: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            produced_bytes: Counter::default(),
            fetched_bytes: Counter::default(),
            connections_opened: Counter::default(),
            connections_closed: Counter::default(),
            protocol_errors: Counter::default(),
            cold_reads: Counter::default(),
            slow_appends: Counter::default(),
            fetch_sessions_created: Counter::default(),
            fetch_sessions_evicted: Counter::default(),
        })
    }

    #[inline]
    fn slot(api_key: i16) -> usize {
        usize::try_from(api_key).map_or(KEYS - 1, |key| key.min(KEYS - 1))
    }

    /// Counts a request that came at `received` and is answered now (or, for acks=0, done).
    #[inline]
    pub(crate) fn request(&self, api_key: i16, received: Instant) {
        self.request_at(api_key, received, Instant::now());
    }

    #[inline]
    pub(crate) fn request_at(&self, api_key: i16, received: Instant, now: Instant) {
        let slot = Self::slot(api_key);
        self.requests[slot].add(1);
        let micros = micros_of(now.saturating_duration_since(received));
        let power =
            (u64::BITS - micros.leading_zeros()).saturating_sub(FIRST_BUCKET_POWER) as usize;
        self.latencies[slot].buckets[power.min(BUCKETS - 1)].add(1);
        self.latencies[slot].microseconds.add(micros);
        if api_key == ApiKey::Produce.code() {
            let since = micros_of(now.saturating_duration_since(self.began));
            self.last_produce.set(since.max(1));
        }
    }

    /// When the last Produce request was answered, to the microsecond.
    pub(crate) fn last_produce(&self) -> Option<Instant> {
        let micros = self.last_produce.get();
        (micros > 0).then(|| self.began + Duration::from_micros(micros))
    }

    /// Counts an error code in a response.
    #[inline]
    pub(crate) fn error(&self, code: i16) {
        if code != 0 {
            let slot = usize::try_from(i32::from(code) + 1)
                .map_or(ERRORS - 1, |slot| slot.min(ERRORS - 1));
            self.errors[slot].add(1);
        }
    }
}

fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
