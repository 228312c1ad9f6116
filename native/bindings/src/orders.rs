//! Orders of the control plane, and what it learns about partitions and directories.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pybroker_model::TopicIdPartition;
use pybroker_protocol::ErrorCode;
use pybroker_replica as replica;
use pybroker_replica::{BrokerLogSettings, TopicConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::convert::topic_id;
use crate::uuid::Uuid;

/// One partition of a LeaderAndIsr request.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct PartitionOrder {
    #[pyo3(get)]
    topic_id: Uuid,
    topic: Arc<str>,
    #[pyo3(get)]
    partition: i32,
    #[pyo3(get)]
    leader: i32,
    #[pyo3(get)]
    leader_epoch: i32,
    isr: Arc<[i32]>,
    replicas: Arc<[i32]>,
    is_new: bool,
    start_offset: i64,
    config: Py<PyDict>,
    /// When it was decided; see `TopicConfig::sequence`.
    sequence: u64,
}

/// Numbers decisions about settings in the order in which Python takes them.
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

#[pymethods]
impl PartitionOrder {
    #[new]
    #[pyo3(signature = (topic_id, topic, partition, leader, leader_epoch, isr, replicas, is_new, config, start_offset = 0))]
    #[expect(clippy::too_many_arguments, reason = "a record with a field for each")]
    fn new(
        topic_id: Uuid,
        topic: &str,
        partition: i32,
        leader: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        replicas: Vec<i32>,
        is_new: bool,
        config: Py<PyDict>,
        start_offset: i64,
    ) -> Self {
        Self {
            topic_id,
            topic: topic.into(),
            partition,
            leader,
            leader_epoch,
            isr: isr.into(),
            replicas: replicas.into(),
            is_new,
            start_offset,
            config,
            sequence: SEQUENCE.fetch_add(1, Relaxed),
        }
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }
}

/// Converts a batch of orders; each dict of settings is parsed once.
pub(crate) fn partition_orders(
    py: Python<'_>,
    orders: &[Bound<'_, PartitionOrder>],
    broker: &BrokerLogSettings,
) -> PyResult<Vec<replica::PartitionOrder>> {
    let mut parsed: Vec<(Bound<'_, PyDict>, Arc<TopicConfig>)> = Vec::new();
    let mut converted = Vec::with_capacity(orders.len());
    for order in orders {
        let order = order.get();
        let dict = order.config.bind(py);
        // Orders of one topic follow each other and share a dict.
        let config = match parsed
            .iter()
            .rev()
            .take(4)
            .find(|(known, _)| known.is(dict))
        {
            Some((_, config)) => Arc::clone(config),
            None => {
                let config = Arc::new(TopicConfig {
                    sequence: order.sequence,
                    ..parse_config(dict, broker)?
                });
                parsed.push((dict.clone(), Arc::clone(&config)));
                config
            }
        };
        converted.push(replica::PartitionOrder {
            tip: TopicIdPartition {
                topic_id: topic_id(order.topic_id)?,
                partition: order.partition,
            },
            topic: Arc::clone(&order.topic),
            leader: order.leader,
            leader_epoch: order.leader_epoch,
            isr: Arc::clone(&order.isr),
            replicas: Arc::clone(&order.replicas),
            is_new: order.is_new,
            start_offset: order.start_offset,
            config,
        });
    }
    Ok(converted)
}

/// All resolved settings of a topic, decided now.
pub(crate) fn topic_config(
    settings: &Bound<'_, PyDict>,
    broker: &BrokerLogSettings,
) -> PyResult<TopicConfig> {
    let sequence = SEQUENCE.fetch_add(1, Relaxed);
    Ok(TopicConfig {
        sequence,
        ..parse_config(settings, broker)?
    })
}

fn parse_config(settings: &Bound<'_, PyDict>, broker: &BrokerLogSettings) -> PyResult<TopicConfig> {
    let mut texts: Vec<(String, String)> = Vec::with_capacity(settings.len());
    for (name, value) in settings.iter() {
        let name: String = name.cast::<PyString>()?.extract()?;
        let value = value
            .cast::<PyString>()
            .map_err(|_| {
                PyValueError::new_err(format!("{name}: resolved topic settings are texts"))
            })?
            .extract()?;
        texts.push((name, value));
    }
    TopicConfig::parse(
        texts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
        broker,
    )
    .map_err(|bad| PyValueError::new_err(bad.to_string()))
}

/// One partition of a StopReplica request.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct StopOrder(pub(crate) replica::StopOrder);

#[pymethods]
impl StopOrder {
    #[new]
    fn new(topic_id: Uuid, partition: i32, leader_epoch: i32, delete: bool) -> PyResult<Self> {
        let tip = TopicIdPartition {
            topic_id: crate::convert::topic_id(topic_id)?,
            partition,
        };
        Ok(Self(replica::StopOrder {
            tip,
            leader_epoch,
            delete,
        }))
    }
}

/// A partition directory found by the scan at start.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct LocalPartition {
    pub(crate) log_dir: String,
    pub(crate) directory: String,
    pub(crate) topic: Option<String>,
    pub(crate) partition: i32,
    pub(crate) topic_id: Option<Uuid>,
    pub(crate) problem: Option<String>,
}

/// Where the log of a hosted partition stands.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct PartitionOffsets {
    pub(crate) log_start_offset: i64,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_end_offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) size_bytes: u64,
}

