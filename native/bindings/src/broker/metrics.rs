//! Metrics of the control queue, of partitions and of ingests.

use std::sync::atomic::Ordering::Relaxed;

use pybroker_replica::Replicas;
use pybroker_server::exposition::{Families, Kind};
use pybroker_storage::ProducerCount;

use crate::plane::DataPlane;
use crate::plane::control_queue::ControlQueue;

/// Append the metrics of native code.
pub(super) fn collect(plane: &DataPlane, families: &mut Families) {
    if let Some(server) = plane.server() {
        server.collect_metrics(families);
    }
    let mut numbers = Numbers(families);
    control_queue(&mut numbers, &plane.queue);
    if let Some(replicas) = plane.open_replicas() {
        partitions(&mut numbers, &replicas);
        ingests(&mut numbers, &replicas);
        let failed = replicas.failed_dirs() as u64;
        numbers.gauge(
            "pybroker_log_dirs_offline",
            "Log directories that failed.",
            failed,
        );
        numbers.gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that failed (Kafka: OfflineLogDirectoryCount).",
            failed,
        );
    }
}

/// Writer of metric families that have one number each.
struct Numbers<'a>(&'a mut Families);

impl Numbers<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.single(name, Kind::Gauge, help, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.single(name, Kind::Counter, help, value);
    }
}

fn control_queue(numbers: &mut Numbers<'_>, queue: &ControlQueue) {
    let (requests, bytes) = queue.depth();
    numbers.gauge(
        "pybroker_control_queue_requests",
        "Requests that wait for the control plane.",
        requests as u64,
    );
    numbers.gauge(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests that wait for the control plane; others do not queue (Kafka: RequestQueueSize).",
        requests as u64,
    );
    numbers.gauge(
        "pybroker_control_queue_bytes",
        "Bytes of requests that wait for the control plane.",
        bytes as u64,
    );
    numbers.counter(
        "pybroker_control_requests_total",
        "Requests handed to the control plane.",
        queue.submitted.load(Relaxed),
    );
    numbers.counter(
        "pybroker_control_queue_full_total",
        "Times a request had to wait because the queue was full.",
        queue.refused.load(Relaxed),
    );
    numbers.counter(
        "pybroker_control_wakeups_total",
        "Times the control plane's loop was woken.",
        queue.signals.load(Relaxed),
    );
}

fn partitions(numbers: &mut Numbers<'_>, replicas: &Replicas) {
    let map = replicas.snapshot();
    producers(numbers, replicas.producers());
    let (mut hosted, mut not_led, mut bytes, mut unflushed) = (0, 0, 0, 0);
    for partition in map.partitions() {
        hosted += 1;
        not_led += u64::from(partition.role().leader().is_err());
        bytes += partition.size_bytes();
        unflushed += u64::try_from(partition.unflushed_records()).unwrap_or(0);
    }
    numbers.gauge("pybroker_partitions", "Partitions hosted here.", hosted);
    numbers.gauge(
        "pybroker_partitions_not_led",
        "Partitions hosted here that this broker does not lead.",
        not_led,
    );
    numbers.gauge("pybroker_log_bytes", "Bytes of all log segments.", bytes);
    numbers.gauge(
        "pybroker_unflushed_records",
        "Records appended that are not known to be on disk.",
        unflushed,
    );
}

fn producers(numbers: &mut Numbers<'_>, producers: &ProducerCount) {
    numbers.gauge(
        "kafka_server_replicamanager_produceridcount",
        "Producer ids that partitions remember, counted for each partition (Kafka: ProducerIdCount).",
        producers.known() as u64,
    );
    numbers.counter(
        "pybroker_producer_ids_dropped_total",
        "Producer ids removed before they expired, because producer.ids.per.partition.max or producer.ids.max was \
         reached.",
        producers.dropped(),
    );
}

fn ingests(numbers: &mut Numbers<'_>, replicas: &Replicas) {
    let ingests = replicas.ingests().figures();
    numbers.gauge(
        "pybroker_ingests_open",
        "Staged ingests that are open.",
        ingests.open as u64,
    );
    numbers.gauge(
        "pybroker_ingest_attempts",
        "Attempts of open ingests that have staged records, counted for each partition.",
        ingests.attempts as u64,
    );
    numbers.gauge(
        "pybroker_ingest_staged_bytes",
        "Bytes staged by open ingests.",
        ingests.staged_bytes,
    );
    numbers.counter(
        "pybroker_ingest_appended_bytes_total",
        "Bytes staged since the start.",
        ingests.appended_bytes,
    );
    numbers.counter(
        "pybroker_ingest_attached_partitions_total",
        "Partitions that got records of committed ingests since the start.",
        ingests.attached_partitions,
    );
}
