//! Requests of the controller about partitions (LeaderAndIsr, StopReplica).

use std::sync::Arc;

use pybroker_replica as replica;
use pybroker_replica::{BrokerLogSettings, TopicConfig};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::topic_config::{next_sequence, parse};
use crate::convert::{shown, tip};
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
    #[pyo3(get)]
    version: i32,
    replicas: Arc<[i32]>,
    #[pyo3(get)]
    is_new: bool,
    #[pyo3(get)]
    start_offset: i64,
    #[pyo3(get)]
    config: Py<PyDict>,
    /// Sequence number of the topic's settings; see `TopicConfig::sequence`.
    sequence: u64,
}

#[pymethods]
impl PartitionOrder {
    #[new]
    #[pyo3(signature = (*, topic_id, topic, partition, leader, leader_epoch, isr, version, replicas, is_new, config, start_offset = 0))]
    #[expect(clippy::too_many_arguments, reason = "the fields of a record, by name")]
    fn new(
        topic_id: Uuid,
        topic: &str,
        partition: i32,
        leader: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        version: i32,
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
            version,
            replicas: replicas.into(),
            is_new,
            start_offset,
            config,
            sequence: next_sequence(),
        }
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    #[getter]
    fn isr(&self) -> &[i32] {
        &self.isr
    }

    #[getter]
    fn replicas(&self) -> &[i32] {
        &self.replicas
    }
}

/// Convert a batch of orders. Each dict of settings is parsed only once.
pub(super) fn partition_orders(
    py: Python<'_>,
    orders: &[Bound<'_, PartitionOrder>],
    broker: &BrokerLogSettings,
) -> PyResult<Vec<replica::PartitionOrder>> {
    let mut parsed: Vec<(Bound<'_, PyDict>, Arc<TopicConfig>)> = Vec::new();
    let mut converted = Vec::with_capacity(orders.len());
    for order in orders {
        let order = order.get();
        let dict = order.config.bind(py);
        // Orders of the same topic are adjacent and share one dict.
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
                    ..parse(dict, broker)?
                });
                parsed.push((dict.clone(), Arc::clone(&config)));
                config
            }
        };
        converted.push(replica::PartitionOrder {
            tip: tip(order.topic_id, order.partition)?,
            topic: Arc::clone(&order.topic),
            leader: order.leader,
            leader_epoch: order.leader_epoch,
            isr: Arc::clone(&order.isr),
            version: order.version,
            replicas: Arc::clone(&order.replicas),
            is_new: order.is_new,
            start_offset: order.start_offset,
            config,
        });
    }
    Ok(converted)
}

/// One partition of a StopReplica request.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StopOrder {
    topic_id: Uuid,
    partition: i32,
    leader_epoch: i32,
    delete: bool,
}

shown!(StopOrder);

impl StopOrder {
    pub(super) fn checked(&self) -> PyResult<replica::StopOrder> {
        Ok(replica::StopOrder {
            tip: tip(self.topic_id, self.partition)?,
            leader_epoch: self.leader_epoch,
            delete: self.delete,
        })
    }
}
