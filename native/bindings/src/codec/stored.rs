//! Encoding of frequent records of internal topics without creating message objects.

use pybroker_protocol::hot::stored_offset::StoredOffset;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::uuid::Uuid;

type KeyAndValue<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Encode the key and the value of a committed offset.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the fields of one record")]
pub fn stored_offset<'py>(
    py: Python<'py>,
    group: &str,
    topic: &str,
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: &str,
    commit_timestamp: i64,
    expire_timestamp: Option<i64>,
    topic_id: Option<Uuid>,
) -> KeyAndValue<'py> {
    let stored = StoredOffset {
        group,
        topic,
        partition,
        offset,
        leader_epoch,
        metadata,
        commit_timestamp,
        expire_timestamp,
        topic_id: topic_id.map_or(pybroker_model::Uuid::ZERO, |id| id.0),
    };
    let mut bytes = Vec::with_capacity(group.len() + topic.len() + metadata.len() + 80);
    stored.encode_key(&mut bytes);
    let key = PyBytes::new(py, &bytes);
    bytes.clear();
    stored.encode_value(&mut bytes);
    (key, PyBytes::new(py, &bytes))
}
