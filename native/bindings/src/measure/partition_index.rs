//! The partition look-up of Produce and Fetch, for measurements from Python. It is the same map, without data in its
//! partitions.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pybroker_model::{TopicId, Uuid as Id};
use pybroker_replica::{TopicMap, TopicMapEntry};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::topic_partitions::TopicPartitions;
use crate::convert::topic_id;
use crate::uuid::Uuid;

/// Map from topic id to partitions, and from name to topic id.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct PartitionIndex(ArcSwap<TopicMap<()>>);

const KEY_BYTES: usize = 20;

#[pymethods]
impl PartitionIndex {
    #[new]
    fn new(topics: Vec<TopicPartitions>) -> PyResult<Self> {
        let nothing = Arc::new(());
        let mut entries = Vec::new();
        for TopicPartitions {
            topic_id: id,
            topic,
            partitions,
        } in topics
        {
            let (id, name): (_, Arc<str>) = (topic_id(id)?, topic.into());
            if partitions > pybroker_replica::PARTITION_INDEX_MAX {
                return Err(PyValueError::new_err(format!(
                    "{partitions} partitions are too many"
                )));
            }
            entries.extend((0..partitions).map(|index| TopicMapEntry {
                id,
                name: Arc::clone(&name),
                index,
                partition: Arc::clone(&nothing),
            }));
        }
        Ok(Self(ArcSwap::from_pointee(
            TopicMap::default().with(&[], entries),
        )))
    }

    fn by_id(&self, topic_id: &Uuid, partition: i32) -> bool {
        let map = self.0.load();
        TopicId::new(topic_id.0).is_some_and(|id| map.partition(id, partition).is_some())
    }

    fn by_name(&self, topic: &str, partition: i32) -> bool {
        let map = self.0.load();
        map.topic_id(topic)
            .is_some_and(|id| map.partition(id, partition).is_some())
    }

    /// Return how many of the keys exist. Uses one snapshot for all keys, like a request.
    fn count_by_id(&self, keys: &[u8]) -> PyResult<usize> {
        if !keys.len().is_multiple_of(KEY_BYTES) {
            return Err(PyValueError::new_err(
                "a key has 16 bytes of id and 4 of partition",
            ));
        }
        let map = self.0.load();
        let found = keys.chunks_exact(KEY_BYTES).filter(|key| {
            let (id, partition) = key.split_at(16);
            let id = id.try_into().ok().and_then(|bytes| TopicId::new(Id::from_bytes(bytes)));
            let partition = partition.try_into().map(i32::from_be_bytes);
            matches!((id, partition), (Some(id), Ok(partition)) if map.partition(id, partition).is_some())
        });
        Ok(found.count())
    }

    fn count_by_name(&self, names: &Bound<'_, PyList>, partition: i32) -> PyResult<usize> {
        let map = self.0.load();
        let mut found = 0;
        for name in names.iter() {
            let name: std::borrow::Cow<'_, str> = name.extract()?;
            found += usize::from(
                map.topic_id(&name)
                    .is_some_and(|id| map.partition(id, partition).is_some()),
            );
        }
        Ok(found)
    }
}
