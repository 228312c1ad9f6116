//! Metrics of the data plane for Prometheus and OTLP. Kafka's metrics have the names that its JMX exporter gives them
//! (example configuration, lower case); other metrics have pybroker's own names. `docs/metrics.md` lists them.

mod connections;
pub mod exposition;
mod logs;
mod quotas;
mod recent;
mod requests;
mod sources;
mod topics;

use std::time::Instant;

use pybroker_storage::JournalFigures;

use crate::metrics::{Counter, ThreadMetrics};
use crate::prometheus::exposition::{Families, Kind};

pub(crate) use recent::Recent;
pub(crate) use sources::Sources;

/// A counter of each data thread: its name, its help text, and the function that returns it.
type Plain = (&'static str, &'static str, fn(&ThreadMetrics) -> &Counter);

const PLAIN: [Plain; 12] = [
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
        "Connections closed because of what the client sent.",
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
        "pybroker_slow_requests_total",
        "Requests that took slow.request.log.ms or longer.",
        |t| &t.slow_requests,
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

/// Append the metrics of the server.
pub(crate) fn write(sources: &Sources<'_>, families: &mut Families) {
    let mut omitted = OmittedSeries::default();
    requests::write(sources, families);
    omitted.topics = topics::write(sources, families);
    omitted.partitions = logs::write(sources, families);
    omitted.clients = connections::write(sources, families);
    for (name, help, read) in PLAIN {
        families.single(name, Kind::Counter, help, sources.sum(read));
    }
    journal(families, &sources.shared.replicas.journal_figures());
    quotas::write(sources.shared.metadata.quotas(), families, Instant::now());
    omitted.write(families);
}

/// Numbers of series that the limits leave out.
#[derive(Default)]
struct OmittedSeries {
    topics: usize,
    partitions: usize,
    clients: usize,
}

impl OmittedSeries {
    fn write(&self, families: &mut Families) {
        let name = "pybroker_metrics_left_out";
        families.family(
            name,
            Kind::Gauge,
            "Topics, partitions and names of client software that have no series of their own, because of metrics.….max.",
        );
        for (of, count) in [
            ("clients", self.clients),
            ("partitions", self.partitions),
            ("topics", self.topics),
        ] {
            families.series(name, &[("of", of)], count);
        }
    }
}

fn journal(families: &mut Families, journal: &JournalFigures) {
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
            "Flushes of journals; one serves all waiting appends.",
            journal.flushes,
        ),
        (
            "pybroker_journal_full_total",
            "Groups of appends that found no room in the journal: their segments were flushed instead.",
            journal.full,
        ),
    ] {
        families.single(name, Kind::Counter, help, value);
    }
    families.single(
        "pybroker_journal_wait_seconds_total",
        Kind::Counter,
        "Time of a journal flush, from the first append that waits for it.",
        journal.waited_us as f64 / 1e6,
    );
}
