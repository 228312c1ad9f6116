//! Iteration over the records of a batch for validation. It allocates no memory for each record, and for a compressed
//! batch no more than one chunk or one record.

use crate::compression::{DECOMPRESSED_BYTES_MAX, Decoder, failed};
use crate::record::{RecordError, RecordRef, parse_record};
use crate::{BatchError, Codec};
use std::io::Read;

/// Number of bytes that are decompressed at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Largest single record inside a compressed batch, because the buffer grows to hold a complete record.
const RECORD_BYTES_MAX: usize = 128 << 20;

/// Limit of the decompressed size of records, as a multiple of the compressed size; [`DECOMPRESSED_BYTES_MAX`] is
/// always allowed. A megabyte of zstd can expand to thirty gigabytes; checking it would block the thread and its other
/// clients for a minute.
pub(crate) const EXPANSION_MAX: usize = 64;

/// Expected ratio of decompressed to compressed bytes. If the expected size clearly exceeds a budget, the decompression
/// does not start.
const EXPANSION_EXPECTED: usize = 4;

/// Number of bytes that the caller may still decompress. It bounds the time of validation: a few kilobytes of zstd can
/// expand to hundreds of megabytes.
#[derive(Clone, Copy, Debug)]
pub struct ExpansionBudget {
    granted: usize,
    left: usize,
}

impl ExpansionBudget {
    /// Return a budget of `bytes`.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self {
            granted: bytes,
            left: bytes,
        }
    }

    /// Return an error if `bytes` exceed the remaining budget.
    fn expects(&self, bytes: usize) -> Result<(), BatchError> {
        if bytes > self.left {
            Err(BatchError::OverBudget {
                granted: self.granted,
            })
        } else {
            Ok(())
        }
    }

    /// Take `bytes` from the budget. If they exceed it, nothing is left.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), BatchError> {
        let within = self.expects(bytes);
        self.left = self.left.saturating_sub(bytes);
        within
    }
}

/// Call `visit(index, record)` for exactly `count` records of `records`, then require the end of the data. Charge
/// decompressed bytes to `budget`. Return the size of the decompressed records.
pub(crate) fn walk(
    codec: Codec,
    records: &[u8],
    count: i32,
    budget: &mut ExpansionBudget,
    visit: impl FnMut(i32, &RecordRef<'_>) -> Result<(), BatchError>,
) -> Result<usize, BatchError> {
    if codec == Codec::None {
        walk_slice(records, count, visit)?;
        return Ok(records.len());
    }
    budget.expects(records.len().saturating_mul(EXPANSION_EXPECTED))?;
    let bytes_max = expansion_max(records.len());
    let decoder = Decoder::new(codec, records)?;
    walk_stream(decoder, bytes_max, count, budget, visit)
}

/// Return the maximum decompressed size of records that have this compressed size.
#[must_use]
pub fn expansion_max(compressed: usize) -> usize {
    DECOMPRESSED_BYTES_MAX.max(compressed.saturating_mul(EXPANSION_MAX))
}

fn walk_slice(
    mut bytes: &[u8],
    count: i32,
    mut visit: impl FnMut(i32, &RecordRef<'_>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    for index in 0..count {
        let record = parse_record(bytes).map_err(|error| at(index, &error))?;
        visit(index, &record)?;
        bytes = &bytes[record.raw.len()..];
    }
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(more_bytes())
    }
}

fn walk_stream(
    mut decoder: Decoder<'_>,
    bytes_max: usize,
    count: i32,
    budget: &mut ExpansionBudget,
    mut visit: impl FnMut(i32, &RecordRef<'_>) -> Result<(), BatchError>,
) -> Result<usize, BatchError> {
    let mut buffer = vec![0u8; CHUNK_BYTES];
    let (mut start, mut end) = (0, 0);
    let mut index = 0;
    let mut bytes = 0;
    while index < count {
        match parse_record(&buffer[start..end]) {
            Ok(record) => {
                visit(index, &record)?;
                start += record.raw.len();
                index += 1;
            }
            Err(RecordError::Incomplete(needed)) if needed <= RECORD_BYTES_MAX => {
                buffer.copy_within(start..end, 0);
                end -= start;
                start = 0;
                if end == buffer.len() {
                    // Double the buffer instead of allocating `needed`, so that memory grows only with received bytes.
                    buffer.resize(buffer.len() * 2, 0);
                }
                let read = decoder.read(&mut buffer[end..]).map_err(failed)?;
                if read == 0 {
                    return Err(at(index, &RecordError::Incomplete(needed)));
                }
                end += read;
                bytes += read;
                if bytes > bytes_max {
                    return Err(BatchError::Expands { max: bytes_max });
                }
                budget.take(read)?;
            }
            Err(error) => return Err(at(index, &error)),
        }
    }
    // Extra bytes after the last record, buffered or still compressed, are an error, like missing ones.
    if start < end || decoder.read(&mut buffer[..1]).map_err(failed)? > 0 {
        return Err(more_bytes());
    }
    Ok(bytes)
}

fn more_bytes() -> BatchError {
    BatchError::invalid("bytes after the last record")
}

fn at(index: i32, error: &RecordError) -> BatchError {
    BatchError::invalid_at(
        index,
        match error {
            RecordError::Incomplete(_) => "fewer records than the header says",
            RecordError::Malformed(reason) => reason,
        },
    )
}
