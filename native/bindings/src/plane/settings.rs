//! Native settings from broker settings under Kafka's names. The broker's defaults are in `pybroker/config`. The
//! defaults in this module are for callers that pass only a few settings (tests).

use std::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use pybroker_fetcher::FetcherSettings;
use pybroker_replica::{BrokerLogSettings, CleanerSettings, IngestLimits, Intervals, Throttles};
use pybroker_server::config::{ClusterKind, DynamicSettings, MetricsLimits, default_threads};
use pybroker_server::limits::Limits;
use pybroker_server::quotas::Windows;
use pybroker_storage::{FlushMode, Layout};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::Settings;

/// Parse `slow.request.log.ms`. The value 0 means that no request is logged as slow.
fn slow_request(given: &Settings<'_, '_>, now: Option<Duration>) -> PyResult<Option<Duration>> {
    let now = now.map_or(0, |now| now.as_millis() as u64);
    let millis: u64 = given.number("slow.request.log.ms", now)?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

/// All broker settings that native code uses.
#[derive(Debug, Clone)]
pub(crate) struct NativeSettings {
    /// `num.network.threads`.
    pub(crate) threads: usize,
    /// `log.dir.layout`.
    pub(crate) layout: Layout,
    /// `delete.topic.delay.ms`.
    pub(crate) delete_delay_ms: i64,
    /// `num.recovery.threads.per.data.dir`.
    pub(crate) threads_per_dir: usize,
    /// `queued.max.requests`.
    pub(crate) queued_requests_max: usize,
    /// Settings of logs.
    pub(crate) log: BrokerLogSettings,
    /// Intervals of background work.
    pub(crate) intervals: Intervals,
    /// Settings of the log cleaner.
    pub(crate) cleaner: CleanerSettings,
    /// Limits of staged ingest.
    pub(crate) ingest: IngestLimits,
    /// Settings of the fetchers.
    pub(crate) fetcher: FetcherSettings,
    /// Replication throttles.
    pub(crate) throttled: ThrottledRates,
    /// Sample windows of quotas: for clients, and for controller mutations. They are read only at the start.
    pub(crate) quota_windows: (Windows, Windows),
    /// `cordoned.log.dirs`.
    pub(crate) cordoned: Vec<String>,
    /// Settings of the server.
    pub(crate) server: DynamicSettings,
}

/// Replication throttles in bytes a second. The largest LONG means no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThrottledRates {
    leader: u64,
    follower: u64,
    moves: u64,
}

impl Default for ThrottledRates {
    fn default() -> Self {
        let unlimited = i64::MAX as u64;
        Self {
            leader: unlimited,
            follower: unlimited,
            moves: unlimited,
        }
    }
}

impl ThrottledRates {
    fn with(&self, given: &Settings<'_, '_>) -> PyResult<Self> {
        let moves = "replica.alter.log.dirs.io.max.bytes.per.second";
        Ok(Self {
            leader: given.number("leader.replication.throttled.rate", self.leader)?,
            follower: given.number("follower.replication.throttled.rate", self.follower)?,
            moves: given.number(moves, self.moves)?,
        })
    }

    /// Apply the rates.
    pub(crate) fn set(&self, throttles: &Throttles) {
        throttles.leader.set_rate(self.leader);
        throttles.follower.set_rate(self.follower);
        throttles.moves.set_rate(self.moves);
    }
}

impl Default for NativeSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            threads: default_threads(cores),
            layout: Layout::TopicName,
            delete_delay_ms: 4 * 60 * 60 * 1000,
            threads_per_dir: 2,
            queued_requests_max: 10_000,
            log: BrokerLogSettings::default(),
            intervals: Intervals::default(),
            cleaner: CleanerSettings::default(),
            ingest: IngestLimits::default(),
            fetcher: FetcherSettings::default(),
            throttled: ThrottledRates::default(),
            quota_windows: <(Windows, Windows)>::default(),
            cordoned: Vec::new(),
            server: DynamicSettings::default(),
        }
    }
}

