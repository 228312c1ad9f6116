//! Deltas of the metadata view, from Python (R12).

use parking_lot::Mutex;
use pybroker_server::metadata_view::{self, Broker, Endpoint, PartitionMetadata, TopicMetadata};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::topic_id;
use crate::uuid::Uuid;

type PartitionState = (i32, i32, i32, Vec<i32>, Vec<i32>, Vec<i32>);
type TopicState = (Uuid, String, bool, Vec<PartitionState>);
type BrokerState = (i32, Option<String>, Vec<(String, String, i32)>);

/// A change of what clients see; converted once, when it is made.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct MetadataDelta(Mutex<Option<metadata_view::MetadataDelta>>);

impl MetadataDelta {
    /// Takes the delta; each is published once.
    pub(crate) fn take(&self) -> PyResult<metadata_view::MetadataDelta> {
        self.0
            .lock()
            .take()
            .ok_or_else(|| PyValueError::new_err("this delta was published before"))
    }
}

#[pymethods]
impl MetadataDelta {
    #[new]
    #[pyo3(signature = (*, brokers = None, controller_id = None, topics_changed = Vec::new(), topics_removed = Vec::new()))]
    fn new(
        brokers: Option<Vec<BrokerState>>,
        controller_id: Option<i32>,
        topics_changed: Vec<TopicState>,
        topics_removed: Vec<Uuid>,
    ) -> PyResult<Self> {
        Ok(Self(Mutex::new(Some(metadata_view::MetadataDelta {
            brokers: brokers.map(|brokers| brokers.into_iter().map(broker).collect()),
            controller_id,
            topics_removed: topics_removed
                .into_iter()
                .map(topic_id)
                .collect::<PyResult<_>>()?,
            topics_changed: topics_changed
                .into_iter()
                .map(topic)
                .collect::<PyResult<_>>()?,
        }))))
    }
}

fn broker((id, rack, endpoints): BrokerState) -> Broker {
    let endpoints = endpoints
        .into_iter()
        .map(|(listener, host, port)| Endpoint {
            listener: listener.into(),
            host: host.into(),
            port,
        });
    Broker {
        id,
        rack: rack.map(Into::into),
        endpoints: endpoints.collect(),
    }
}

fn topic((id, name, internal, partitions): TopicState) -> PyResult<TopicMetadata> {
    let partitions = partitions.into_iter().map(
        |(partition, leader, leader_epoch, isr, replicas, offline)| PartitionMetadata {
            partition,
            leader,
            leader_epoch,
            isr,
            replicas,
            offline,
        },
    );
    Ok(TopicMetadata {
        id: topic_id(id)?,
        name: name.into(),
        internal,
        partitions: partitions.collect(),
    })
}
