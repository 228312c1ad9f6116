//! In-sync replicas (ISR): proposals of the leaders on this broker, and the controller's decisions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_replica::{self as replica, Partition};
use pyo3::prelude::*;

use crate::convert::{shown, tip};
use crate::plane::DataPlane;
use crate::uuid::Uuid;

/// A replica in a proposed ISR.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IsrMember {
    broker_id: i32,
    /// Broker epoch that the leader knows, or -1 if unknown.
    broker_epoch: i64,
}

/// An ISR change that a leader on this broker proposes to the controller.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct IsrProposal {
    topic_id: Uuid,
    partition: i32,
    leader_epoch: i32,
    isr: Vec<IsrMember>,
    /// Version of the partition's state that the proposal replaces.
    version: i32,
}

shown!(IsrMember, IsrProposal);

impl From<replica::IsrProposal> for IsrProposal {
    fn from(proposed: replica::IsrProposal) -> Self {
        let replica::IsrProposal {
            tip,
            leader_epoch,
            proposal,
        } = proposed;
        Self {
            topic_id: Uuid(tip.topic_id.uuid()),
            partition: tip.partition,
            leader_epoch,
            isr: proposal
                .isr
                .into_iter()
                .map(|member| IsrMember {
                    broker_id: member.broker,
                    broker_epoch: member.broker_epoch,
                })
                .collect(),
            version: proposal.version,
        }
    }
}

/// The in-sync replicas of partitions that this broker leads. The control queue delivers the leaders' proposals.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeIsr(Arc<DataPlane>);

impl NativeIsr {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }

    fn partition(&self, topic_id: Uuid, partition: i32) -> PyResult<Option<Arc<Partition>>> {
        self.0.partition(tip(topic_id, partition)?)
    }
}

#[pymethods]
impl NativeIsr {
    fn judge(&self, py: Python<'_>, lag_max_ms: u64) -> PyResult<()> {
        let replicas = self.0.replicas()?;
        py.detach(|| replicas.judge_followers(Instant::now(), Duration::from_millis(lag_max_ms)));
        Ok(())
    }

    fn written(
        &self,
        topic_id: Uuid,
        partition: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        version: i32,
    ) -> PyResult<()> {
        if let Some(partition) = self.partition(topic_id, partition)? {
            partition.set_isr(leader_epoch, &isr, version);
        }
        Ok(())
    }

    fn refused(
        &self,
        topic_id: Uuid,
        partition: i32,
        leader_epoch: i32,
        version: i32,
    ) -> PyResult<()> {
        if let Some(partition) = self.partition(topic_id, partition)? {
            partition.isr_refused(leader_epoch, version);
        }
        Ok(())
    }
}
