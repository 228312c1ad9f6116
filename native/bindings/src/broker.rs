//! `NativeBroker`: the data plane of one broker, as Python holds it. Converts, lets go of the GIL, maps errors. PyO3
//! wants all calls of a class in one block; how the broker starts and stops: `life`.

mod life;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use pybroker_model::{TopicIdPartition, ValidBatches};
use pybroker_protocol::ErrorCode;
use pybroker_replica::{Background, MoveError, Replicas};
use pybroker_server::Server;
use pybroker_server::authorizer::{AclDelta, Operation, ResourceType};
use pybroker_server::metadata_view::MetadataHolder;
use pybroker_storage::AppendOrigin;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::acls::{self, AclTuple};
use crate::control_queue::{Completed, ControlQueue, Item};
use crate::convert::topic_id;
use crate::errors::{native_error, partition_code, partition_error};
use crate::functions::batch_of;
use crate::ingest::NativeIngests;
use crate::metadata::MetadataDelta;
use crate::orders::{
    LocalPartition, LogDirInfo, PartitionOffsets, PartitionOrder, StagedDirectory, StopOrder,
    partition_orders, topic_config,
};
use crate::pending_append::PendingAppend;
use crate::request::{Completion, LogDirsFailed, Request};
use crate::settings::NativeSettings;
use crate::uuid::Uuid;
use crate::{log_lines, metrics, records};

/// Bytes of requests that may wait for Python.
const CONTROL_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The data plane of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeBroker {
    broker_id: i32,
    cluster_id: String,
    log_dirs: Vec<PathBuf>,
    settings: ArcSwap<NativeSettings>,
    queue: Arc<ControlQueue>,
    metadata: Arc<MetadataHolder>,
    /// From `start_log_dirs` on.
    replicas: ArcSwapOption<Replicas>,
    /// From `open_listeners` on.
    server: ArcSwapOption<Server>,
    background: Mutex<Option<Background>>,
    next_token: AtomicU64,
    /// Held by `shutdown`: a second call waits for the first.
    stopping: Mutex<bool>,
}

pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is a clock that is not set.
    since.map_or(0, |since| since.as_millis() as i64)
}

impl NativeBroker {
    fn partition(
        &self,
        topic: Uuid,
        partition: i32,
    ) -> PyResult<Option<Arc<pybroker_replica::Partition>>> {
        let tip = TopicIdPartition {
            topic_id: topic_id(topic)?,
            partition,
        };
        Ok(self.replicas()?.partition(tip))
    }

    fn hosted(&self, topic: Uuid, partition: i32) -> PyResult<Arc<pybroker_replica::Partition>> {
        self.partition(topic, partition)?.ok_or_else(|| {
            native_error(
                ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
                format!("{}-{partition} is not hosted here", topic.0),
            )
        })
    }
}

#[pymethods]
impl NativeBroker {
    #[new]
    #[pyo3(signature = (*, broker_id, cluster_id, log_dirs, settings))]
    fn new(
        broker_id: i32,
        cluster_id: String,
        log_dirs: Vec<PathBuf>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        if log_dirs.is_empty() {
            return Err(PyValueError::new_err("log.dirs names no directory"));
        }
        crate::panics::abort_on_panic();
        let settings = NativeSettings::default().with(settings)?;
        Ok(Self {
            broker_id,
            metadata: Arc::new(MetadataHolder::new(&cluster_id)),
            cluster_id,
            log_dirs,
            queue: Arc::new(ControlQueue::new(
                CONTROL_QUEUE_BYTES_MAX,
                settings.queued_requests_max,
            )?),
            settings: ArcSwap::from_pointee(settings),
            replicas: ArcSwapOption::empty(),
            server: ArcSwapOption::empty(),
            background: Mutex::new(None),
            next_token: AtomicU64::new(1),
            stopping: Mutex::new(false),
        })
    }

    fn start_log_dirs(&self, py: Python<'_>) -> PyResult<Vec<LocalPartition>> {
        self.start_replicas(py)
    }

    fn open_listeners(
        &self,
        py: Python<'_>,
        listeners: Vec<(String, String, u16, String)>,
    ) -> PyResult<Vec<(String, String, u16)>> {
        self.start_server(py, listeners)
    }

