//! Records of a partition for the control plane, whose coordinators load their topics. They are decompressed without
//! the GIL, then converted to Python objects.

use std::ops::Range;

use pybroker_model::{
    Batches, ControlType, NO_PRODUCER_ID, Records, decompressed_records, end_transaction_marker_of,
};
use pybroker_replica::{FetchRead, Isolation, Partition, PartitionError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

/// A record of a local log.
#[pyclass(frozen, get_all, new = "from_fields", module = "pybroker._native")]
pub(crate) struct StoredRecord {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    /// Producer id of the record's transaction, or -1 outside of transactions.
    producer_id: i64,
    /// For a transaction marker: whether it commits the transaction.
    committed: Option<bool>,
    /// Headers as (name, value), in order. Replacement characters replace invalid UTF-8 in a name.
    headers: Py<PyTuple>,
}

/// Result of one read of a local log.
#[pyclass(frozen, get_all, new = "from_fields", module = "pybroker._native")]
pub(crate) struct StoredRecords {
    records: Vec<Py<StoredRecord>>,
    /// Offset at which the next read continues. At the end of the log, it is the requested offset.
    next_offset: i64,
}

/// Result of one read, before the conversion to Python.
pub(super) struct RecordBatchRead {
    /// All keys, values and headers, concatenated.
    bytes: Vec<u8>,
    records: Vec<Record>,
    next_offset: i64,
}

struct Record {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    producer_id: i64,
    committed: Option<bool>,
    headers: Vec<(Range<usize>, Option<Range<usize>>)>,
}

/// Read up to the log end, at least one batch if there is one. A position below the log start is replaced by the log
/// start.
pub(super) fn read(
    partition: &Partition,
    offset: i64,
    bytes_max: usize,
) -> Result<RecordBatchRead, PartitionError> {
    let mut from = offset.max(partition.log_start_offset());
    let mut out = RecordBatchRead {
        bytes: Vec::new(),
        records: Vec::new(),
        next_offset: from,
    };
    let mut scratch = Vec::new();
    // The loop reads again only if a read found no records, because all were below `from` or in skipped control
    // batches. More records may follow.
    while out.records.is_empty() && from < partition.log_end_offset() {
        let fetched = partition.read(&FetchRead {
            offset: from,
            max_bytes: bytes_max,
            isolation: Isolation::LogEnd,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            at_least_one: true,
            any_replica: false,
        })?;
        let bytes = fetched.records.to_vec().map_err(PartitionError::storage)?;
        let mut batches = Batches::new(&bytes);
        for batch in &mut batches {
            let (header, batch) = batch?;
            header.check_crc(batch)?;
            out.next_offset = header.next_offset();
            let raw = decompressed_records(&header, batch, &mut scratch)?;
            let records = Records::new(&header, raw);
            let view = records.clone();
            for record in records {
                let record = record?;
                let at = view.offset(&record);
                if at < offset {
                    continue;
                }
                let marker = if header.is_control() {
                    let Some((kind, _)) = end_transaction_marker_of(&record) else {
                        continue;
                    };
                    Some(kind == ControlType::Commit)
                } else {
                    None
                };
                let producer_id = if header.is_transactional() {
                    header.producer_id
                } else {
                    NO_PRODUCER_ID
                };
                if marker.is_some() {
                    out.records.push(Record {
                        offset: at,
                        timestamp_ms: view.timestamp(&record),
                        key: None,
                        value: None,
                        producer_id,
                        committed: marker,
                        headers: Vec::new(),
                    });
                } else {
                    let key = record.key.map(|key| append(&mut out.bytes, key));
                    let value = record.value.map(|value| append(&mut out.bytes, value));
                    let headers = record
                        .headers
                        .map(|header| {
                            (
                                append(&mut out.bytes, header.key),
                                header.value.map(|value| append(&mut out.bytes, value)),
                            )
                        })
                        .collect();
                    out.records.push(Record {
                        offset: at,
                        timestamp_ms: view.timestamp(&record),
                        key,
                        value,
                        producer_id,
                        committed: None,
                        headers,
                    });
                }
            }
        }
        if out.next_offset <= from {
            break;
        }
        from = out.next_offset;
    }
    Ok(out)
}

fn append(to: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let start = to.len();
    to.extend_from_slice(bytes);
    start..to.len()
}

impl StoredRecords {
    pub(super) fn new(py: Python<'_>, read: &RecordBatchRead) -> PyResult<Self> {
        let bytes = |range: &Option<Range<usize>>| {
            range
                .clone()
                .map(|range| PyBytes::new(py, &read.bytes[range]).unbind())
        };
        let none = PyTuple::empty(py).unbind();
        let records = read.records.iter().map(|record| {
            let headers = if record.headers.is_empty() {
                none.clone_ref(py)
            } else {
                let pairs = record.headers.iter().map(|(name, value)| {
                    let name = String::from_utf8_lossy(&read.bytes[name.clone()]);
                    (PyString::new(py, &name), bytes(value))
                });
                PyTuple::new(py, pairs.collect::<Vec<_>>())?.unbind()
            };
            Py::new(
                py,
                StoredRecord {
                    offset: record.offset,
                    timestamp_ms: record.timestamp_ms,
                    key: bytes(&record.key),
                    value: bytes(&record.value),
                    producer_id: record.producer_id,
                    committed: record.committed,
                    headers,
                },
            )
        });
        Ok(Self {
            records: records.collect::<PyResult<_>>()?,
            next_offset: read.next_offset,
        })
    }
}
