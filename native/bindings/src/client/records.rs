//! Records of a consumer. Checksums, decompression and parsing run without the GIL; then each record becomes one Python
//! object.

use std::collections::HashSet;
use std::ops::Range;

use pybroker_model::{
    BatchError, BatchHeader, Batches, ControlType, Records, TimestampType, decompressed_records,
    end_transaction_marker_of,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::errors::batch_error;
use crate::uuid::Uuid;

/// A record that a consumer read.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct ConsumerRecord {
    topic: Py<PyString>,
    topic_id: Uuid,
    partition: i32,
    offset: i64,
    timestamp: i64,
    /// Source of the timestamp: 0 = the producer (CreateTime), 1 = the broker (LogAppendTime).
    timestamp_type: i8,
    leader_epoch: i32,
    key: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
    headers: Py<PyTuple>,
}

#[pymethods]
impl ConsumerRecord {
    #[new]
    #[pyo3(signature = (topic, partition, offset, key = None, value = None, *, headers = None, timestamp = -1,
                        timestamp_type = 0, leader_epoch = -1, topic_id = Uuid(pybroker_model::Uuid::ZERO)))]
    #[expect(clippy::too_many_arguments, reason = "the fields of a record, by name")]
    fn new(
        topic: Py<PyString>,
        partition: i32,
        offset: i64,
        key: Option<Py<PyAny>>,
        value: Option<Py<PyAny>>,
        headers: Option<Py<PyTuple>>,
        timestamp: i64,
        timestamp_type: i8,
        leader_epoch: i32,
        topic_id: Uuid,
        py: Python<'_>,
    ) -> Self {
        Self {
            topic,
            topic_id,
            partition,
            offset,
            timestamp,
            timestamp_type,
            leader_epoch,
            key,
            value,
            headers: headers.unwrap_or_else(|| PyTuple::empty(py).unbind()),
        }
    }

    /// Return the last header of that name, as Kafka's `lastHeader`.
    #[pyo3(signature = (name, default = None))]
    fn header<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let headers = self.headers.bind(py);
        for index in (0..headers.len()).rev() {
            let (key, value): (Bound<'_, PyString>, Bound<'_, PyAny>) =
                headers.get_item(index)?.extract()?;
            if key.to_cow()? == name {
                return Ok(Some(value));
            }
        }
        Ok(default)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shown = |value: &Option<Py<PyAny>>| -> PyResult<String> {
            match value {
                Some(value) => Ok(value.bind(py).repr()?.to_string()),
                None => Ok("None".to_owned()),
            }
        };
        Ok(format!(
            "ConsumerRecord(topic={}, partition={}, offset={}, timestamp={}, key={}, value={}, headers={})",
            self.topic.bind(py).repr()?,
            self.partition,
            self.offset,
            self.timestamp,
            shown(&self.key)?,
            shown(&self.value)?,
            self.headers.bind(py).repr()?,
        ))
    }
}

/// Positions of a record's parts in the bytes of all records.
struct RecordSpan {
    offset: i64,
    timestamp: i64,
    append_time: bool,
    leader_epoch: i32,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Vec<(Range<usize>, Option<Range<usize>>)>,
}

/// All records of one response for one partition.
#[derive(Default)]
struct RecordSpans {
    bytes: Vec<u8>,
    records: Vec<RecordSpan>,
    next_offset: i64,
    /// First offset and error of a batch that cannot be read. The records before it are complete.
    damage: Option<(i64, BatchError)>,
}

/// Filter of aborted transactions for `read_committed`: the producers that have an open aborted transaction at the
/// current position.
struct AbortedFilter {
    /// Aborted transactions that have not begun, as (first offset, producer id), by offset. The next one is last.
    ahead: Vec<(i64, i64)>,
    inside: HashSet<i64>,
}

impl AbortedFilter {
    fn new(mut list: Vec<(i64, i64)>) -> Self {
        for entry in &mut list {
            *entry = (entry.1, entry.0);
        }
        list.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            ahead: list,
            inside: HashSet::new(),
        }
    }

    fn skips(&mut self, header: &BatchHeader) -> bool {
        while let Some(&(first, producer)) = self.ahead.last() {
            if first > header.last_offset() {
                break;
            }
            self.inside.insert(producer);
            self.ahead.pop();
        }
        header.is_transactional() && self.inside.contains(&header.producer_id)
    }
}

fn decode(
    data: &[u8],
    from_offset: i64,
    check_crcs: bool,
    aborted: Option<Vec<(i64, i64)>>,
) -> RecordSpans {
    let mut out = RecordSpans {
        next_offset: from_offset,
        ..RecordSpans::default()
    };
    let mut aborted = aborted.map(AbortedFilter::new);
    let mut scratch = Vec::new();
    for batch in Batches::new(data) {
        let read = batch.and_then(|(header, batch)| {
            one_batch(
                &header,
                batch,
                check_crcs,
                from_offset,
                aborted.as_mut(),
                &mut scratch,
                &mut out,
            )
        });
        if let Err(error) = read {
            out.damage = Some((out.next_offset, error));
            break;
        }
    }
    out
}