impl NativeSettings {
    /// Return these settings with the values in `dict` applied. Unknown names are ignored.
    pub(crate) fn with(&self, dict: &Bound<'_, PyDict>) -> PyResult<Self> {
        let given = Settings(dict);
        let flush_mode = match given.text("log.flush.mode")?.as_deref() {
            None => self.log.flush_mode,
            Some("commit") => FlushMode::Commit,
            Some("os") => FlushMode::Os,
            Some(other) => return Err(bad("log.flush.mode", other, "commit or os")),
        };
        let layout = match given.text("log.dir.layout")?.as_deref() {
            None => self.layout,
            Some("topic-name") => Layout::TopicName,
            Some("topic-id") => Layout::TopicId,
            Some(other) => return Err(bad("log.dir.layout", other, "topic-name or topic-id")),
        };
        Ok(Self {
            threads: given.number("num.network.threads", self.threads)?.max(1),
            layout,
            delete_delay_ms: given.number("delete.topic.delay.ms", self.delete_delay_ms)?,
            threads_per_dir: given
                .number("num.recovery.threads.per.data.dir", self.threads_per_dir)?
                .max(1),
            queued_requests_max: given
                .number("queued.max.requests", self.queued_requests_max)?
                .max(1),
            log: BrokerLogSettings {
                flush_mode,
                producer_id_expiration_ms: given.number(
                    "producer.id.expiration.ms",
                    self.log.producer_id_expiration_ms,
                )?,
                producer_ids_per_partition_max: given.number(
                    "producer.ids.per.partition.max",
                    self.log.producer_ids_per_partition_max,
                )?,
                producer_ids_max: given.number("producer.ids.max", self.log.producer_ids_max)?,
            },
            intervals: intervals(&given, &self.intervals)?,
            cleaner: CleanerSettings {
                enabled: given.flag("log.cleaner.enable", self.cleaner.enabled)?,
                threads: given.number("log.cleaner.threads", self.cleaner.threads)?,
                backoff_ms: given.number("log.cleaner.backoff.ms", self.cleaner.backoff_ms)?,
                dedupe_buffer_bytes: given.number(
                    "log.cleaner.dedupe.buffer.size",
                    self.cleaner.dedupe_buffer_bytes,
                )?,
                io_bytes_per_second: given.float(
                    "log.cleaner.io.max.bytes.per.second",
                    self.cleaner.io_bytes_per_second,
                )?,
            },
            ingest: IngestLimits {
                bytes_per_second: given.number(
                    "ingest.quota.bytes.per.second",
                    self.ingest.bytes_per_second.min(i64::MAX as u64),
                )?,
                shared_bytes_per_second: given.number(
                    "ingest.quota.shared.bytes.per.second",
                    self.ingest.shared_bytes_per_second.min(i64::MAX as u64),
                )?,
                staged_bytes_max: given.number(
                    "ingest.staged.bytes.max",
                    self.ingest.staged_bytes_max.min(i64::MAX as u64),
                )?,
                attempts_max: given.number("ingest.attempts.max", self.ingest.attempts_max)?,
                copy_bytes_max: given
                    .number("ingest.copy.bytes.max", self.ingest.copy_bytes_max)?,
                cached_bytes_max: given.number(
                    "ingest.cached.bytes.max",
                    self.ingest.cached_bytes_max.min(i64::MAX as u64),
                )?,
            },
            fetcher: fetcher(&given, &self.fetcher)?,
            throttled: self.throttled.with(&given)?,
            quota_windows: (
                windows(&given, OF_CLIENTS, self.quota_windows.0)?,
                windows(&given, OF_MUTATIONS, self.quota_windows.1)?,
            ),
            cordoned: match given.text("cordoned.log.dirs")? {
                Some(text) => listed(&text),
                None => self.cordoned.clone(),
            },
            server: DynamicSettings {
                auto_create_topics: given
                    .flag("auto.create.topics.enable", self.server.auto_create_topics)?,
                cluster: ClusterKind {
                    topic_ids: given.flag("topic.ids", self.server.cluster.topic_ids)?,
                    quorum: given.flag("metadata.quorum", self.server.cluster.quorum)?,
                },
                rack_aware: given.flag("replicas.by.rack", self.server.rack_aware)?,
                limits: limits(&given, &self.server.limits)?,
                slow_request: slow_request(&given, self.server.slow_request)?,
                metrics: metrics(&given, &self.server.metrics)?,
            },
        })
    }
}

