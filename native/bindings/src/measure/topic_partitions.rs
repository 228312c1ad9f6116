//! A topic, for the functions of `measure`.

use pyo3::prelude::*;

use crate::convert::shown;
use crate::uuid::Uuid;

/// A topic and its number of partitions.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopicPartitions {
    pub(super) topic_id: Uuid,
    pub(super) topic: String,
    pub(super) partitions: i32,
}

shown!(TopicPartitions);
