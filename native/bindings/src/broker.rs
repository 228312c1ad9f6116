//! `NativeBroker`: the data plane of one broker for Python, with one object for each subject. Each object converts
//! arguments, releases the GIL and maps errors.

mod authorizer;
mod cached_responses;
mod control_queue;
mod delegated_commits;
mod fetched;
mod fetchers;
mod ingests;
mod isr;
mod listeners;
mod log_dirs;
mod log_lines;
mod metadata;
mod metric_families;
mod metrics;
mod orders;
mod partitions;
mod quotas;
mod records;
mod request;
mod slow_requests;
mod topic_config;
mod transactions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pybroker_protocol::ErrorCode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::native_error;
use crate::plane::DataPlane;
use crate::plane::settings::NativeSettings;
pub(crate) use authorizer::{AclEntry, NativeAuthorizer};
pub(crate) use cached_responses::CachedResponse;
pub(crate) use control_queue::NativeControlQueue;
pub(crate) use delegated_commits::{CommitLease, CommitTopic, MemberCommit, ShardCommits};
pub(crate) use fetched::{FetchedBatches, RecordsWatch};
pub(crate) use fetchers::{BrokerAddress, FetcherFigures, FollowedPartition, NativeFetchers};
pub(crate) use ingests::{
    AttachedPartition, IngestPreparation, ListedAttempt, NativeIngests, OpenIngest, StagedPartition,
};
pub(crate) use isr::{IsrMember, IsrProposal, NativeIsr};
pub(crate) use listeners::{Endpoint, ListenerConfig, ListenerTls, NativeListeners};
pub(crate) use log_dirs::{
    AdoptedDirectory, LocalPartition, LogDirInfo, LogDirPartition, LogDirRoom, NativeLogDirs,
    StagedDirectory,
};
pub(crate) use metadata::{
    BrokerMetadata, MetadataDelta, NativeMetadata, PartitionMetadata, TopicMetadata,
};
pub(crate) use metric_families::{MetricFamilies, MetricFamily, MetricSample};
pub(crate) use orders::{PartitionOrder, StopOrder};
pub(crate) use partitions::{
    Lag, NativePartitions, PartitionEnds, PartitionOffsets, PartitionRole,
};
pub(crate) use quotas::{ClientQuota, NativeQuotas};
pub(crate) use records::{StoredRecord, StoredRecords};
pub(crate) use request::{Completion, ConnectionGone, LogDirsFailed, ReplicasOffline, Request};
pub(crate) use slow_requests::SlowRequest;
pub(crate) use transactions::{ActiveProducer, TransactionQuestion};

/// The data plane of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeBroker {
    plane: Arc<DataPlane>,
    #[pyo3(get)]
    log_dirs: Py<NativeLogDirs>,
    #[pyo3(get)]
    partitions: Py<NativePartitions>,
    #[pyo3(get)]
    ingests: Py<NativeIngests>,
    #[pyo3(get)]
    isr: Py<NativeIsr>,
    #[pyo3(get)]
    fetchers: Py<NativeFetchers>,
    #[pyo3(get)]
    metadata: Py<NativeMetadata>,
    #[pyo3(get)]
    authorizer: Py<NativeAuthorizer>,
    #[pyo3(get)]
    quotas: Py<NativeQuotas>,
    #[pyo3(get)]
    listeners: Py<NativeListeners>,
    #[pyo3(get)]
    control_queue: Py<NativeControlQueue>,
}

#[pymethods]
impl NativeBroker {
    #[new]
    #[pyo3(signature = (*, broker_id, cluster_id, log_dirs, settings))]
    fn new(
        py: Python<'_>,
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
        let plane = Arc::new(DataPlane::new(broker_id, cluster_id, log_dirs, settings)?);
        let shared = || Arc::clone(&plane);
        Ok(Self {
            log_dirs: Py::new(py, NativeLogDirs::new(shared()))?,
            partitions: Py::new(py, NativePartitions::new(shared()))?,
            ingests: Py::new(py, NativeIngests::new(shared()))?,
            isr: Py::new(py, NativeIsr::new(shared()))?,
            fetchers: Py::new(py, NativeFetchers::new(shared()))?,
            metadata: Py::new(py, NativeMetadata::new(shared()))?,
            authorizer: Py::new(py, NativeAuthorizer::new(Arc::clone(&plane.metadata)))?,
            quotas: Py::new(py, NativeQuotas::new(shared()))?,
            listeners: Py::new(py, NativeListeners::new(shared()))?,
            control_queue: Py::new(py, NativeControlQueue::new(shared()))?,
            plane,
        })
    }

    fn set_settings(&self, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        self.plane
            .change_settings(self.plane.settings().with(settings)?)
    }

    /// Raise `ValueError` if `set_settings` would reject the settings.
    #[staticmethod]
    fn check_settings(settings: &Bound<'_, PyDict>) -> PyResult<()> {
        NativeSettings::default().with(settings).map(drop)
    }

    fn collect_metrics(&self, py: Python<'_>, families: &mut MetricFamilies) {
        py.detach(|| metrics::collect(&self.plane, families.families()));
    }

    fn take_slow_requests(&self) -> Vec<SlowRequest> {
        let taken = self
            .plane
            .server()
            .map(|server| server.take_slow_requests());
        taken.iter().flatten().map(SlowRequest::new).collect()
    }

    fn shutdown(&self, py: Python<'_>, timeout_ms: u64) -> PyResult<()> {
        let problems = py.detach(|| self.plane.stop(Duration::from_millis(timeout_ms)));
        log_lines::write(py, &self.plane.queue)?;
        problems.map_err(|problem| native_error(ErrorCode::KAFKA_STORAGE_ERROR.0, problem))
    }
}
