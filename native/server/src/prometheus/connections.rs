//! Connections by listener and by client software, and the load of the data threads.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::sources::Sources;
use crate::os;
use crate::prometheus::exposition::{Families, Kind};

/// Write the metrics. Return how many client software names the series `other` sums up.
pub(super) fn write(sources: &Sources<'_>, families: &mut Families) -> usize {
    by_listener(sources, families);
    threads(sources, families);
    let shared = sources.shared;
    for (name, kind, help, value) in [
        (
            "pybroker_connections_refused_total",
            Kind::Counter,
            "Connections refused by a limit.",
            shared.connections.refused(),
        ),
        (
            "pybroker_connections_throttled_total",
            Kind::Counter,
            "Connections closed with a delay, because their address opened too many per second.",
            shared.connections.throttled(),
        ),
        (
            "pybroker_connections",
            Kind::Gauge,
            "Open connections.",
            shared.connections.open() as u64,
        ),
        (
            "pybroker_in_flight_bytes",
            Kind::Gauge,
            "Memory held by incomplete and waiting requests.",
            shared.budget.used() as u64,
        ),
    ] {
        families.single(name, kind, help, value);
    }
    by_software(sources, families)
}

fn by_listener(sources: &Sources<'_>, families: &mut Families) {
    let listeners = sources.shared.connections.by_listener();
    let prefix = "kafka_server_socketservermetrics";
    let mut family =
        |kafkas: &str,
         kind,
         help: &str,
         read: fn(&crate::clients::connection_counts::OfListener) -> u64| {
            let name = format!("{prefix}_{kafkas}");
            families.family(&name, kind, help);
            for (listener, counts) in &listeners {
                families.series(&name, &[("listener", listener)], read(counts));
            }
        };
    family(
        "connection_count",
        Kind::Gauge,
        "Open connections, by listener (Kafka: connection-count).",
        |of| of.open,
    );
    family(
        "connection_creation_total",
        Kind::Counter,
        "Connections accepted, by listener (Kafka: connection-creation-total).",
        |of| of.opened,
    );
    family(
        "connection_close_total",
        Kind::Counter,
        "Connections closed, by listener (Kafka: connection-close-total).",
        |of| of.opened - of.open,
    );
    family(
        "connection_refused_total",
        Kind::Counter,
        "Connections refused by a limit, by listener.",
        |of| of.refused,
    );
}

fn by_software(sources: &Sources<'_>, families: &mut Families) -> usize {
    let max = sources.shared.settings.load().metrics.clients_max;
    let (most, others, left_out) = sources.shared.client_software.most(max);
    let name = "kafka_server_socketservermetrics_connections";
    families.family(
        name,
        Kind::Gauge,
        "Open connections by client software name and version (Kafka: connections; KIP-511).",
    );
    for ((listener, software, version), count) in &most {
        let labels = [
            ("listener", &**listener),
            ("clientsoftwarename", software),
            ("clientsoftwareversion", version),
        ];
        families.series(name, &labels, *count);
    }
    if left_out > 0 {
        let labels = [
            ("listener", "other"),
            ("clientsoftwarename", "other"),
            ("clientsoftwareversion", "other"),
        ];
        families.series(name, &labels, others);
    }
    left_out
}

/// Write the load of the data threads, which are Kafka's network processors and request handlers in one.
fn threads(sources: &Sources<'_>, families: &mut Families) {
    let busy: Option<Vec<u64>> = sources
        .threads
        .iter()
        .map(|thread| os::processor_time(thread.system_id.load(Ordering::Relaxed)))
        .collect();
    // The system does not report processor time, so write no series.
    let Some(busy) = busy else { return };
    let idle = sources.recent.lock().idle(Instant::now(), busy);
    let name = "kafka_network_processor_idlepercent";
    families.family(
        name,
        Kind::Gauge,
        "Share of time in which a data thread did nothing since the last scrape, 0 to 1 (Kafka: IdlePercent).",
    );
    for (number, idle) in idle.iter().enumerate() {
        families.series(name, &[("networkprocessor", &number.to_string())], *idle);
    }
    let average = idle.iter().sum::<f64>() / idle.len().max(1) as f64;
    for (name, help) in [
        (
            "kafka_network_socketserver_networkprocessoravgidlepercent",
            "The average of all data threads, 0 to 1 (Kafka: NetworkProcessorAvgIdlePercent).",
        ),
        (
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "The same value: data threads also handle requests (Kafka: RequestHandlerAvgIdlePercent).",
        ),
    ] {
        families.single(name, Kind::Gauge, help, average);
    }
}
