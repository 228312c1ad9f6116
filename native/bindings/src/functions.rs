//! Functions of the data path that Python may call: the same code that serves the sockets, for measurement and for
//! batches of internal topics.

use pybroker_model::{BatchBuilder, Codec, validate_produce};
use pybroker_replica::TopicConfig;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{batch_error, native_error};

/// (key, value) of a record; borrowed from Python while it is called.
pub(crate) type Record<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// CRC-32C as record batches carry it.
#[pyfunction]
pub(crate) fn crc32c(data: &[u8]) -> u32 {
    pybroker_model::crc32c(data)
}

/// Checks one record batch as Produce does, with Kafka's default topic settings; gives its record count.
#[pyfunction]
pub(crate) fn validate_batch(data: &[u8], now_ms: i64) -> PyResult<i32> {
    let mut copy = data.to_vec();
    let rules = TopicConfig::default().produce_rules(true, now_ms);
    let valid = validate_produce(&mut copy, &rules).map_err(|error| batch_error(&error))?;
    Ok(valid.first().record_count)
}

/// An uncompressed record batch at base offset 0.
#[pyfunction]
pub(crate) fn build_batch<'py>(
    py: Python<'py>,
    records: Vec<Bound<'py, PyAny>>,
    timestamp_ms: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &batch_of(&records, timestamp_ms)?))
}

/// The batch of (key, value) tuples.
pub(crate) fn batch_of(records: &[Bound<'_, PyAny>], timestamp_ms: i64) -> PyResult<Vec<u8>> {
    if records.is_empty() {
        return Err(PyValueError::new_err("a batch needs at least one record"));
    }
    let mut builder = BatchBuilder::new(Codec::None);
    for record in records {
        let (key, value): Record<'_> = record.extract()?;
        builder.push(timestamp_ms, key, value);
    }
    builder
        .build()
        .map_err(|error| native_error(pybroker_protocol::ErrorCode::MESSAGE_TOO_LARGE.0, error))
}
