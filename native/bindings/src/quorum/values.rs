//! Quorum values with named fields, for Python.

use pybroker_metadata_log::Endpoint;
use pybroker_metadata_log::offline::LogSummary;
use pybroker_quorum::ReplicaKey;
use pybroker_quorum_node::{NodeStatus, ReplicaStatus};
use pyo3::prelude::*;

use crate::convert::shown;
use crate::uuid::Uuid;

/// An address of a node's controller listener.
#[pyclass(
    frozen,
    get_all,
    eq,
    hash,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuorumEndpoint {
    node_id: i32,
    listener: String,
    host: String,
    port: u16,
}

impl From<Endpoint> for QuorumEndpoint {
    fn from(endpoint: Endpoint) -> Self {
        let Endpoint {
            node,
            listener,
            host,
            port,
        } = endpoint;
        Self {
            node_id: node,
            listener,
            host,
            port,
        }
    }
}

impl From<QuorumEndpoint> for Endpoint {
    fn from(endpoint: QuorumEndpoint) -> Self {
        Self {
            node: endpoint.node_id,
            listener: endpoint.listener,
            host: endpoint.host,
            port: endpoint.port,
        }
    }
}

/// A replica of the metadata log: a node and its disk.
#[pyclass(
    frozen,
    get_all,
    eq,
    hash,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuorumReplica {
    node_id: i32,
    directory_id: Uuid,
}

impl QuorumReplica {
    pub(super) fn key(&self) -> ReplicaKey {
        ReplicaKey {
            id: self.node_id,
            directory: self.directory_id.0,
        }
    }
}

impl From<ReplicaKey> for QuorumReplica {
    fn from(key: ReplicaKey) -> Self {
        Self {
            node_id: key.id,
            directory_id: Uuid(key.directory),
        }
    }
}

/// A replica's progress as the leader knows it.
#[pyclass(frozen, get_all, eq, from_py_object, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuorumReplicaStatus {
    node_id: i32,
    directory_id: Uuid,
    end_offset: i64,
    fetched_ms: i64,
    caught_up_ms: i64,
    endpoints: Vec<QuorumEndpoint>,
}

impl From<ReplicaStatus> for QuorumReplicaStatus {
    fn from(status: ReplicaStatus) -> Self {
        Self {
            node_id: status.key.id,
            directory_id: Uuid(status.key.directory),
            end_offset: status.end_offset,
            fetched_ms: status.fetched_ms.unwrap_or(-1),
            caught_up_ms: status.caught_up_ms.unwrap_or(-1),
            endpoints: status.endpoints.into_iter().map(Into::into).collect(),
        }
    }
}

/// A node's view of the quorum.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct QuorumStatus {
    role: String,
    epoch: i32,
    leader: Option<i32>,
    high_watermark: i64,
    log_start: i64,
    log_end: i64,
    snapshot_end: i64,
    topic_id: Option<Uuid>,
    voters: Vec<QuorumReplicaStatus>,
    observers: Vec<QuorumReplicaStatus>,
}

impl From<NodeStatus> for QuorumStatus {
    fn from(status: NodeStatus) -> Self {
        Self {
            role: format!("{:?}", status.role),
            epoch: status.epoch,
            leader: status.leader,
            high_watermark: status.high_watermark,
            log_start: status.log_start,
            log_end: status.log_end,
            snapshot_end: status.snapshot.offset,
            topic_id: status.topic_id.map(Uuid),
            voters: status.voters.into_iter().map(Into::into).collect(),
            observers: status.observers.into_iter().map(Into::into).collect(),
        }
    }
}

/// The log of a stopped node.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct QuorumLogSummary {
    snapshot_end: i64,
    end_offset: i64,
    last_epoch: i32,
    epoch: i32,
    voters: Vec<QuorumReplica>,
}

impl From<LogSummary> for QuorumLogSummary {
    fn from(summary: LogSummary) -> Self {
        Self {
            snapshot_end: summary.snapshot.offset,
            end_offset: summary.end.offset,
            last_epoch: summary.end.epoch,
            epoch: summary.epoch,
            voters: summary.voters.iter().map(QuorumReplica::from).collect(),
        }
    }
}

shown!(
    QuorumEndpoint,
    QuorumLogSummary,
    QuorumReplica,
    QuorumReplicaStatus,
    QuorumStatus
);
