//! Small conversions between Python and Rust types.

use pybroker_model::{BatchBuilder, Codec, NO_SEQUENCE, TopicId, TopicIdPartition};
use pybroker_protocol::ErrorCode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::errors::native_error;
use crate::uuid::Uuid;

/// Implement `__repr__` with all fields, for classes that have only fields.
macro_rules! shown {
    ($($class:ident),+) => {$(
        #[pyo3::pymethods]
        impl $class {
            fn __repr__(&self) -> String {
                format!("{self:?}")
            }
        }
    )+};
}
pub(crate) use shown;

/// Convert a topic id. The zero id is rejected.
pub(crate) fn topic_id(id: Uuid) -> PyResult<TopicId> {
    TopicId::new(id.0).ok_or_else(|| PyValueError::new_err("the zero id names no topic"))
}

/// Return the key of a partition, from the id of its topic and its index.
pub(crate) fn tip(topic: Uuid, partition: i32) -> PyResult<TopicIdPartition> {
    Ok(TopicIdPartition {
        topic_id: topic_id(topic)?,
        partition,
    })
}

/// (key, value) of a record, borrowed from Python during the call.
type Record<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Build an uncompressed batch at base offset 0 from (key, value) tuples. With a producer's id and epoch, the batch is
/// part of a transaction.
pub(crate) fn batch_of(
    records: &[Bound<'_, PyAny>],
    timestamp_ms: i64,
    producer: Option<(i64, i16)>,
) -> PyResult<Vec<u8>> {
    if records.is_empty() {
        return Err(PyValueError::new_err("a batch needs at least one record"));
    }
    let mut builder = BatchBuilder::new(Codec::None);
    if let Some((id, epoch)) = producer {
        builder = builder.producer(id, epoch, NO_SEQUENCE).transactional();
    }
    for record in records {
        let (key, value): Record<'_> = record.extract()?;
        builder.push(timestamp_ms, key, value);
    }
    builder
        .build()
        .map_err(|error| native_error(ErrorCode::MESSAGE_TOO_LARGE.0, error))
}

/// Settings under Kafka's names. An absent setting or None means the default. The error for a wrong type names the
/// setting.
pub(crate) struct Settings<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl Settings<'_, '_> {
    fn get<T: for<'b> FromPyObject<'b, 'b>>(
        &self,
        name: &str,
        expected: &str,
    ) -> PyResult<Option<T>> {
        match self.0.get_item(name)? {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(value) => match value.extract() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(PyValueError::new_err(format!(
                    "{name}={value}: {expected} expected"
                ))),
            },
        }
    }

    /// Return an integer setting. `ValueError` names a value out of `T`'s range. The control plane has already checked
    /// the setting's own limits.
    pub(crate) fn number<T: TryFrom<i64> + Copy>(&self, name: &str, default: T) -> PyResult<T> {
        if let Some(value) = self.0.get_item(name)?
            && value.is_instance_of::<PyBool>()
        {
            return Err(PyValueError::new_err(format!(
                "{name}={value}: a whole number expected"
            )));
        }
        let Some(value) = self.get::<i64>(name, "a whole number")? else {
            return Ok(default);
        };
        T::try_from(value)
            .map_err(|_| PyValueError::new_err(format!("{name}={value} is out of range")))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> PyResult<bool> {
        Ok(self.get(name, "true or false")?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.get(name, "a text")
    }

    pub(crate) fn float(&self, name: &str, default: f64) -> PyResult<f64> {
        Ok(self.get(name, "a number")?.unwrap_or(default))
    }
}
