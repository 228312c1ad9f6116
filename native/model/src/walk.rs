//! Walking the records of a batch for validation: no allocation per record, and for compressed
//! batches no more memory than one chunk or one record.

use crate::compression::{DECOMPRESSED_BYTES_MAX, Decoder, failed};
use crate::record::{RecordError, RecordRef, parse_record};
use crate::{BatchError, Codec};
use std::io::Read;

/// Bytes decompressed at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Largest single record inside a compressed batch: the buffer grows to hold one whole record.
const RECORD_BYTES_MAX: usize = 128 << 20;

/// What the records of a compressed batch may come to: so many times its size, and [`DECOMPRESSED_BYTES_MAX`] in any
/// case. A megabyte of zstd can stand for thirty gigabytes; whoever checks it, and all whom that thread serves, would
/// wait for a minute.
const EXPANSION_MAX: usize = 64;

/// Calls `visit(index, record)` for exactly `count` records of `records`, then requires the end.
pub(crate) fn walk(
    codec: Codec,
    records: &[u8],
    count: i32,
    visit: impl FnMut(i32, &RecordRef<'_>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    if codec == Codec::None {
        walk_slice(records, count, visit)
    } else {
        let bytes_max = DECOMPRESSED_BYTES_MAX.max(records.len().saturating_mul(EXPANSION_MAX));
        walk_stream(Decoder::new(codec, records)?, bytes_max, count, visit)
    }
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
    mut visit: impl FnMut(i32, &RecordRef<'_>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
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
                    // Doubling, not `needed`: memory follows bytes that really came.
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
            }
            Err(error) => return Err(at(index, &error)),
        }
    }
    // Bytes after the last record, buffered or still compressed, are as wrong as missing ones.
    if start < end || decoder.read(&mut buffer[..1]).map_err(failed)? > 0 {
        return Err(more_bytes());
    }
    Ok(())
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
