//! Metadata updates from Python: ordered changes of the metadata view.

use std::collections::HashMap;
use std::sync::Arc;

use pybroker_server::metadata_view;
use pyo3::prelude::*;

use super::listeners::Endpoint;
use crate::convert::topic_id;
use crate::plane::DataPlane;
use crate::quorum::MetadataQuorum;
use crate::uuid::Uuid;

/// A live broker.
#[pyclass(frozen, get_all, new = "from_fields", module = "pybroker._native")]
pub(crate) struct BrokerMetadata {
    id: i32,
    rack: Option<String>,
    endpoints: Vec<Endpoint>,
}

/// State of a partition in the metadata.
#[pyclass(frozen, get_all, new = "from_fields", module = "pybroker._native")]
pub(crate) struct PartitionMetadata {
    partition: i32,
    /// Broker id of the leader, or −1 if there is none.
    leader: i32,
    leader_epoch: i32,
    isr: Vec<i32>,
    replicas: Vec<i32>,
    offline: Vec<i32>,
}

/// A topic with all of its partitions.
#[pyclass(frozen, get_all, new = "from_fields", module = "pybroker._native")]
pub(crate) struct TopicMetadata {
    topic_id: Uuid,
    name: String,
    internal: bool,
    partitions: Vec<Py<PartitionMetadata>>,
}

/// A change of the metadata.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct MetadataDelta {
    brokers: Option<Vec<Py<BrokerMetadata>>>,
    controller_id: Option<i32>,
    topics_changed: Vec<Py<TopicMetadata>>,
    topics_removed: Vec<Uuid>,
}

#[pymethods]
impl MetadataDelta {
    #[new]
    #[pyo3(signature = (*, brokers = None, controller_id = None, topics_changed = Vec::new(), topics_removed = Vec::new()))]
    const fn new(
        brokers: Option<Vec<Py<BrokerMetadata>>>,
        controller_id: Option<i32>,
        topics_changed: Vec<Py<TopicMetadata>>,
        topics_removed: Vec<Uuid>,
    ) -> Self {
        Self {
            brokers,
            controller_id,
            topics_changed,
            topics_removed,
        }
    }
}

/// The metadata that the data plane uses to answer requests.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeMetadata(Arc<DataPlane>);

impl NativeMetadata {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }
}

#[pymethods]
impl NativeMetadata {
    fn publish(&self, delta: &Bound<'_, MetadataDelta>) -> PyResult<u64> {
        let py = delta.py();
        let delta = delta.get();
        let removed = delta
            .topics_removed
            .iter()
            .map(|&id| topic_id(id))
            .collect::<PyResult<Vec<_>>>()?;
        let version = self.0.metadata.apply(metadata_view::MetadataDelta {
            brokers: delta
                .brokers
                .as_ref()
                .map(|brokers| brokers.iter().map(|one| broker(one.bind(py))).collect()),
            controller_id: delta.controller_id,
            topics_changed: delta
                .topics_changed
                .iter()
                .map(|one| topic(one.bind(py)))
                .collect::<PyResult<_>>()?,
            topics_removed: removed.clone(),
        });
        if !removed.is_empty()
            && let Some(replicas) = self.0.open_replicas()
        {
            replicas.retire(&removed);
        }
        Ok(version)
    }

    /// Let the inter-broker listener pass fetches of the metadata topic to the control plane, which has this quorum
    /// node.
    fn serve_quorum(&self, quorum: &MetadataQuorum) {
        let topic_id = quorum.topic_id();
        let names = move |id| topic_id.names(id);
        self.0.metadata.set_metadata_topic(Box::new(names));
    }

    fn set_features(&self, epoch: i64, levels: HashMap<String, i16>) {
        let levels = levels.into_iter().collect();
        self.0
            .metadata
            .set_features(metadata_view::Features { epoch, levels });
    }
}

fn broker(broker: &Bound<'_, BrokerMetadata>) -> metadata_view::Broker {
    let broker = broker.get();
    let endpoints = broker
        .endpoints
        .iter()
        .map(|endpoint| metadata_view::Endpoint {
            listener: endpoint.listener.as_str().into(),
            host: endpoint.host.as_str().into(),
            port: endpoint.port,
        });
    metadata_view::Broker {
        id: broker.id,
        rack: broker.rack.as_deref().map(Into::into),
        endpoints: endpoints.collect(),
    }
}

fn topic(topic: &Bound<'_, TopicMetadata>) -> PyResult<metadata_view::TopicMetadata> {
    let (py, topic) = (topic.py(), topic.get());
    let partitions = topic.partitions.iter().map(|partition| {
        let partition = partition.bind(py).get();
        metadata_view::PartitionMetadata {
            partition: partition.partition,
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            isr: partition.isr.clone(),
            replicas: partition.replicas.clone(),
            offline: partition.offline.clone(),
        }
    });
    Ok(metadata_view::TopicMetadata {
        id: topic_id(topic.topic_id)?,
        name: topic.name.as_str().into(),
        internal: topic.internal,
        partitions: partitions.collect(),
    })
}
