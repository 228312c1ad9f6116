//! Prometheus text of everything native.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pybroker_replica::Replicas;
use pybroker_server::Server;

use crate::control_queue::ControlQueue;

/// The whole text.
pub(crate) fn render(
    queue: &ControlQueue,
    server: Option<Arc<Server>>,
    replicas: Option<Arc<Replicas>>,
) -> String {
    let mut text = server.map(|server| server.metrics()).unwrap_or_default();
    let (requests, bytes) = queue.depth();
    let mut add = |kind: &str, name: &str, help: &str, value: u64| {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
        );
    };
    add(
        "gauge",
        "pybroker_control_queue_requests",
        "Requests that wait for the control plane.",
        requests as u64,
    );
    add(
        "gauge",
        "pybroker_control_queue_bytes",
        "Bytes of requests that wait for the control plane.",
        bytes as u64,
    );
    add(
        "counter",
        "pybroker_control_requests_total",
        "Requests handed to the control plane.",
        queue.submitted.load(Relaxed),
    );
    add(
        "counter",
        "pybroker_control_queue_full_total",
        "Times a request had to wait because the queue was full.",
        queue.refused.load(Relaxed),
    );
    add(
        "counter",
        "pybroker_control_wakeups_total",
        "Times the control plane's loop was woken.",
        queue.signals.load(Relaxed),
    );
    if let Some(replicas) = replicas {
        let map = replicas.snapshot();
        let (mut partitions, mut offline, mut bytes, mut unflushed) = (0, 0, 0, 0);
        for partition in map.partitions() {
            partitions += 1;
            offline += u64::from(partition.role().leader().is_err());
            bytes += partition.size_bytes();
            unflushed += u64::try_from(partition.unflushed_records()).unwrap_or(0);
        }
        add(
            "gauge",
            "pybroker_partitions",
            "Partitions hosted here.",
            partitions,
        );
        add(
            "gauge",
            "pybroker_partitions_not_led",
            "Partitions hosted here that this broker does not lead.",
            offline,
        );
        add(
            "gauge",
            "pybroker_log_bytes",
            "Bytes of all log segments.",
            bytes,
        );
        add(
            "gauge",
            "pybroker_unflushed_records",
            "Records appended that are not known to be on disk.",
            unflushed,
        );
        let ingests = replicas.ingests().figures();
        add(
            "gauge",
            "pybroker_ingests_open",
            "Staged ingests that are open.",
            ingests.open as u64,
        );
        add(
            "gauge",
            "pybroker_ingest_attempts",
            "Attempts with something staged by ingests that are open, each counted for each partition.",
            ingests.attempts as u64,
        );
        add(
            "gauge",
            "pybroker_ingest_staged_bytes",
            "Bytes staged by ingests that are open.",
            ingests.staged_bytes,
        );
        add(
            "counter",
            "pybroker_ingest_appended_bytes_total",
            "Bytes staged since the start.",
            ingests.appended_bytes,
        );
        add(
            "counter",
            "pybroker_ingest_attached_partitions_total",
            "Partitions that took staged records since the start.",
            ingests.attached_partitions,
        );
        let failed = replicas.failed_dirs() as u64;
        add(
            "gauge",
            "pybroker_log_dirs_offline",
            "Log directories that failed.",
            failed,
        );
    }
    text
}