/// Settings for the number and length of the windows of client quotas.
const OF_CLIENTS: [&str; 2] = ["quota.window.num", "quota.window.size.seconds"];
/// Settings for the number and length of the windows of controller mutation quotas.
const OF_MUTATIONS: [&str; 2] = [
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
];

fn windows(
    given: &Settings<'_, '_>,
    [count, seconds]: [&str; 2],
    now: Windows,
) -> PyResult<Windows> {
    let seconds = given.number(seconds, now.length_ms / 1_000)?;
    Ok(Windows {
        count: given.number(count, now.count)?.max(1),
        length_ms: seconds.max(1).saturating_mul(1_000),
    })
}

fn intervals(given: &Settings<'_, '_>, every: &Intervals) -> PyResult<Intervals> {
    Ok(Intervals {
        initial_delay_ms: given.number("log.initial.task.delay.ms", every.initial_delay_ms)?,
        retention_ms: given.number("log.retention.check.interval.ms", every.retention_ms)?,
        recovery_points_ms: given.number(
            "log.flush.offset.checkpoint.interval.ms",
            every.recovery_points_ms,
        )?,
        log_starts_ms: given.number(
            "log.flush.start.offset.checkpoint.interval.ms",
            every.log_starts_ms,
        )?,
        high_watermarks_ms: given.number(
            "replica.high.watermark.checkpoint.interval.ms",
            every.high_watermarks_ms,
        )?,
        flush_check_ms: given.number("log.flush.scheduler.interval.ms", every.flush_check_ms)?,
    })
}

fn metrics(given: &Settings<'_, '_>, now: &MetricsLimits) -> PyResult<MetricsLimits> {
    Ok(MetricsLimits {
        topics_max: given.number("metrics.topics.max", now.topics_max)?,
        partitions_max: given.number("metrics.partitions.max", now.partitions_max)?,
        clients_max: given.number("metrics.clients.max", now.clients_max)?,
    })
}

fn fetcher(given: &Settings<'_, '_>, now: &FetcherSettings) -> PyResult<FetcherSettings> {
    let milliseconds = |name, now: Duration| -> PyResult<Duration> {
        Ok(Duration::from_millis(
            given.number(name, now.as_millis() as u64)?,
        ))
    };
    Ok(FetcherSettings {
        threads: given.number("num.replica.fetchers", now.threads)?,
        wait_max: milliseconds("replica.fetch.wait.max.ms", now.wait_max)?,
        min_bytes: given.number("replica.fetch.min.bytes", now.min_bytes)?,
        partition_bytes_max: given.number("replica.fetch.max.bytes", now.partition_bytes_max)?,
        response_bytes_max: given
            .number("replica.fetch.response.max.bytes", now.response_bytes_max)?,
        backoff: milliseconds("replica.fetch.backoff.ms", now.backoff)?,
        socket_timeout: milliseconds("replica.socket.timeout.ms", now.socket_timeout)?,
        topic_ids: given.flag("topic.ids", now.topic_ids)?,
    })
}

