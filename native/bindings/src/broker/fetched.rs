//! Batches of a partition for share groups. Python assigns offsets to consumers; the bytes stay in native memory until
//! a response is encoded.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use pybroker_model::{
    BatchHeader, Batches, ControlType, Records, decompressed_records, end_transaction_marker_of,
};
use pybroker_replica::{FetchRead, Isolation, Partition, PartitionError, Registration};
use pybroker_server::cold_reads;
use pybroker_storage::LogSlice;
use pyo3::prelude::*;

use crate::record_bytes::RecordBytes;

/// Bytes per read: a share fetch needs a few hundred records, not all that `max_bytes` allows.
const READ_BYTES: usize = 128 * 1024;

/// A batch among the bytes that were read.
struct BatchSpan {
    first: i64,
    last: i64,
    at: Range<usize>,
    /// Whether consumers never get the batch, because it is a control batch or part of an aborted transaction.
    unwanted: bool,
}

/// Result of one read for share groups.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct FetchedBatches {
    bytes: Arc<Vec<u8>>,
    spans: Vec<BatchSpan>,
    /// Offset at which the next read continues.
    #[pyo3(get)]
    next_offset: i64,
    /// End of the readable offsets.
    #[pyo3(get)]
    bound: i64,
}

#[pymethods]
impl FetchedBatches {
    /// Return (first offset, last offset) of each batch with records, ascending.
    #[getter]
    fn batches(&self) -> Vec<(i64, i64)> {
        let wanted = self.spans.iter().filter(|one| !one.unwanted);
        wanted.map(|one| (one.first, one.last)).collect()
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        let wanted = self.spans.iter().filter(|one| !one.unwanted);
        wanted.map(|one| one.at.len()).sum()
    }

    /// Return the batches that have offsets from `first` to `last`, or `None` if there are none.
    fn records(&self, first: i64, last: i64) -> Option<RecordBytes> {
        let from = self.spans.partition_point(|one| one.last < first);
        let to = self.spans.partition_point(|one| one.first <= last);
        let slice = self.spans.get(from..to)?;
        Some(RecordBytes::new(
            &self.bytes,
            slice.first()?.at.start..slice.last()?.at.end,
        ))
    }
}

/// A registration for a notification about more records. Dropping it cancels the registration.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct RecordsWatch {
    #[pyo3(get)]
    token: u64,
    registration: parking_lot::Mutex<Option<Registration>>,
}

impl RecordsWatch {
    pub(super) const fn new(token: u64, registration: Option<Registration>) -> Self {
        Self {
            token,
            registration: parking_lot::Mutex::new(registration),
        }
    }
}

#[pymethods]
impl RecordsWatch {
    fn cancel(&self) {
        drop(self.registration.lock().take());
    }
}

/// Return the isolation level of a share group's reads.
pub(super) const fn isolation(read_committed: bool) -> Isolation {
    if read_committed {
        Isolation::ReadCommitted
    } else {
        Isolation::ReadUncommitted
    }
}

/// Limits of a read.
pub(super) struct Limits {
    pub(super) bytes_max: usize,
    pub(super) records_max: i64,
    pub(super) read_committed: bool,
    /// Whether the read may block on the disk.
    pub(super) wait: bool,
}

/// Read complete batches from the batch with `offset` on, until they cover `records_max` offsets or have `bytes_max`
/// bytes. Read at least one batch, if there is one. Return `None` if the batch is not in the page cache and `wait` is
/// false.
pub(super) fn fetch(
    partition: &Partition,
    offset: i64,
    limits: &Limits,
) -> Result<Option<FetchedBatches>, PartitionError> {
    let mut bytes = Vec::new();
    let mut aborted = BTreeSet::new();
    let mut from = offset;
    let bound = loop {
        let room = limits.bytes_max.saturating_sub(bytes.len());
        let read = partition.read(&FetchRead {
            offset: from,
            max_bytes: READ_BYTES.min(room),
            isolation: isolation(limits.read_committed),
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            at_least_one: bytes.is_empty(),
            any_replica: false,
        })?;
        if read.records.len == 0 {
            break read.bound;
        }
        let had = bytes.len();
        if !append(&read.records, limits.wait, &mut bytes)? {
            bytes.truncate(had);
            if bytes.is_empty() {
                return Ok(None);
            }
            break read.bound;
        }
        // The aborted transactions as (first offset, producer id), in the order of the log.
        let transactions = read.aborted.into_iter().flatten();
        aborted.extend(transactions.map(|(producer, first)| (first, producer)));
        let mut next = from;
        for batch in Batches::new(&bytes[had..]) {
            let (header, _) = batch?;
            next = header.next_offset();
        }
        let enough = next - offset >= limits.records_max || bytes.len() >= limits.bytes_max;
        if next <= from || enough {
            break read.bound;
        }
        from = next;
    };
    let spans = spans(&bytes, &aborted)?;
    Ok(Some(FetchedBatches {
        next_offset: spans.last().map_or(offset, |last| last.last + 1),
        bytes: Arc::new(bytes),
        spans,
        bound,
    }))
}

/// Append a slice. Return false if it is not in the page cache, or if the log was truncated meanwhile, which the next
/// read detects. In both cases a part of the slice may have been appended.
fn append(slice: &LogSlice, wait: bool, bytes: &mut Vec<u8>) -> Result<bool, PartitionError> {
    let (Some(file), false) = (&slice.file, wait) else {
        bytes.extend(slice.to_vec().map_err(PartitionError::storage)?);
        return Ok(true);
    };
    let copied = cold_reads::copy(file.as_ref(), slice.position, slice.len, false, bytes);
    Ok(matches!(copied, Ok(true)))
}

fn spans(bytes: &[u8], aborted: &BTreeSet<(i64, i64)>) -> Result<Vec<BatchSpan>, PartitionError> {
    let mut spans = Vec::new();
    let mut ahead = aborted.iter().peekable();
    let mut open = BTreeSet::new();
    let mut position = 0;
    let mut scratch = Vec::new();
    for batch in Batches::new(bytes) {
        let (header, batch) = batch?;
        let next = header.next_offset();
        while let Some((_, producer)) = ahead.next_if(|(first, _)| *first < next) {
            open.insert(*producer);
        }
        let mut unwanted = header.is_control();
        if header.is_control() {
            if is_abort(&header, batch, &mut scratch)? {
                open.remove(&header.producer_id);
            }
        } else if header.is_transactional() {
            unwanted = open.contains(&header.producer_id);
        }
        spans.push(BatchSpan {
            first: header.base_offset,
            last: next - 1,
            at: position..position + batch.len(),
            unwanted,
        });
        position += batch.len();
    }
    Ok(spans)
}

fn is_abort(
    header: &BatchHeader,
    batch: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<bool, PartitionError> {
    header.check_crc(batch)?;
    let raw = decompressed_records(header, batch, scratch)?;
    for record in Records::new(header, raw) {
        let marker = end_transaction_marker_of(&record?);
        if matches!(marker, Some((ControlType::Abort, _))) {
            return Ok(true);
        }
    }
    Ok(false)
}
