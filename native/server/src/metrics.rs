//! Counters of the data threads, rendered in Prometheus' text format.
//!
//! Each thread writes its own set with plain stores (nobody else writes it), so counting costs no contended
//! instruction; rendering adds the sets up.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pybroker_protocol::{Api, ApiKey, ErrorCode, api_key::APIS};

/// Keys below this number have counters of their own; others share the last.
const KEYS: usize = 96;
/// Error codes from −1 on; the few above share the last.
const ERRORS: usize = 160;
/// Upper bounds of the latency buckets are 2^n microseconds, from 16 µs to 33 s.
const BUCKETS: usize = 22;
const FIRST_BUCKET_POWER: u32 = 4;

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

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Time from the whole request to the reply, per API key.
#[derive(Debug)]
struct Latency {
    buckets: [Counter; BUCKETS],
    microseconds: Counter,
}

/// The counters of one data thread.
#[derive(Debug)]
pub(crate) struct ThreadMetrics {
    requests: [Counter; KEYS],
    latencies: [Latency; KEYS],
    errors: [Counter; ERRORS],
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
    fn request_at(&self, api_key: i16, received: Instant, now: Instant) {
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

/// What the server as a whole knows at the time of rendering.
pub(crate) struct Gauges {
    pub(crate) connections: usize,
    pub(crate) connections_refused: u64,
    pub(crate) in_flight_bytes: usize,
}

/// All counters in Prometheus' text format. A fragment: the caller adds labels of the cluster around it.
pub(crate) fn render(threads: &[Arc<ThreadMetrics>], gauges: &Gauges) -> String {
    let mut out = String::with_capacity(8 * 1024);
    let sum = |read: &dyn Fn(&ThreadMetrics) -> &Counter| {
        threads.iter().map(|thread| read(thread).get()).sum::<u64>()
    };
    let key_name = |slot: usize| Api::find(slot as i16).map_or("Other", |api| api.name());
    let family = |out: &mut String, name: &str, kind: &str, help: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    };

    family(
        &mut out,
        "pybroker_requests_total",
        "counter",
        "Requests answered, by API.",
    );
    for slot in used_slots(threads) {
        let count = sum(&|thread| &thread.requests[slot]);
        let _ = writeln!(
            out,
            "pybroker_requests_total{{api=\"{}\"}} {count}",
            key_name(slot)
        );
    }
    family(
        &mut out,
        "pybroker_request_seconds",
        "histogram",
        "Time from the whole request to the reply, by API.",
    );
    for slot in used_slots(threads) {
        let name = key_name(slot);
        let mut below = 0;
        for bucket in 0..BUCKETS {
            below += sum(&|thread| &thread.latencies[slot].buckets[bucket]);
            let bound = (1u64 << (bucket as u32 + FIRST_BUCKET_POWER)) as f64 / 1e6;
            let _ = if bucket + 1 == BUCKETS {
                writeln!(
                    out,
                    "pybroker_request_seconds_bucket{{api=\"{name}\",le=\"+Inf\"}} {below}"
                )
            } else {
                writeln!(
                    out,
                    "pybroker_request_seconds_bucket{{api=\"{name}\",le=\"{bound}\"}} {below}"
                )
            };
        }
        let seconds = sum(&|thread| &thread.latencies[slot].microseconds) as f64 / 1e6;
        let _ = writeln!(
            out,
            "pybroker_request_seconds_sum{{api=\"{name}\"}} {seconds}"
        );
        let _ = writeln!(
            out,
            "pybroker_request_seconds_count{{api=\"{name}\"}} {below}"
        );
    }
    family(
        &mut out,
        "pybroker_response_errors_total",
        "counter",
        "Error codes in responses of the data plane.",
    );
    for slot in 0..ERRORS {
        let count = sum(&|thread| &thread.errors[slot]);
        if count > 0 {
            let code = ErrorCode(slot as i16 - 1);
            let name = code.name().unwrap_or("OTHER");
            let _ = writeln!(
                out,
                "pybroker_response_errors_total{{error=\"{name}\"}} {count}"
            );
        }
    }
    type Read = fn(&ThreadMetrics) -> &Counter;
    let counters: [(&str, &str, Read); 11] = [
        (
            "pybroker_network_received_bytes_total",
            "Bytes received from clients.",
            |t| &t.bytes_in,
        ),
        (
            "pybroker_network_sent_bytes_total",
            "Bytes sent to clients.",
            |t| &t.bytes_out,
        ),
        (
            "pybroker_produced_bytes_total",
            "Bytes of record batches appended by clients.",
            |t| &t.produced_bytes,
        ),
        (
            "pybroker_fetched_bytes_total",
            "Bytes of record batches sent to clients.",
            |t| &t.fetched_bytes,
        ),
        (
            "pybroker_connections_opened_total",
            "Connections accepted.",
            |t| &t.connections_opened,
        ),
        (
            "pybroker_connections_closed_total",
            "Connections closed.",
            |t| &t.connections_closed,
        ),
        (
            "pybroker_protocol_errors_total",
            "Connections closed for what they sent.",
            |t| &t.protocol_errors,
        ),
        (
            "pybroker_cold_reads_total",
            "Fetched slices read from disk first.",
            |t| &t.cold_reads,
        ),
        (
            "pybroker_slow_appends_total",
            "Produce requests appended off their data thread, because a log or its disk was slow.",
            |t| &t.slow_appends,
        ),
        (
            "pybroker_fetch_sessions_created_total",
            "Fetch sessions created.",
            |t| &t.fetch_sessions_created,
        ),
        (
            "pybroker_fetch_sessions_evicted_total",
            "Fetch sessions evicted.",
            |t| &t.fetch_sessions_evicted,
        ),
    ];
    for (name, help, read) in counters {
        family(&mut out, name, "counter", help);
        let _ = writeln!(out, "{name} {}", sum(&read));
    }
    family(
        &mut out,
        "pybroker_connections_refused_total",
        "counter",
        "Connections refused by a limit.",
    );
    let _ = writeln!(
        out,
        "pybroker_connections_refused_total {}",
        gauges.connections_refused
    );
    family(
        &mut out,
        "pybroker_connections",
        "gauge",
        "Open connections.",
    );
    let _ = writeln!(out, "pybroker_connections {}", gauges.connections);
    family(
        &mut out,
        "pybroker_in_flight_bytes",
        "gauge",
        "Memory held by incomplete and waiting requests.",
    );
    let _ = writeln!(out, "pybroker_in_flight_bytes {}", gauges.in_flight_bytes);
    out
}

/// Keys that were asked for at least once, and the native ones, which dashboards expect.
fn used_slots(threads: &[Arc<ThreadMetrics>]) -> Vec<usize> {
    let native = |slot: usize| {
        APIS.iter().any(|api| {
            api.key.code() as usize == slot && api.plane == pybroker_protocol::Plane::Native
        })
    };
    (0..KEYS)
        .filter(|slot| native(*slot) || threads.iter().any(|t| t.requests[*slot].get() > 0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_threads_add_up() {
        let threads = [ThreadMetrics::new(), ThreadMetrics::new()];
        let begun = Instant::now();
        threads[0].request_at(0, begun, begun + Duration::from_micros(3));
        threads[1].request_at(0, begun, begun + Duration::from_micros(100));
        threads[1].request_at(3, begun, begun + Duration::from_secs(1000));
        threads[0].error(3);
        threads[0].error(0);
        threads[0].error(i16::MAX);
        let text = render(
            &threads,
            &Gauges {
                connections: 2,
                connections_refused: 1,
                in_flight_bytes: 5,
            },
        );
        for line in [
            "pybroker_requests_total{api=\"Produce\"} 2",
            "pybroker_requests_total{api=\"Metadata\"} 1",
            "pybroker_request_seconds_bucket{api=\"Produce\",le=\"0.000016\"} 1",
            "pybroker_request_seconds_bucket{api=\"Produce\",le=\"0.000128\"} 2",
            "pybroker_request_seconds_bucket{api=\"Metadata\",le=\"+Inf\"} 1",
            "pybroker_response_errors_total{error=\"UNKNOWN_TOPIC_OR_PARTITION\"} 1",
            "pybroker_connections 2",
            "pybroker_in_flight_bytes 5",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line} in\n{text}"
            );
        }
    }
}
