//! Prometheus text of all native metrics.

use std::sync::atomic::Ordering::Relaxed;

use pybroker_replica::Replicas;
use pybroker_server::exposition::{Kind, Page};
use pybroker_storage::ProducerCount;

use crate::plane::DataPlane;
use crate::plane::control_queue::ControlQueue;

/// Render all metrics.
pub(super) fn render(plane: &DataPlane) -> String {
    let mut text = Text(Page::default());
    control_queue(&mut text, &plane.queue);
    if let Some(replicas) = plane.open_replicas() {
        partitions(&mut text, &replicas);
        ingests(&mut text, &replicas);
        let failed = replicas.failed_dirs() as u64;
        text.gauge(
            "pybroker_log_dirs_offline",
            "Log directories that failed.",
            failed,
        );
        text.gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that failed (Kafka: OfflineLogDirectoryCount).",
            failed,
        );
    }
    let of_server = plane.server().map(|server| server.metrics());
    of_server.unwrap_or_default() + &text.0.into_text()
}

/// Writer of families with one number each.
struct Text(Page);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.single(name, Kind::Gauge, help, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.single(name, Kind::Counter, help, value);
    }
}

fn control_queue(text: &mut Text, queue: &ControlQueue) {
    let (requests, bytes) = queue.depth();
    text.gauge(
        "pybroker_control_queue_requests",
        "Requests that wait for the control plane.",
        requests as u64,
    );
    text.gauge(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests that wait for the control plane; others do not queue (Kafka: RequestQueueSize).",
        requests as u64,
    );
    text.gauge(
        "pybroker_control_queue_bytes",
        "Bytes of requests that wait for the control plane.",
        bytes as u64,
    );
    text.counter(
        "pybroker_control_requests_total",
        "Requests handed to the control plane.",
        queue.submitted.load(Relaxed),
    );
    text.counter(
        "pybroker_control_queue_full_total",
        "Times a request had to wait because the queue was full.",
        queue.refused.load(Relaxed),
    );
    text.counter(
        "pybroker_control_wakeups_total",
        "Times the control plane's loop was woken.",
        queue.signals.load(Relaxed),
    );
}

fn partitions(text: &mut Text, replicas: &Replicas) {
    let map = replicas.snapshot();
    producers(text, replicas.producers());
    let (mut hosted, mut not_led, mut bytes, mut unflushed) = (0, 0, 0, 0);
    for partition in map.partitions() {
        hosted += 1;
        not_led += u64::from(partition.role().leader().is_err());
        bytes += partition.size_bytes();
        unflushed += u64::try_from(partition.unflushed_records()).unwrap_or(0);
    }
    text.gauge("pybroker_partitions", "Partitions hosted here.", hosted);
    text.gauge(
        "pybroker_partitions_not_led",
        "Partitions hosted here that this broker does not lead.",
        not_led,
    );
    text.gauge("pybroker_log_bytes", "Bytes of all log segments.", bytes);
    text.gauge(
        "pybroker_unflushed_records",
        "Records appended that are not known to be on disk.",
        unflushed,
    );
}

fn producers(text: &mut Text, producers: &ProducerCount) {
    text.gauge(
        "kafka_server_replicamanager_produceridcount",
        "Producer ids that partitions remember, counted for each partition (Kafka: ProducerIdCount).",
        producers.known() as u64,
    );
    text.counter(
        "pybroker_producer_ids_dropped_total",
        "Producer ids removed before they expired, because producer.ids.per.partition.max or producer.ids.max was \
         reached.",
        producers.dropped(),
    );
}

fn ingests(text: &mut Text, replicas: &Replicas) {
    let ingests = replicas.ingests().figures();
    text.gauge(
        "pybroker_ingests_open",
        "Staged ingests that are open.",
        ingests.open as u64,
    );
    text.gauge(
        "pybroker_ingest_attempts",
        "Attempts of open ingests that have staged records, counted for each partition.",
        ingests.attempts as u64,
    );
    text.gauge(
        "pybroker_ingest_staged_bytes",
        "Bytes staged by open ingests.",
        ingests.staged_bytes,
    );
    text.counter(
        "pybroker_ingest_appended_bytes_total",
        "Bytes staged since the start.",
        ingests.appended_bytes,
    );
    text.counter(
        "pybroker_ingest_attached_partitions_total",
        "Partitions that got records of committed ingests since the start.",
        ingests.attached_partitions,
    );
}
