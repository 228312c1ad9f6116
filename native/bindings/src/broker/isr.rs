//! Who is in sync: what leaders here propose, and what the controller has made of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_replica::{self as replica, Partition};
use pyo3::prelude::*;

use crate::convert::{shown, tip};
use crate::plane::DataPlane;
use crate::uuid::Uuid;

/// A replica in a proposed set.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IsrMember {
    broker_id: i32,
    /// The life of the broker that the leader has heard; -1: not known.
    broker_epoch: i64,
}

/// What a leader here asks of the controller.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct IsrProposal {
    topic_id: Uuid,
    partition: i32,
    leader_epoch: i32,
    isr: Vec<IsrMember>,
    /// Of the state that it replaces.
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

/// The sets of replicas in sync with the leaders here. Proposals come through the control queue.
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
