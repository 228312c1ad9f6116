//! The node of the metadata quorum for Python.

mod outputs;
mod values;

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use pybroker_metadata_log::{Directory, LogError, LogOptions, offline};
use pybroker_protocol::ErrorCode;
use pybroker_quorum::{EpochEnd, ReplicaKey, Timeouts};
use pybroker_quorum_node::{
    Clock, FETCH_BYTES_MAX, Node, NodeSettings, OpenError, SnapshotTask, TopicIdCell,
};
use pybroker_server::clock::now_ms;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::convert::Settings;
use crate::errors::native_error;
use crate::plane::wake::WakeFd;
use crate::uuid::Uuid;
pub(crate) use outputs::{
    CommittedRecords, ProposalOutcome, QuorumFailure, QuorumLeader, QuorumRequest, QuorumResponse,
    QuorumRoom, QuorumVoters, QuorumWarning, SnapshotEnd, SnapshotRecords, SnapshotStart,
};
pub(crate) use values::{
    QuorumEndpoint, QuorumLogSummary, QuorumReplica, QuorumReplicaStatus, QuorumStatus,
};

/// A node of the metadata quorum. Its threads write, sync and decide; Python passes messages and applies records.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct MetadataQuorum {
    node: Node,
    wake: Arc<WakeFd>,
    signalled: Arc<AtomicBool>,
}

impl MetadataQuorum {
    /// Return the metadata topic's id in this node's log. The returned cell follows later changes.
    pub(crate) fn topic_id(&self) -> TopicIdCell {
        self.node.topic_id()
    }
}

#[pymethods]
impl MetadataQuorum {
    /// Return whether the directory has been formatted.
    #[staticmethod]
    fn is_formatted(py: Python<'_>, directory: PathBuf) -> PyResult<bool> {
        py.detach(|| Node::is_formatted(&directory))
            .map_err(|error| open_error(&error))
    }

    /// Format the directory. `voters` are the first voters of a new cluster, or empty for a node that joins a cluster.
    #[staticmethod]
    fn format(
        py: Python<'_>,
        directory: PathBuf,
        voters: Vec<QuorumReplica>,
        endpoints: Vec<QuorumEndpoint>,
    ) -> PyResult<()> {
        let voters: Vec<ReplicaKey> = voters.iter().map(QuorumReplica::key).collect();
        let endpoints: Vec<_> = endpoints.into_iter().map(Into::into).collect();
        py.detach(|| Node::format(&directory, voters, &endpoints, now_ms()))
            .map_err(|error| open_error(&error))
    }

    /// Check a snapshot. Return the append time of its last record, and its voters.
    #[staticmethod]
    fn check_snapshot(
        py: Python<'_>,
        directory: PathBuf,
        end_offset: i64,
        epoch: i32,
    ) -> PyResult<(i64, Vec<QuorumReplica>)> {
        let id = EpochEnd {
            epoch,
            offset: end_offset,
        };
        let found = py
            .detach(|| offline::check_snapshot(&files_of(&directory)?, id))
            .map_err(|error| log_error(&error))?;
        let voters = found.voters.iter().map(QuorumReplica::from).collect();
        Ok((found.timestamp_ms, voters))
    }

    /// Return a summary of the log of a stopped node.
    #[staticmethod]
    fn summary(py: Python<'_>, directory: PathBuf) -> PyResult<QuorumLogSummary> {
        py.detach(|| offline::summary(&files_of(&directory)?, LogOptions::default()))
            .map(QuorumLogSummary::from)
            .map_err(|error| log_error(&error))
    }

    /// Make a stopped node the only voter.
    #[staticmethod]
    fn make_only_voter(
        py: Python<'_>,
        directory: PathBuf,
        voter: &QuorumReplica,
        endpoints: Vec<QuorumEndpoint>,
    ) -> PyResult<()> {
        let (voter, options) = (voter.key(), LogOptions::default());
        let endpoints: Vec<_> = endpoints.into_iter().map(Into::into).collect();
        py.detach(|| {
            let files = files_of(&directory)?;
            offline::make_only_voter(&files, options, voter, &endpoints, now_ms())
        })
        .map_err(|error| log_error(&error))
    }

