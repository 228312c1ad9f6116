//! The log directories of one broker: their contents, staged replicas, and moves between directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pybroker_protocol::ErrorCode;
use pybroker_replica::{self as replica, MoveError, PartitionError};
use pybroker_server::clock::now_ms;
use pybroker_storage::StagedDeletion;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::{shown, tip};
use crate::errors::partition_error;
use crate::plane::DataPlane;
use crate::uuid::Uuid;

/// A partition directory found by the scan at start.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct LocalPartition {
    log_dir: String,
    directory: String,
    topic: Option<String>,
    partition: i32,
    topic_id: Option<Uuid>,
    problem: Option<String>,
}

/// A log directory assigned to a partition.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdoptedDirectory {
    directory: PathBuf,
    topic_id: Uuid,
    partition: i32,
}

/// A partition in the result of `describe`.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogDirPartition {
    topic_id: Uuid,
    topic: String,
    partition: i32,
    size_bytes: u64,
    offset_lag: i64,
    /// Whether the replica is being moved to this directory (KIP-113).
    is_future: bool,
}

/// A log directory as DescribeLogDirs shows it.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct LogDirInfo {
    path: String,
    error_code: i16,
    total_bytes: i64,
    usable_bytes: i64,
    partitions: Vec<LogDirPartition>,
}

/// Disk space of an online log directory.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogDirRoom {
    path: String,
    total_bytes: i64,
    usable_bytes: i64,
    full_refusals: u64,
}

/// A staged replica, which waits for its removal.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct StagedDirectory {
    path: String,
    log_dir: String,
    /// `None` if the directory's name and its `partition.metadata` disagree. An operator must then decide what to do.
    topic_id: Option<Uuid>,
    partition: i32,
    directory: Option<String>,
    deadline_ms: Option<i64>,
    /// Whether the removal has started.
    purging: bool,
}

shown!(
    LocalPartition,
    AdoptedDirectory,
    LogDirPartition,
    LogDirInfo,
    LogDirRoom,
    StagedDirectory
);

/// The log directories of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeLogDirs(Arc<DataPlane>);

impl NativeLogDirs {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }
}

#[pymethods]
impl NativeLogDirs {
    fn start(&self, py: Python<'_>) -> PyResult<Vec<LocalPartition>> {
        let found = self.0.start_replicas(py)?;
        Ok(found.into_iter().map(LocalPartition::from).collect())
    }

    fn adopt(
        &self,
        py: Python<'_>,
        directories: Vec<AdoptedDirectory>,
    ) -> PyResult<Vec<Option<String>>> {
        let replicas = self.0.replicas()?;
        let directories = directories
            .into_iter()
            .map(|one| {
                let tip = tip(one.topic_id, one.partition)?;
                Ok((one.directory, tip))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| replicas.adopt(&directories));
        Ok(results
            .into_iter()
            .map(|result| result.err().map(|error| error.to_string()))
            .collect())
    }

    fn set_aside(&self, py: Python<'_>, directories: Vec<PathBuf>) -> PyResult<()> {
        let replicas = self.0.replicas()?;
        py.detach(|| replicas.set_aside(&directories));
        Ok(())
    }

    fn describe(&self, py: Python<'_>) -> PyResult<Vec<LogDirInfo>> {
        let replicas = self.0.replicas()?;
        Ok(py
            .detach(|| replicas.describe_log_dirs())
            .into_iter()
            .map(LogDirInfo::from)
            .collect())
    }

    fn rooms(&self, py: Python<'_>) -> PyResult<Vec<LogDirRoom>> {
        let replicas = self.0.replicas()?;
        Ok(py.detach(|| {
            let dirs = replicas.log_dir_refusals().into_iter();
            dirs.map(|dir| {
                let (total_bytes, usable_bytes) = file_system_bytes(&dir.path);
                LogDirRoom {
                    path: text(&dir.path),
                    total_bytes,
                    usable_bytes,
                    full_refusals: dir.full_refusals,
                }
            })
            .collect()
        }))
    }

    fn move_partition(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        log_dir: PathBuf,
    ) -> PyResult<i16> {
        let tip = tip(topic_id, partition)?;
        let replicas = self.0.replicas()?;
        let code = match py.detach(|| replicas.move_partition(tip, &log_dir)) {
            Ok(()) => ErrorCode::NONE,
            Err(MoveError::NoSuchDir) => ErrorCode::LOG_DIR_NOT_FOUND,
            Err(MoveError::Offline) => ErrorCode::KAFKA_STORAGE_ERROR,
            Err(MoveError::NotHosted) => ErrorCode::REPLICA_NOT_AVAILABLE,
            Err(MoveError::Cordoned) => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
        };
        Ok(code.0)
    }

    fn stage(&self, py: Python<'_>, directory: PathBuf) -> PyResult<PathBuf> {
        let replicas = self.0.replicas()?;
        py.detach(|| replicas.stage_directory(&directory, now_ms()))
            .map_err(|error| path_error(&error, &directory))
    }

    fn staged(&self, py: Python<'_>) -> PyResult<Vec<StagedDirectory>> {
        let replicas = self.0.replicas()?;
        let staged = py
            .detach(|| replicas.staged())
            .map_err(|error| partition_error(&error))?;
        Ok(staged.into_iter().map(StagedDirectory::from).collect())
    }

    fn purge(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let replicas = self.0.replicas()?;
        py.detach(|| replicas.purge(&path))
            .map_err(|error| path_error(&error, &path))
    }
}

fn path_error(error: &PartitionError, path: &Path) -> PyErr {
    match error {
        PartitionError::Invalid(reason) => {
            PyValueError::new_err(format!("{}: {reason}", path.display()))
        }
        other => partition_error(other),
    }
}

/// Return the total and the usable bytes of the file system of `path`, or -1 if unknown.
fn file_system_bytes(path: &Path) -> (i64, i64) {
    let size =
        |blocks: u64, unit: u64| i64::try_from(blocks.saturating_mul(unit)).unwrap_or(i64::MAX);
    match rustix::fs::statvfs(path) {
        Ok(stat) => (
            size(stat.f_blocks, stat.f_frsize),
            size(stat.f_bavail, stat.f_frsize),
        ),
        Err(_) => (-1, -1),
    }
}

fn text(path: &Path) -> String {
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

impl From<(PathBuf, StagedDeletion)> for StagedDirectory {
    fn from((log_dir, staged): (PathBuf, StagedDeletion)) -> Self {
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
        let (total_bytes, usable_bytes) = file_system_bytes(&dir.path);
        let shown = |partition: &replica::Partition, offset_lag, is_future| LogDirPartition {
            topic_id: Uuid(partition.tip().topic_id.uuid()),
            topic: partition.topic().to_string(),
            partition: partition.tip().partition,
            size_bytes: partition.size_bytes(),
            offset_lag,
            is_future,
        };
        let partitions = dir.partitions.iter().map(|partition| {
            let lag = partition.high_watermark() - partition.log_end_offset();
            shown(partition, lag.max(0), false)
        });
        let futures = dir
            .futures
            .iter()
            .map(|future| shown(&future.partition, future.offset_lag, true));
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