fn limits(given: &Settings<'_, '_>, now: &Limits) -> PyResult<Limits> {
    let rate: i64 = given.number(
        "max.connection.creation.rate",
        i64::from(now.connection_creation_rate),
    )?;
    // A negative value means no limit.
    let queued: i64 = given.number("queued.max.request.bytes", -1)?;
    let idle_ms: i64 = given.number("connections.max.idle.ms", now.idle.as_millis() as i64)?;
    Ok(Limits {
        request_bytes_max: given.number("socket.request.max.bytes", now.request_bytes_max)?,
        unauthenticated_request_bytes_max: given.number(
            "sasl.server.max.receive.size",
            now.unauthenticated_request_bytes_max,
        )?,
        connections_max: given.number("max.connections", now.connections_max)?,
        connections_per_ip_max: given
            .number("max.connections.per.ip", now.connections_per_ip_max)?,
        connections_per_ip_overrides: match given.text("max.connections.per.ip.overrides")? {
            Some(text) => overrides(&text)?,
            None => now.connections_per_ip_overrides.clone(),
        },
        // Kafka's value for "no limit" is the largest INT; the server's is 0.
        connection_creation_rate: if rate >= i64::from(i32::MAX) {
            0
        } else {
            u32::try_from(rate).unwrap_or(0)
        },
        connection_creation_rates: match given.text("connection.rates.of.listeners")? {
            Some(text) => rates_of_listeners(&text)?,
            None => now.connection_creation_rates.clone(),
        },
        idle: u64::try_from(idle_ms).map_or(Duration::MAX, Duration::from_millis),
        authentication: Duration::from_millis(given.number(
            "connection.authentication.timeout.ms",
            now.authentication.as_millis() as u64,
        )?),
        in_flight_bytes_max: usize::try_from(queued)
            .ok()
            .filter(|&bytes| bytes > 0)
            .unwrap_or(now.in_flight_bytes_max),
        in_flight_connection_bytes_max: given.number(
            "connection.inflight.max.bytes",
            now.in_flight_connection_bytes_max,
        )?,
        fetch_sessions_max: given.number(
            "max.incremental.fetch.session.cache.slots",
            now.fetch_sessions_max,
        )?,
        fetch_bytes_max: given.number("fetch.max.bytes", now.fetch_bytes_max)?,
        listen_backlog: given.number("socket.listen.backlog.size", now.listen_backlog)?,
        socket_send_buffer_bytes: buffer_bytes(
            given.number("socket.send.buffer.bytes", SYSTEM_BUFFER)?,
        ),
        socket_receive_buffer_bytes: buffer_bytes(
            given.number("socket.receive.buffer.bytes", SYSTEM_BUFFER)?,
        ),
        ..now.clone()
    })
}

fn listed(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim);
    items
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Parse `NAME:rate` pairs, which the control plane builds from the settings of single listeners.
fn rates_of_listeners(text: &str) -> PyResult<HashMap<String, u32>> {
    let name = "connection.rates.of.listeners";
    let items = text.split(',').filter(|item| !item.is_empty());
    items
        .map(|item| {
            let (listener, rate) = item
                .rsplit_once(':')
                .ok_or_else(|| bad(name, item, "NAME:rate"))?;
            let rate = rate.parse().map_err(|_| bad(name, item, "NAME:rate"))?;
            Ok((listener.to_owned(), rate))
        })
        .collect()
}

/// Kafka's value for a socket buffer whose size the kernel chooses.
const SYSTEM_BUFFER: i64 = -1;

fn buffer_bytes(given: i64) -> Option<usize> {
    usize::try_from(given).ok()
}

/// Parse `address:limit` pairs. If host names are resolved at all, the control plane does it.
fn overrides(text: &str) -> PyResult<HashMap<IpAddr, usize>> {
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items
        .map(|item| {
            let (address, limit) = item
                .rsplit_once(':')
                .ok_or_else(|| bad("max.connections.per.ip.overrides", item, "address:limit"))?;
            match (
                address.trim_matches(['[', ']']).parse(),
                limit.trim().parse(),
            ) {
                (Ok(address), Ok(limit)) => Ok((address, limit)),
                _ => Err(bad(
                    "max.connections.per.ip.overrides",
                    item,
                    "address:limit",
                )),
            }
        })
        .collect()
}

fn bad(name: &str, value: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{name}={value}: {expected} expected"))
}