/// A partition in the answer of `describe_log_dirs`.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Clone)]
pub(crate) struct LogDirPartition {
    pub(crate) topic_id: Uuid,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) size_bytes: u64,
    pub(crate) offset_lag: i64,
    /// It is on its way into this directory (KIP-113).
    pub(crate) is_future: bool,
}

/// A log directory as DescribeLogDirs shows it.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct LogDirInfo {
    pub(crate) path: String,
    pub(crate) error_code: i16,
    pub(crate) total_bytes: i64,
    pub(crate) usable_bytes: i64,
    pub(crate) partitions: Vec<LogDirPartition>,
}

/// A partition directory that waits for removal.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct StagedDirectory {
    pub(crate) path: String,
    pub(crate) log_dir: String,
    /// `None`: its name and its `partition.metadata` do not agree; an operator decides.
    pub(crate) topic_id: Option<Uuid>,
    pub(crate) partition: i32,
    pub(crate) directory: Option<String>,
    pub(crate) deadline_ms: Option<i64>,
    /// Its removal has begun.
    pub(crate) purging: bool,
}

fn text(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<replica::LocalPartition> for LocalPartition {
    fn from(local: replica::LocalPartition) -> Self {
        Self {
            log_dir: text(&local.log_dir),
            directory: text(&local.directory),
            topic: local.topic,
            partition: local.partition,
            topic_id: local.topic_id.map(|id| Uuid(id.uuid())),
            problem: local.problem,
        }
    }
}

impl From<(std::path::PathBuf, pybroker_storage::StagedDeletion)> for StagedDirectory {
    fn from((log_dir, staged): (std::path::PathBuf, pybroker_storage::StagedDeletion)) -> Self {
        Self {
            path: text(&staged.path),
            log_dir: text(&log_dir),
            topic_id: staged.id.map(|id| Uuid(id.topic_id.uuid())),
            partition: staged.id.map_or(-1, |id| id.partition),
            directory: staged.directory,
            deadline_ms: staged.deadline_ms,
            purging: staged.purging,
        }
    }
}

impl From<replica::LogDirDescription> for LogDirInfo {
    fn from(dir: replica::LogDirDescription) -> Self {
        let size =
            |blocks: u64, unit: u64| i64::try_from(blocks.saturating_mul(unit)).unwrap_or(i64::MAX);
        let (total_bytes, usable_bytes) = match rustix::fs::statvfs(&dir.path) {
            Ok(stat) => (
                size(stat.f_blocks, stat.f_frsize),
                size(stat.f_bavail, stat.f_frsize),
            ),
            Err(_) => (-1, -1),
        };
        let partitions = dir.partitions.iter().map(|partition| LogDirPartition {
            topic_id: Uuid(partition.tip().topic_id.uuid()),
            topic: partition.topic().to_string(),
            partition: partition.tip().partition,
            size_bytes: partition.size_bytes(),
            offset_lag: (partition.high_watermark() - partition.log_end_offset()).max(0),
            is_future: false,
        });
        let futures = dir.futures.iter().map(|future| LogDirPartition {
            topic_id: Uuid(future.partition.tip().topic_id.uuid()),
            topic: future.partition.topic().to_string(),
            partition: future.partition.tip().partition,
            size_bytes: future.partition.size_bytes(),
            offset_lag: future.offset_lag,
            is_future: true,
        });
        Self {
            path: text(&dir.path),
            error_code: if dir.failure.is_some() {
                ErrorCode::KAFKA_STORAGE_ERROR.0
            } else {
                0
            },
            total_bytes,
            usable_bytes,
            partitions: partitions.chain(futures).collect(),
        }
    }
}