fn one_batch(
    header: &BatchHeader,
    batch: &[u8],
    check_crcs: bool,
    from_offset: i64,
    aborted: Option<&mut AbortedFilter>,
    scratch: &mut Vec<u8>,
    out: &mut RecordSpans,
) -> Result<(), BatchError> {
    header.check()?;
    if check_crcs {
        header.check_crc(batch)?;
    }
    let whole = (out.bytes.len(), out.records.len());
    let skipped = aborted.is_some_and(|aborted| {
        let skips = aborted.skips(header);
        if header.is_control() && is_abort(header, batch) {
            aborted.inside.remove(&header.producer_id);
        }
        skips
    });
    if !header.is_control() && !skipped {
        let raw = decompressed_records(header, batch, scratch)?;
        let records = Records::new(header, raw);
        let view = records.clone();
        let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    out.bytes.truncate(whole.0);
                    out.records.truncate(whole.1);
                    return Err(error);
                }
            };
            let offset = view.offset(&record);
            if offset < from_offset {
                continue;
            }
            let bytes = &mut out.bytes;
            let mut keep = |part: &[u8]| {
                let start = bytes.len();
                bytes.extend_from_slice(part);
                start..bytes.len()
            };
            let key = record.key.map(&mut keep);
            let value = record.value.map(&mut keep);
            let headers = record
                .headers
                .map(|each| (keep(each.key), each.value.map(&mut keep)))
                .collect();
            out.records.push(RecordSpan {
                offset,
                timestamp: view.timestamp(&record),
                append_time,
                leader_epoch: header.partition_leader_epoch,
                key,
                value,
                headers,
            });
        }
    }
    out.next_offset = out.next_offset.max(header.next_offset());
    Ok(())
}

/// Return whether a control batch aborts a transaction.
fn is_abort(header: &BatchHeader, batch: &[u8]) -> bool {
    let mut scratch = Vec::new();
    let Ok(raw) = decompressed_records(header, batch, &mut scratch) else {
        return false;
    };
    Records::new(header, raw)
        .next()
        .and_then(Result::ok)
        .and_then(|record| end_transaction_marker_of(&record))
        .is_some_and(|(kind, _)| kind == ControlType::Abort)
}

/// The records of a Fetch response.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct DecodedRecords {
    records: Py<PyList>,
    /// Offset at which the next fetch continues. With an error, it is the offset of the unreadable batch.
    next_offset: i64,
    error: Option<Py<PyAny>>,
}

/// Decoder of fetched records.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct RecordDecoder {
    check_crcs: bool,
    key_deserializer: Option<Py<PyAny>>,
    value_deserializer: Option<Py<PyAny>>,
}

#[pymethods]
impl RecordDecoder {
    #[new]
    #[pyo3(signature = (*, check_crcs = true, key_deserializer = None, value_deserializer = None))]
    const fn new(
        check_crcs: bool,
        key_deserializer: Option<Py<PyAny>>,
        value_deserializer: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            check_crcs,
            key_deserializer,
            value_deserializer,
        }
    }

    #[pyo3(signature = (data, from_offset, *, topic, topic_id, partition, aborted = None))]
    fn decode(
        &self,
        data: &[u8],
        from_offset: i64,
        topic: &Bound<'_, PyString>,
        topic_id: Uuid,
        partition: i32,
        aborted: Option<Vec<(i64, i64)>>,
    ) -> PyResult<DecodedRecords> {
        let py = topic.py();
        let decoded = py.detach(|| decode(data, from_offset, self.check_crcs, aborted));
        let no_headers = PyTuple::empty(py);
        let records = PyList::empty(py);
        let done = |next_offset, error: Option<PyErr>| DecodedRecords {
            records: records.clone().unbind(),
            next_offset,
            error: error.map(|error| error.into_value(py).into_any()),
        };
        for record in &decoded.records {
            let headers = decoded.headers(py, record, &no_headers)?;
            match self.key_and_value(topic, &decoded, record, &headers) {
                Err(error) => return Ok(done(record.offset, Some(error))),
                Ok((key, value)) => records.append(Bound::new(
                    py,
                    ConsumerRecord {
                        topic: topic.clone().unbind(),
                        topic_id,
                        partition,
                        offset: record.offset,
                        timestamp: record.timestamp,
                        timestamp_type: i8::from(record.append_time),
                        leader_epoch: record.leader_epoch,
                        key,
                        value,
                        headers: headers.unbind(),
                    },
                )?)?,
            }
        }
        Ok(match &decoded.damage {
            Some((offset, error)) => done(*offset, Some(batch_error(error))),
            None => done(decoded.next_offset, None),
        })
    }
}

type Object = Option<Py<PyAny>>;

impl RecordDecoder {
    /// Deserialize key and value. If a deserializer raises an exception, return it as the error.
    fn key_and_value(
        &self,
        topic: &Bound<'_, PyString>,
        decoded: &RecordSpans,
        record: &RecordSpan,
        headers: &Bound<'_, PyTuple>,
    ) -> PyResult<(Object, Object)> {
        let py = topic.py();
        let object = |range: &Option<Range<usize>>, deserializer: &Object| -> PyResult<Object> {
            let bytes = range.as_ref().map(|range| decoded.part(py, range));
            match deserializer {
                None => Ok(bytes.map(|bytes| bytes.into_any().unbind())),
                Some(deserializer) => {
                    let object = deserializer.bind(py).call1((topic, bytes, headers))?;
                    Ok((!object.is_none()).then(|| object.unbind()))
                }
            }
        };
        Ok((
            object(&record.key, &self.key_deserializer)?,
            object(&record.value, &self.value_deserializer)?,
        ))
    }
}

impl RecordSpans {
    fn part<'py>(&self, py: Python<'py>, range: &Range<usize>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes[range.clone()])
    }

    fn headers<'py>(
        &self,
        py: Python<'py>,
        record: &RecordSpan,
        none: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        if record.headers.is_empty() {
            return Ok(none.clone());
        }
        PyTuple::new(
            py,
            record.headers.iter().map(|(name, value)| {
                (
                    String::from_utf8_lossy(&self.bytes[name.clone()]).into_owned(),
                    value.as_ref().map(|range| self.part(py, range)),
                )
            }),
        )
    }
}