    /// Begin a log in `directory` with the snapshot in `source`.
    #[staticmethod]
    fn restore(
        py: Python<'_>,
        source: PathBuf,
        end_offset: i64,
        epoch: i32,
        directory: PathBuf,
        voter: &QuorumReplica,
        endpoints: Vec<QuorumEndpoint>,
    ) -> PyResult<()> {
        let voter = voter.key();
        let endpoints: Vec<_> = endpoints.into_iter().map(Into::into).collect();
        let id = EpochEnd {
            epoch,
            offset: end_offset,
        };
        py.detach(|| {
            let (from, to) = (files_of(&source)?, files_of(&directory)?);
            offline::restore(&from, id, &to, voter, &endpoints)
        })
        .map_err(|error| log_error(&error))
    }

    #[new]
    #[pyo3(signature = (
        *, directory, node_id, directory_id, cluster_id, bootstrap, endpoints, settings, seen_offset = 0,
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is one fact about the node")]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        node_id: i32,
        directory_id: Uuid,
        cluster_id: String,
        bootstrap: Vec<i32>,
        endpoints: Vec<QuorumEndpoint>,
        settings: &Bound<'_, PyDict>,
        seen_offset: i64,
    ) -> PyResult<Self> {
        if node_id < 0 {
            return Err(PyValueError::new_err(format!(
                "node.id={node_id} is negative"
            )));
        }
        let settings = NodeSettings {
            key: ReplicaKey {
                id: node_id,
                directory: directory_id.0,
            },
            cluster_id,
            bootstrap,
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            timeouts: timeouts(&Settings(settings))?,
            log: LogOptions {
                segment_bytes: Settings(settings).number(
                    "metadata.log.segment.bytes",
                    LogOptions::default().segment_bytes,
                )?,
                segment_ms: Settings(settings)
                    .number("metadata.log.segment.ms", LogOptions::default().segment_ms)?,
                retention_bytes: Settings(settings).number(
                    "metadata.max.retention.bytes",
                    LogOptions::default().retention_bytes,
                )?,
                retention_ms: Settings(settings).number(
                    "metadata.max.retention.ms",
                    LogOptions::default().retention_ms,
                )?,
                ..LogOptions::default()
            },
            fetch_bytes_max: FETCH_BYTES_MAX,
            seen_offset,
            seed: pybroker_model::Uuid::random().least_significant_bits(),
        };
        let wake = Arc::new(WakeFd::new()?);
        let signalled = Arc::new(AtomicBool::new(false));
        let signal = {
            let (wake, signalled) = (Arc::clone(&wake), Arc::clone(&signalled));
            move || {
                if !signalled.swap(true, Ordering::AcqRel) {
                    wake.signal();
                }
            }
        };
        let start = Instant::now();
        let clock = Clock::new(move || start.elapsed().as_millis() as u64, now_ms);
        let node = py
            .detach(|| Node::open(&directory, settings, clock, signal))
            .map_err(|error| open_error(&error))?;
        Ok(Self {
            node,
            wake,
            signalled,
        })
    }

    /// Return a file descriptor that is readable while `take` has outputs to return.
    fn fileno(&self) -> RawFd {
        self.wake.fd()
    }

    /// Return the outputs since the last call, in order.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if self.signalled.load(Ordering::Acquire) {
            self.wake.consume();
            self.signalled.store(false, Ordering::Release);
        }
        let outputs = py.detach(|| self.node.take());
        let taken = PyList::empty(py);
        for output in outputs {
            taken.append(outputs::to_python(py, output)?)?;
        }
        Ok(taken)
    }

    /// Process a request of another node. Raise `ValueError` if `body` is not a message of the quorum; the node then
    /// sends no response.
    fn receive_request(
        &self,
        handle: u64,
        api_key: i16,
        api_version: i16,
        body: &[u8],
    ) -> PyResult<()> {
        self.node
            .receive_request(handle, api_key, api_version, body)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn receive_response(&self, correlation: u64, body: &[u8]) {
        self.node
            .receive_response(correlation, Bytes::copy_from_slice(body));
    }

    fn request_failed(&self, correlation: u64, refused: bool) {
        self.node.request_failed(correlation, refused);
    }

    fn port_refused(&self, peer: i32) {
        self.node.port_refused(peer);
    }

    fn propose(&self, proposal: u64, epoch: i32, records: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let values = records.iter().map(|record| record.as_bytes());
        self.node
            .propose(proposal, epoch, values)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn add_voter(&self, proposal: u64, voter: &QuorumReplica, endpoints: Vec<QuorumEndpoint>) {
        let endpoints = endpoints.into_iter().map(Into::into).collect();
        self.node.add_voter(proposal, voter.key(), endpoints);
    }

    fn remove_voter(&self, proposal: u64, voter: &QuorumReplica) {
        self.node.remove_voter(proposal, voter.key());
    }

    fn learn(&self, endpoints: Vec<QuorumEndpoint>) {
        self.node
            .learn(endpoints.into_iter().map(Into::into).collect());
    }

    #[pyo3(signature = (successor = None))]
    fn resign(&self, successor: Option<i32>) {
        self.node.resign(successor);
    }

    /// Answer all waiting fetches, if this node leads.
    fn answer_fetches(&self) {
        self.node.answer_fetches();
    }

    fn status(&self, py: Python<'_>) -> QuorumStatus {
        py.detach(|| self.node.status()).into()
    }

    /// Begin a snapshot. Return None if `end_offset` is not beyond the latest snapshot, or while another snapshot is
    /// being written.
    fn begin_snapshot(
        &self,
        py: Python<'_>,
        end_offset: i64,
        timestamp_ms: i64,
    ) -> PyResult<Option<MetadataSnapshot>> {
        let task = py
            .detach(|| self.node.begin_snapshot(end_offset, timestamp_ms))
            .map_err(|error| log_error(&error))?;
        Ok(task.map(|task| MetadataSnapshot(Mutex::new(Some(task)))))
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.node.stop())
            .map_err(|error| log_error(&error))
    }
}

