//! Batches of a producer: each partition has one until it is sent. Records are Python bytes, copied once. Compression
//! and checksum run without the GIL.

use pybroker_model::{BatchBuilder, BatchHeader, Codec, HEADER_BYTES, Records};
use pybroker_protocol::ErrorCode;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::errors::{batch_error, native_error};

/// Maximum bytes of a record without its key, value and headers: length, attributes, timestamp delta, offset delta, key
/// length, value length, number of headers.
const RECORD_OVERHEAD_MAX: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;
/// Maximum bytes of a record header without its key and value.
const HEADER_OVERHEAD_MAX: usize = 5 + 5;

type Bytes<'a> = Option<&'a [u8]>;
type HeaderList<'a> = Vec<(&'a [u8], Bytes<'a>)>;

/// The records of a batch under construction.
#[pyclass(module = "pybroker._native")]
pub(crate) struct ClientBatch {
    builder: BatchBuilder,
    codec: Codec,
    level: Option<i32>,
    bytes_max: usize,
}

impl ClientBatch {
    fn empty(codec: Codec, level: Option<i32>, bytes_max: usize) -> Self {
        let builder = match level {
            Some(level) => BatchBuilder::new(codec).level(level),
            None => BatchBuilder::new(codec),
        };
        Self {
            builder,
            codec,
            level,
            bytes_max,
        }
    }

    fn push(
        &mut self,
        timestamp: i64,
        key: Bytes<'_>,
        value: Bytes<'_>,
        headers: &[(&[u8], Bytes<'_>)],
    ) -> bool {
        let length = |bytes: Bytes<'_>| bytes.map_or(0, <[u8]>::len);
        let size = RECORD_OVERHEAD_MAX
            + length(key)
            + length(value)
            + headers
                .iter()
                .map(|(name, value)| HEADER_OVERHEAD_MAX + name.len() + length(*value))
                .sum::<usize>();
        if !self.builder.is_empty()
            && HEADER_BYTES + self.builder.records_bytes() + size > self.bytes_max
        {
            return false;
        }
        self.builder
            .push_with_headers(timestamp, key, value, headers);
        true
    }
}

#[pymethods]
impl ClientBatch {
    #[new]
    #[pyo3(signature = (compression, bytes_max, level = None))]
    fn new(compression: &str, bytes_max: usize, level: Option<i32>) -> PyResult<Self> {
        let codec = Codec::from_name(compression)
            .ok_or_else(|| PyValueError::new_err(format!("there is no codec {compression}")))?;
        Ok(Self::empty(codec, level, bytes_max))
    }

    /// Append a record. Return false if it does not fit and the batch is not empty; the caller must then use another
    /// batch.
    #[pyo3(signature = (timestamp_ms, key, value, headers = None))]
    fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: Option<Vec<(PyBackedStr, Option<PyBackedBytes>)>>,
    ) -> bool {
        let headers = headers.unwrap_or_default();
        let headers: HeaderList<'_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_deref()))
            .collect();
        self.push(timestamp_ms, key, value, &headers)
    }

    /// Append records from index `start` of a list, each a value or a (key, value) tuple, until one does not fit.
    /// Return the index of the first record that does not fit, or the length of the list.
    fn append_many(
        &mut self,
        records: &Bound<'_, PyList>,
        start: usize,
        timestamp_ms: i64,
    ) -> PyResult<usize> {
        for index in start..records.len() {
            let record = records.get_item(index)?;
            let (key, value) = key_and_value(&record)?;
            if !self.push(
                timestamp_ms,
                bytes_of(key.as_ref())?,
                bytes_of(value.as_ref())?,
                &[],
            ) {
                return Ok(index);
            }
        }
        Ok(records.len())
    }

    /// Return the finished record batch. Without a producer id it is not idempotent.
    #[pyo3(signature = (producer_id = -1, producer_epoch = -1, base_sequence = -1))]
    fn build<'py>(
        &mut self,
        py: Python<'py>,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.builder
            .set_producer(producer_id, producer_epoch, base_sequence);
        let builder = &self.builder;
        let built = py.detach(|| builder.build());
        built
            .map(|bytes| PyBytes::new(py, &bytes))
            .map_err(|error| native_error(ErrorCode::MESSAGE_TOO_LARGE.0, error))
    }

