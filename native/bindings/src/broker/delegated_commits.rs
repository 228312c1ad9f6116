//! Delegated offset commits, as objects for the group coordinator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_server::delegated_commits::{self, CommitBounds};
use pyo3::prelude::*;

use crate::convert::{shown, tip, topic_id};
use crate::uuid::Uuid;

/// Delegated commits of one partition of the offsets topic.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct ShardCommits(pub(super) Arc<delegated_commits::ShardCommits>);

/// A committed offset.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct MemberCommit {
    group: String,
    topic_id: Uuid,
    topic: String,
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    timestamp_ms: i64,
    log_offset: i64,
}

/// A topic for which a member may commit offsets.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommitTopic {
    topic_id: Uuid,
    name: String,
    partitions: i32,
    first_epoch: i32,
}

shown!(MemberCommit, CommitTopic);

impl From<delegated_commits::MemberCommit> for MemberCommit {
    fn from(commit: delegated_commits::MemberCommit) -> Self {
        Self {
            group: commit.group.as_ref().into(),
            topic_id: Uuid(commit.topic_id.uuid()),
            topic: commit.topic.as_ref().into(),
            partition: commit.partition,
            offset: commit.offset,
            leader_epoch: commit.leader_epoch,
            metadata: commit.metadata.into(),
            timestamp_ms: commit.timestamp_ms,
            log_offset: commit.log_offset,
        }
    }
}

#[pymethods]
impl ShardCommits {
    #[new]
    fn new(topic: Uuid, partition: i32, leader_epoch: i32) -> PyResult<Self> {
        let tip = tip(topic, partition)?;
        let commits = delegated_commits::ShardCommits::new(tip, leader_epoch);
        Ok(Self(Arc::new(commits)))
    }

    // A data thread may hold the gate while it writes to the log, so release the GIL while waiting for it.
    fn revoke_all(&self, py: Python<'_>) {
        py.detach(|| self.0.revoke_all());
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    fn take(&self) -> Vec<MemberCommit> {
        self.0.take().into_iter().map(MemberCommit::from).collect()
    }

    fn take_count(&self) -> u64 {
        self.0.take_count()
    }

    fn in_flight(&self) -> Vec<MemberCommit> {
        let commits = self.0.in_flight();
        commits.into_iter().map(MemberCommit::from).collect()
    }

    fn drop_group(&self, group: &str) {
        self.0.drop_group(group);
    }

    fn drop_topic(&self, topic: Uuid) -> PyResult<()> {
        self.0.drop_topic(topic_id(topic)?);
        Ok(())
    }
}

/// Delegation of a member's commits to the data threads, until it is revoked.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct CommitLease(pub(super) Arc<delegated_commits::CommitLease>);

#[pymethods]
impl CommitLease {
    fn invalidate(&self, py: Python<'_>) {
        py.detach(|| self.0.revoke());
    }

    fn idle_ms(&self) -> u64 {
        self.0.idle(Instant::now()).as_millis() as u64
    }
}

/// Build the bounds of a delegation.
pub(super) fn bounds(
    topics: Vec<CommitTopic>,
    metadata_bytes_max: usize,
    timeout_ms: u64,
) -> PyResult<CommitBounds> {
    let topic = |topic: CommitTopic| {
        Ok(delegated_commits::CommitTopic {
            topic_id: topic_id(topic.topic_id)?,
            name: topic.name.into(),
            partitions: topic.partitions,
            first_epoch: topic.first_epoch,
        })
    };
    Ok(CommitBounds {
        topics: topics.into_iter().map(topic).collect::<PyResult<_>>()?,
        metadata_bytes_max,
        timeout: Duration::from_millis(timeout_ms),
    })
}
