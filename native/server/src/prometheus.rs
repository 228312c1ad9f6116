//! The counters in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::Arc;

use pybroker_protocol::api_key::APIS;
use pybroker_protocol::{Api, ErrorCode, Plane};
use pybroker_storage::JournalFigures;

use crate::metrics::{BUCKETS, Counter, ERRORS, FIRST_BUCKET_POWER, KEYS, ThreadMetrics};

/// What the server as a whole knows at the time of rendering.
pub(crate) struct Gauges {
    pub(crate) connections: usize,
    pub(crate) connections_refused: u64,
    pub(crate) connections_throttled: u64,
    pub(crate) in_flight_bytes: usize,
    pub(crate) journal: JournalFigures,
}

/// A counter that each data thread has once: its name, what it counts, and where it is.
type Plain = (&'static str, &'static str, fn(&ThreadMetrics) -> &Counter);

const PLAIN: [Plain; 11] = [
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

/// All counters in Prometheus' text format. A fragment: the caller adds labels of the cluster around it.
pub(crate) fn render(threads: &[Arc<ThreadMetrics>], gauges: &Gauges) -> String {
    let mut page = Page {
        text: String::with_capacity(8 * 1024),
        threads,
    };
    page.requests();
    page.latencies();
    page.errors();
    for (name, help, read) in PLAIN {
        let sum = page.sum(read);
        page.single(name, "counter", help, sum);
    }
    page.single(
        "pybroker_connections_refused_total",
        "counter",
        "Connections refused by a limit.",
        gauges.connections_refused,
    );
    page.single(
        "pybroker_connections_throttled_total",
        "counter",
        "Connections closed late because their address opened too many a second.",
        gauges.connections_throttled,
    );
    page.journal(&gauges.journal);
    page.single(
        "pybroker_connections",
        "gauge",
        "Open connections.",
        gauges.connections as u64,
    );
    page.single(
        "pybroker_in_flight_bytes",
        "gauge",
        "Memory held by incomplete and waiting requests.",
        gauges.in_flight_bytes as u64,
    );
    page.text
}

struct Page<'a> {
    text: String,
    threads: &'a [Arc<ThreadMetrics>],
}

impl Page<'_> {
    /// The counter of all threads together.
    fn sum(&self, read: impl Fn(&ThreadMetrics) -> &Counter) -> u64 {
        self.threads.iter().map(|thread| read(thread).get()).sum()
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// A family of one value.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl core::fmt::Display) {
        self.family(name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    fn journal(&mut self, journal: &JournalFigures) {
        for (name, help, value) in [
            (
                "pybroker_journal_entries_total",
                "Appends to partitions that became durable in a log directory's journal.",
                journal.entries,
            ),
            (
                "pybroker_journal_bytes_total",
                "Bytes written to journals.",
                journal.bytes,
            ),
            (
                "pybroker_journal_flushes_total",
                "Flushes of journals, each for all appends that waited.",
                journal.flushes,
            ),
            (
                "pybroker_journal_full_total",
                "Groups of appends that found no room in the journal: their segments were flushed instead.",
                journal.full,
            ),
        ] {
            self.single(name, "counter", help, value);
        }
        self.single(
            "pybroker_journal_wait_seconds_total",
            "counter",
            "Time from the first append that waited for each of these flushes to its end.",
            journal.waited_us as f64 / 1e6,
        );
    }

    fn requests(&mut self) {
        let name = "pybroker_requests_total";
        self.family(name, "counter", "Requests answered, by API.");
        for slot in self.used_slots() {
            let count = self.sum(|thread| &thread.requests[slot]);
            let api = api_name(slot);
            self.line(format_args!("{name}{{api=\"{api}\"}} {count}"));
        }
    }

    fn latencies(&mut self) {
        let name = "pybroker_request_seconds";
        self.family(
            name,
            "histogram",
            "Time from the whole request to the reply, by API.",
        );
        for slot in self.used_slots() {
            let api = api_name(slot);
            let mut below = 0;
            for bucket in 0..BUCKETS {
                below += self.sum(|thread| &thread.latencies[slot].buckets[bucket]);
                let bound = (1u64 << (bucket as u32 + FIRST_BUCKET_POWER)) as f64 / 1e6;
                let bound = if bucket + 1 == BUCKETS {
                    "+Inf".to_owned()
                } else {
                    bound.to_string()
                };
                self.line(format_args!(
                    "{name}_bucket{{api=\"{api}\",le=\"{bound}\"}} {below}"
                ));
            }
            let seconds = self.sum(|thread| &thread.latencies[slot].microseconds) as f64 / 1e6;
            self.line(format_args!("{name}_sum{{api=\"{api}\"}} {seconds}"));
            self.line(format_args!("{name}_count{{api=\"{api}\"}} {below}"));
        }
    }

    fn errors(&mut self) {
        let name = "pybroker_response_errors_total";
        self.family(
            name,
            "counter",
            "Error codes in responses of the data plane.",
        );
        for slot in 0..ERRORS {
            let count = self.sum(|thread| &thread.errors[slot]);
            if count > 0 {
                let error = ErrorCode(slot as i16 - 1).name().unwrap_or("OTHER");
                self.line(format_args!("{name}{{error=\"{error}\"}} {count}"));
            }
        }
    }

    /// Keys that were asked for at least once, and the native ones, which dashboards expect.
    fn used_slots(&self) -> Vec<usize> {
        let native = |slot: usize| {
            APIS.iter()
                .any(|api| api.key.code() as usize == slot && api.plane == Plane::Native)
        };
        (0..KEYS)
            .filter(|slot| native(*slot) || self.sum(|thread| &thread.requests[*slot]) > 0)
            .collect()
    }
}

fn api_name(slot: usize) -> &'static str {
    Api::find(slot as i16).map_or("Other", |api| api.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

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
                connections_throttled: 4,
                in_flight_bytes: 5,
                journal: JournalFigures {
                    entries: 7,
                    flushes: 3,
                    waited_us: 1_250,
                    ..JournalFigures::default()
                },
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
            "pybroker_connections_throttled_total 4",
            "pybroker_in_flight_bytes 5",
            "pybroker_journal_entries_total 7",
            "pybroker_journal_flushes_total 3",
            "pybroker_journal_wait_seconds_total 0.00125",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line} in\n{text}"
            );
        }
    }
}
