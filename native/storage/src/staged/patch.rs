//! Patching of offsets and epoch into staged batches in place: 16 bytes for each batch, all before the checksummed
//! part.

use super::{StagedSegment, staged_file};
use crate::error::StorageError;
use crate::file_names::{LOG, TIME_INDEX};
use crate::files;
use crate::index::TimeEntry;
use pybroker_model::{
    BatchHeader, HEADER_BYTES, TimestampType, set_base_offset, set_leader_epoch,
    set_timestamp_type_and_max,
};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

/// Values to patch into the batches of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Offset of the segment's first record.
    pub(crate) base: i64,
    pub(crate) leader_epoch: i32,
    /// LogAppendTime of the records; the checksum covers it and is recomputed. `None`: timestamps stay.
    pub(crate) append_time: Option<i64>,
}

/// Patch the files of an attach, consecutively from `base`.
pub(crate) fn segments(
    staged: &[StagedSegment],
    base: i64,
    leader_epoch: i32,
    append_time: Option<i64>,
) -> Result<(), StorageError> {
    let mut next = base;
    for one in staged {
        let stamp = Stamp {
            base: next,
            leader_epoch,
            append_time,
        };
        segment(one, stamp)?;
        next += one.rows;
    }
    Ok(())
}

/// Patch all batches of a staged file. Repeating it, with the same or other values, is harmless.
pub(crate) fn segment(staged: &StagedSegment, stamp: Stamp) -> Result<(), StorageError> {
    let path = staged_file(staged, LOG);
    let io = |operation| {
        let path = path.clone();
        move |error| StorageError::io(operation, &path)(error)
    };
    let corrupt = |reason: String| StorageError::Corrupt {
        path: path.clone(),
        reason,
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(io("open"))?;
    let (mut position, mut next) = (0, stamp.base);
    let mut header_bytes = [0; HEADER_BYTES];
    let mut batch = Vec::new();
    let mut first_last = 0;
    while position < staged.bytes {
        file.read_exact_at(&mut header_bytes, position)
            .map_err(io("read"))?;
        let header = BatchHeader::parse(&header_bytes)
            .map_err(|error| corrupt(format!("at position {position}: {error}")))?;
        let size = header.size_in_bytes() as u64;
        if header.last_offset_delta < 0 || position + size > staged.bytes {
            return Err(corrupt(format!("at position {position}: no whole batch")));
        }
        match stamp.append_time {
            Some(time) => {
                batch.resize(size as usize, 0);
                file.read_exact_at(&mut batch, position)
                    .map_err(io("read"))?;
                set_base_offset(&mut batch, next);
                set_leader_epoch(&mut batch, stamp.leader_epoch);
                set_timestamp_type_and_max(&mut batch, TimestampType::LogAppendTime, time);
                file.write_all_at(&batch[..HEADER_BYTES], position)
                    .map_err(io("write"))?;
            }
            None => {
                // Offset, length and epoch are written together, as the first 16 bytes of the batch.
                header_bytes[..8].copy_from_slice(&next.to_be_bytes());
                set_leader_epoch(&mut header_bytes, stamp.leader_epoch);
                file.write_all_at(&header_bytes[..16], position)
                    .map_err(io("write"))?;
            }
        }
        if position == 0 {
            first_last = header.last_offset_delta;
        }
        next += i64::from(header.last_offset_delta) + 1;
        position += size;
    }
    if next != stamp.base + staged.rows {
        return Err(corrupt(format!(
            "{} records instead of the planned {}",
            next - stamp.base,
            staged.rows
        )));
    }
    if let Some(timestamp) = stamp.append_time {
        write_time_index(staged, timestamp, first_last)?;
    }
    Ok(())
}

/// Write a time index with one entry, for the first batch: all batches have the same time.
fn write_time_index(
    staged: &StagedSegment,
    timestamp: i64,
    first_last: i32,
) -> Result<(), StorageError> {
    let path = staged_file(staged, TIME_INDEX);
    let entry = TimeEntry {
        timestamp,
        relative_offset: first_last as u32,
    };
    let file = File::create(&path).map_err(StorageError::io("create", &path))?;
    file.write_all_at(&entry.to_bytes(), 0)
        .map_err(StorageError::io("write", &path))?;
    // Sync the file now: after a power loss an empty index would look valid.
    files::sync_data(&file).map_err(StorageError::io("sync", &path))
}