/// A snapshot of the image while it is being written.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct MetadataSnapshot(Mutex<Option<SnapshotTask>>);

#[pymethods]
impl MetadataSnapshot {
    /// Write records. Blocks on the disk.
    fn append(&self, py: Python<'_>, records: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let values: Vec<&[u8]> = records.iter().map(|record| record.as_bytes()).collect();
        py.detach(|| match &mut *self.0.lock() {
            Some(task) => task.append(values).map_err(|error| log_error(&error)),
            None => Err(finished()),
        })
    }

    /// Make the snapshot durable. Blocks on the disk.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let task = self.0.lock().take().ok_or_else(finished)?;
            task.finish().map(drop).map_err(|error| log_error(&error))
        })
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the snapshot is finished")
}

fn timeouts(settings: &Settings<'_, '_>) -> PyResult<Timeouts> {
    let default = Timeouts::default();
    let milliseconds = |name, default: u64| settings.number::<u64>(name, default);
    let fetch_ms = milliseconds("controller.quorum.fetch.timeout.ms", default.fetch_ms)?;
    Ok(Timeouts {
        election_ms: milliseconds("controller.quorum.election.timeout.ms", default.election_ms)?,
        fetch_ms,
        fetch_wait_ms: default.fetch_wait_ms.min(fetch_ms / 2),
        backoff_max_ms: milliseconds(
            "controller.quorum.election.backoff.max.ms",
            default.backoff_max_ms,
        )?,
        ..default
    })
}

fn files_of(directory: &Path) -> Result<Directory, LogError> {
    Directory::open(directory).map_err(|error| LogError::opening(directory, error))
}

fn log_error(error: &LogError) -> PyErr {
    native_error(ErrorCode::KAFKA_STORAGE_ERROR.0, error)
}

fn open_error(error: &OpenError) -> PyErr {
    native_error(ErrorCode::KAFKA_STORAGE_ERROR.0, error)
}