    /// Return two batches with the first and the second half of the records. The caller uses them if a broker rejects
    /// the whole batch as too large. Raises ValueError for a batch of one record.
    fn split(&self, py: Python<'_>) -> PyResult<(ClientBatch, ClientBatch)> {
        let count = self.builder.len();
        if count < 2 {
            return Err(PyValueError::new_err("one record cannot be split"));
        }
        let (codec, level, bytes_max) = (self.codec, self.level, self.bytes_max);
        let plain = self.builder.clone().uncompressed();
        py.detach(move || {
            let batch = plain.build()?;
            let header = BatchHeader::parse(&batch)?;
            let records = Records::new(&header, &batch[HEADER_BYTES..]);
            let view = records.clone();
            // The size limit rejects no record, because all records of the two halves fitted into one batch.
            let mut halves = (
                ClientBatch::empty(codec, level, usize::MAX),
                ClientBatch::empty(codec, level, usize::MAX),
            );
            for record in records {
                let record = record?;
                let half = if record.offset_delta < count / 2 {
                    &mut halves.0
                } else {
                    &mut halves.1
                };
                let headers: HeaderList<'_> =
                    record.headers.map(|each| (each.key, each.value)).collect();
                half.push(view.timestamp(&record), record.key, record.value, &headers);
            }
            halves.0.bytes_max = bytes_max;
            halves.1.bytes_max = bytes_max;
            Ok(halves)
        })
        .map_err(|error| batch_error(&error))
    }

    /// Number of records.
    fn __len__(&self) -> usize {
        self.builder.len() as usize
    }

    /// Size of the records in bytes, before compression.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.builder.records_bytes()
    }
}

/// Append records from index `start` of a list of (key, value) tuples to the batches of their partitions. The hash of
/// the key selects the partition; records without a key go to `keyless`. Return the index of the first record that does
/// not fit, and its partition. If all records fit, return the length of the list and -1.
#[pyfunction]
pub(crate) fn append_partitioned(
    batches: Vec<Bound<'_, ClientBatch>>,
    records: &Bound<'_, PyList>,
    start: usize,
    timestamp_ms: i64,
    keyless: usize,
) -> PyResult<(usize, i64)> {
    if keyless >= batches.len() {
        return Err(PyValueError::new_err("keyless names no batch"));
    }
    let count = batches.len() as u32;
    for index in start..records.len() {
        let record = records.get_item(index)?;
        let (key, value) = key_and_value(&record)?;
        let key = bytes_of(key.as_ref())?;
        let partition = key.map_or(keyless, |key| {
            pybroker_model::partition_of_key(key, count) as usize
        });
        let mut batch = batches[partition].try_borrow_mut()?;
        if !batch.push(timestamp_ms, key, bytes_of(value.as_ref())?, &[]) {
            return Ok((index, partition as i64));
        }
    }
    Ok((records.len(), -1))
}

/// Return the partition of a key among `count` partitions, like Java's default partitioner (murmur2).
#[pyfunction]
pub(crate) fn partition_of_key(key: &[u8], count: u32) -> PyResult<u32> {
    if count == 0 {
        return Err(PyValueError::new_err("a topic has at least one partition"));
    }
    Ok(pybroker_model::partition_of_key(key, count))
}

/// Return Java's hash of a text in big-endian UTF-16.
#[pyfunction]
pub(crate) fn java_hash(utf_16: &[u8]) -> i32 {
    pybroker_model::java_hash(utf_16)
}

type Parts<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

fn key_and_value<'py>(record: &Bound<'py, PyAny>) -> PyResult<Parts<'py>> {
    match record.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((Some(pair.get_item(0)?), Some(pair.get_item(1)?))),
        Ok(_) => Err(PyTypeError::new_err("expected (key, value)")),
        Err(_) => Ok((None, Some(record.clone()))),
    }
}

fn bytes_of<'a>(value: Option<&'a Bound<'_, PyAny>>) -> PyResult<Bytes<'a>> {
    match value {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => match value.cast::<PyBytes>() {
            Ok(bytes) => Ok(Some(bytes.as_bytes())),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a key or value must be bytes or None, not {}",
                value.get_type().name()?
            ))),
        },
    }
}
