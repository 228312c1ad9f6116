//! Single functions of the data path.

use pybroker_model::validate_produce;
use pybroker_replica::TopicConfig;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::batch_of;
use crate::errors::batch_error;

/// Return the CRC-32C of the bytes, as in the header of record batches.
#[pyfunction]
pub(crate) fn crc32c(data: &[u8]) -> u32 {
    pybroker_model::crc32c(data)
}

/// Validate one record batch as Produce does, with Kafka's default topic settings. Return its record count.
#[pyfunction]
pub(crate) fn validate_batch(data: &[u8], now_ms: i64) -> PyResult<i32> {
    let mut copy = data.to_vec();
    let rules = TopicConfig::default().produce_rules(true, now_ms);
    let valid = validate_produce(&mut copy, &rules).map_err(|error| batch_error(&error))?;
    Ok(valid.first().record_count)
}

/// Build an uncompressed record batch at base offset 0.
#[pyfunction]
pub(crate) fn build_batch<'py>(
    py: Python<'py>,
    records: Vec<Bound<'py, PyAny>>,
    timestamp_ms: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &batch_of(&records, timestamp_ms, None)?))
}