    fn start_accepting(&self) -> PyResult<()> {
        self.server()?.start_accepting();
        Ok(())
    }

    fn wake_fd(&self) -> i32 {
        self.queue.fd()
    }

    #[pyo3(signature = (max_items = 256))]
    fn drain<'py>(&self, py: Python<'py>, max_items: usize) -> PyResult<Bound<'py, PyList>> {
        // The server's threads hold the queue's lock for moments only and never take the GIL: no need to let it go.
        let items = self.queue.drain(max_items.max(1));
        log_lines::write(py, &self.queue)?;
        let drained = PyList::empty(py);
        for item in items {
            match item {
                Item::Completed(completed) => {
                    drained.append(Bound::new(py, Completion::from(completed))?)?
                }
                Item::Failed(reason) => {
                    drained.append(Bound::new(py, LogDirsFailed::new(reason))?)?
                }
                Item::Request(request) => match Request::decode(py, request) {
                    Ok(request) => drained.append(Bound::new(py, request)?)?,
                    Err(refused) => {
                        let (error, request) = *refused;
                        log_lines::undecodable(py, &request, &error)?;
                        request.reply.close();
                    }
                },
            }
        }
        Ok(drained)
    }

    fn apply_partitions(
        &self,
        py: Python<'_>,
        orders: Vec<Bound<'_, PartitionOrder>>,
    ) -> PyResult<Vec<i16>> {
        let replicas = self.replicas()?;
        let orders = partition_orders(py, &orders, &replicas.log_settings())?;
        let results = py.detach(|| replicas.apply(&orders, now_ms()));
        Ok(results.iter().map(code_of).collect())
    }

    fn adopt_partitions(
        &self,
        py: Python<'_>,
        directories: Vec<(PathBuf, Uuid, i32)>,
    ) -> PyResult<Vec<Option<String>>> {
        let replicas = self.replicas()?;
        let directories = directories
            .into_iter()
            .map(|(path, id, partition)| {
                let topic_id = topic_id(id)?;
                Ok((
                    path,
                    TopicIdPartition {
                        topic_id,
                        partition,
                    },
                ))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| replicas.adopt(&directories));
        Ok(results
            .into_iter()
            .map(|result| result.err().map(|error| error.to_string()))
            .collect())
    }

    fn set_aside(&self, py: Python<'_>, directories: Vec<PathBuf>) -> PyResult<()> {
        let replicas = self.replicas()?;
        py.detach(|| replicas.set_aside(&directories));
        Ok(())
    }

    fn stop_partitions(
        &self,
        py: Python<'_>,
        orders: Vec<Bound<'_, StopOrder>>,
    ) -> PyResult<Vec<i16>> {
        let replicas = self.replicas()?;
        let orders: Vec<_> = orders.iter().map(|order| order.get().0).collect();
        let results = py.detach(|| replicas.stop(&orders, now_ms()));
        Ok(results.iter().map(code_of).collect())
    }

    fn restore_partitions(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        topic: &str,
        partitions: Vec<i32>,
    ) -> PyResult<Vec<i16>> {
        let replicas = self.replicas()?;
        let id = crate::convert::topic_id(topic_id)?;
        let tip = |partition| TopicIdPartition {
            topic_id: id,
            partition,
        };
        let tips: Vec<_> = partitions.into_iter().map(tip).collect();
        let topic: Arc<str> = topic.into();
        let results = py.detach(|| replicas.restore(&tips, &topic, now_ms()));
        Ok(results.iter().map(code_of).collect())
    }

    fn set_fenced(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        fenced: bool,
    ) -> PyResult<Vec<(i32, i64, i64)>> {
        let replicas = self.replicas()?;
        let id = crate::convert::topic_id(topic_id)?;
        Ok(py.detach(|| replicas.set_fenced(id, fenced)))
    }

    fn publish_metadata(&self, delta: &Bound<'_, MetadataDelta>) -> PyResult<u64> {
        let delta = delta.get().take()?;
        let removed = delta.topics_removed.clone();
        let version = self.metadata.apply(delta);
        if !removed.is_empty()
            && let Some(replicas) = self.replicas.load_full()
        {
            replicas.retire(&removed);
        }
        Ok(version)
    }

    #[pyo3(signature = (*, added = Vec::new(), removed = Vec::new(), super_users = None, allow_everyone_without_acls = None))]
    fn publish_acls(
        &self,
        added: Vec<AclTuple>,
        removed: Vec<AclTuple>,
        super_users: Option<Vec<String>>,
        allow_everyone_without_acls: Option<bool>,
    ) -> u64 {
        self.metadata.authorizer().apply(AclDelta {
            removed: removed.into_iter().map(acls::acl).collect(),
            added: added.into_iter().map(acls::acl).collect(),
            super_users,
            allow_everyone_without_acls,
        })
    }

    fn permits(
        &self,
        principal: &str,
        host: &str,
        operation: u8,
        resource_type: u8,
        name: &str,
    ) -> bool {
        acls::with_subject(&self.metadata, principal, host, |rules, who| {
            rules.permits(who, Operation(operation), ResourceType(resource_type), name)
        })
        .unwrap_or(true)
    }

    fn permits_any(&self, principal: &str, host: &str, operation: u8, resource_type: u8) -> bool {
        acls::with_subject(&self.metadata, principal, host, |rules, who| {
            rules.permits_any(who, Operation(operation), ResourceType(resource_type))
        })
        .unwrap_or(true)
    }

    fn permitted_operations(
        &self,
        principal: &str,
        host: &str,
        resource_type: u8,
        name: &str,
    ) -> i32 {
        let kind = ResourceType(resource_type);
        acls::with_subject(&self.metadata, principal, host, |rules, who| {
            rules.operations(who, kind, name)
        })
        .unwrap_or_else(|| acls::all_operations(kind))
    }

    fn set_topic_config(&self, topic_id: Uuid, config: &Bound<'_, PyDict>) -> PyResult<()> {
        let replicas = self.replicas()?;
        let id = crate::convert::topic_id(topic_id)?;
        let config = Arc::new(topic_config(config, &replicas.log_settings())?);
        replicas.set_topic_config(id, &config);
        Ok(())
    }

    fn set_broker_settings(&self, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        self.change_settings(self.settings.load().with(settings)?)
    }

    fn append(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        records: Vec<Bound<'_, PyAny>>,
        timestamp_ms: i64,
    ) -> PyResult<u64> {
        let batch = batch_of(&records, timestamp_ms)?;
        let token = self.next_token.fetch_add(1, Relaxed);
        let hosted = self.partition(topic_id, partition)?;
        // Not beyond here with an error: the token is promised a completion.
        py.detach(|| {
            let Some(hosted) = hosted else {
                self.queue.complete(PendingAppend::failed(
                    token,
                    &pybroker_replica::PartitionError::NotLeader,
                ));
                return;
            };
            let appended = append_batch(&hosted, batch);
            match appended {
                Ok(info) => {
                    let completed = Completed {
                        token,
                        error_code: 0,
                        base_offset: info.base_offset,
                        log_append_time: info.log_append_time,
                    };
                    PendingAppend::start(&self.queue, completed, hosted.committed(&info));
                }
                Err(error) => self.queue.complete(PendingAppend::failed(token, &error)),
            }
        });
        Ok(token)
    }

    fn read_records<'py>(
        &self,
        py: Python<'py>,
        topic_id: Uuid,
        partition: i32,
        offset: i64,
        max_bytes: usize,
    ) -> PyResult<(Bound<'py, PyList>, i64)> {
        let hosted = self.hosted(topic_id, partition)?;
        let read = py
            .detach(|| records::read(&hosted, offset, max_bytes))
            .map_err(|error| partition_error(&error))?;
        Ok((read.to_list(py)?, read.next_offset))
    }

    fn partition_offsets(
        &self,
        topic_id: Uuid,
        partition: i32,
    ) -> PyResult<Option<PartitionOffsets>> {
        Ok(self
            .partition(topic_id, partition)?
            .map(|hosted| PartitionOffsets {
                log_start_offset: hosted.log_start_offset(),
                high_watermark: hosted.high_watermark(),
                last_stable_offset: hosted.last_stable_offset(),
                log_end_offset: hosted.log_end_offset(),
                leader_epoch: hosted.leader_epoch(),
                size_bytes: hosted.size_bytes(),
            }))
    }

    fn delete_records(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        offset: i64,
    ) -> PyResult<(i16, i64)> {
        let replicas = self.replicas()?;
        let tip = TopicIdPartition {
            topic_id: crate::convert::topic_id(topic_id)?,
            partition,
        };
        Ok(match py.detach(|| replicas.delete_records(tip, offset)) {
            Ok(low_watermark) => (0, low_watermark),
            Err(error) => (partition_code(&error), -1),
        })
    }

    fn move_partition(
        &self,
        py: Python<'_>,
        topic: Uuid,
        partition: i32,
        log_dir: PathBuf,
    ) -> PyResult<i16> {
        let tip = TopicIdPartition {
            topic_id: topic_id(topic)?,
            partition,
        };
        let replicas = self.replicas()?;
        let code = match py.detach(|| replicas.move_partition(tip, &log_dir)) {
            Ok(()) => ErrorCode::NONE,
            Err(MoveError::NoSuchDir) => ErrorCode::LOG_DIR_NOT_FOUND,
            Err(MoveError::Offline) => ErrorCode::KAFKA_STORAGE_ERROR,
            Err(MoveError::NotHosted) => ErrorCode::REPLICA_NOT_AVAILABLE,
        };
        Ok(code.0)
    }

    fn describe_log_dirs(&self, py: Python<'_>) -> PyResult<Vec<LogDirInfo>> {
        let replicas = self.replicas()?;
        Ok(py
            .detach(|| replicas.describe_log_dirs())
            .into_iter()
            .map(LogDirInfo::from)
            .collect())
    }

    fn staged_deletions(&self, py: Python<'_>) -> PyResult<Vec<StagedDirectory>> {
        let replicas = self.replicas()?;
        let staged = py
            .detach(|| replicas.staged())
            .map_err(|error| partition_error(&error))?;
        Ok(staged.into_iter().map(StagedDirectory::from).collect())
    }

    fn purge(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let replicas = self.replicas()?;
        py.detach(|| replicas.purge(&path))
            .map_err(|error| path_error(&error, &path))
    }

    fn stage_directory(&self, py: Python<'_>, directory: PathBuf) -> PyResult<PathBuf> {
        let replicas = self.replicas()?;
        py.detach(|| replicas.stage_directory(&directory, now_ms()))
            .map_err(|error| path_error(&error, &directory))
    }

    fn ingests(&self) -> PyResult<NativeIngests> {
        Ok(NativeIngests::new(&self.replicas()?))
    }

    fn metrics(&self, py: Python<'_>) -> String {
        py.detach(|| {
            metrics::render(
                &self.queue,
                self.server.load_full(),
                self.replicas.load_full(),
            )
        })
    }

    fn stop_accepting(&self) {
        if let Some(server) = self.server.load_full() {
            server.stop_accepting();
        }
    }

    /// R24, from "finish produces" on. Never waits for the GIL, nor holds it.
    fn shutdown(&self, py: Python<'_>, timeout_ms: u64) -> PyResult<()> {
        let problems = py.detach(|| self.stop_all(Duration::from_millis(timeout_ms)));
        log_lines::write(py, &self.queue)?;
        match problems {
            Ok(()) => Ok(()),
            Err(problem) => Err(native_error(ErrorCode::KAFKA_STORAGE_ERROR.0, problem)),
        }
    }
}

fn append_batch(
    hosted: &Arc<pybroker_replica::Partition>,
    batch: Vec<u8>,
) -> Result<pybroker_replica::AppendInfo, pybroker_replica::PartitionError> {
    let batches = ValidBatches::checked_owned(batch)?;
    hosted.append_from(AppendOrigin::Coordinator, batches, -1, now_ms())
}

fn code_of(result: &Result<(), pybroker_replica::PartitionError>) -> i16 {
    result.as_ref().map_or_else(partition_code, |()| 0)
}

fn path_error(error: &pybroker_replica::PartitionError, path: &Path) -> PyErr {
    match error {
        pybroker_replica::PartitionError::Invalid(reason) => {
            PyValueError::new_err(format!("{}: {reason}", path.display()))
        }
        other => partition_error(other),
    }
}
