//! Checks for changes of a log's files while the broker was down.

use super::report::RecoveryReport;
use crate::clean_state::{CleanState, SegmentStamp};
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::LOG;
use crate::files;
use crate::segment::{Segment, Segments};
use pybroker_model::{
    BATCH_LENGTH_END, BatchHeader, HEADER_BYTES, MAGIC_V2, NO_PRODUCER_EPOCH, NO_PRODUCER_ID,
    NO_SEQUENCE, NO_TIMESTAMP, recompute_crc,
};
use std::os::unix::fs::FileExt;

/// Return the recovery point. If an earlier segment ends inside a batch or is empty, return the base offset of the
/// first such segment instead. The function reads only the end of each closed segment.
pub(super) fn whole_up_to(
    segments: &Segments,
    recovery_point: i64,
    config: &LogConfig,
) -> Result<i64, StorageError> {
    for pair in segments.windows(2) {
        if pair[1].base_offset > recovery_point {
            break;
        }
        let whole = if pair[0].size() == 0 {
            config.cleanup_policy.compact
        } else {
            pair[0].ends_whole()?
        };
        if !whole {
            return Ok(pair[0].base_offset);
        }
    }
    Ok(recovery_point)
}

/// Return whether the sizes of the transaction indexes are unchanged.
pub(super) fn same_aborted(before: &CleanState, found: &[SegmentStamp]) -> bool {
    found.iter().all(|segment| {
        let known = before.known(segment.base_offset);
        known.map_or(0, |(known, _)| known.aborted_bytes) == segment.aborted_bytes
    })
}

/// Extend a log that ends before `log_end` up to that offset, with an empty batch that consumers skip. Clients know the
/// offsets below `log_end`, so no new record may get one of them.
pub(super) fn go_on_after(
    log_end: i64,
    segments: &Segments,
    leader_epoch: i32,
    index_interval_bytes: u32,
    report: &mut RecoveryReport,
) -> Result<(), StorageError> {
    let last = &segments[segments.len() - 1];
    let first = last.end_offset();
    if first >= log_end {
        return Ok(());
    }
    report.lost.push((first, log_end - 1));
    if log_end - last.base_offset > i64::from(i32::MAX) {
        report.notes.push(format!(
            "offsets {first} to {} will be assigned again: they do not fit the last segment",
            log_end - 1
        ));
        return Ok(());
    }
    let header = BatchHeader {
        base_offset: first,
        batch_length: (HEADER_BYTES - BATCH_LENGTH_END) as i32,
        partition_leader_epoch: leader_epoch,
        magic: MAGIC_V2,
        crc: 0,
        attributes: 0,
        last_offset_delta: (log_end - 1 - first) as i32,
        base_timestamp: NO_TIMESTAMP,
        max_timestamp: NO_TIMESTAMP,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        base_sequence: NO_SEQUENCE,
        record_count: 0,
    };
    let mut batch = [0; HEADER_BYTES];
    header.write(&mut batch);
    recompute_crc(&mut batch);
    let position = last.size();
    let path = last.path(LOG);
    last.expect_batch(position)?;
    let file = last.file(true)?;
    file.file()
        .write_all_at(&batch, position)
        .map_err(StorageError::io("write", &path))?;
    files::sync_data(file.file()).map_err(StorageError::io("sync", &path))?;
    if position == 0 {
        files::sync_dir(path.parent().unwrap_or(&path))?;
    }
    last.note_batch(&header, position, index_interval_bytes);
    last.set_end(log_end, position + HEADER_BYTES as u64);
    Ok(())
}

/// Let a closed segment end at the base offset of the next one.
pub(super) fn reach_to(segment: &Segment, next_base: i64) {
    let most = segment.base_offset + i64::from(i32::MAX);
    segment.set_end(next_base.min(most), segment.size());
}

/// Sort and join offset ranges; drop offsets below `log_start`.
pub(super) fn join_ranges(ranges: &mut Vec<(i64, i64)>, log_start: i64) {
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    for &(first, last) in ranges.iter() {
        let first = first.max(log_start);
        if first > last {
            continue;
        }
        match joined.last_mut() {
            Some(previous) if first <= previous.1 + 1 => previous.1 = previous.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    *ranges = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_cut_at_the_log_start() {
        let mut ranges = vec![(20, 29), (0, 4), (3, 9), (10, 12), (25, 26), (40, 41)];
        join_ranges(&mut ranges, 2);
        assert_eq!(ranges, [(2, 12), (20, 29), (40, 41)]);
        join_ranges(&mut ranges, 35);
        assert_eq!(ranges, [(40, 41)]);
    }
}
