//! Producer state from snapshots and, after them, from the log itself.

use crate::error::StorageError;
use crate::file_names::{self, LOG, SNAPSHOT};
use crate::files;
use crate::producer_state::{ProducerState, Transactions, marker_of, snapshot};
use crate::scan::Depth;
use crate::segment::{Segment, Segments};
use crate::txn_index::AbortedTransaction;
use pybroker_model::BatchHeader;
use std::path::Path;

const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// Offsets of the snapshot files of a log, descending.
pub(crate) fn snapshots(dir: &Path) -> Result<Vec<i64>, StorageError> {
    let mut offsets = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(StorageError::io("list", dir))? {
        let entry = entry.map_err(StorageError::io("list", dir))?;
        let name = entry.file_name();
        if let Some((offset, SNAPSHOT)) = name.to_str().and_then(file_names::offset_and_suffix) {
            offsets.push(offset);
        }
    }
    offsets.sort_unstable_by(|a, b| b.cmp(a));
    Ok(offsets)
}

/// The state at `end`, from the newest good snapshot at or below it and the batches after that.
pub(crate) fn load(
    dir: &Path,
    segments: &Segments,
    end: i64,
) -> Result<(ProducerState, Transactions), StorageError> {
    let snapshots = snapshots(dir)?;
    let loaded = from_snapshot(dir, &snapshots, end)?;
    let (state, transactions, _) = replay(loaded, segments, end)?;
    Ok((state, transactions))
}

/// The newest snapshot at or below `end` that is whole, and its offset. Damaged ones are removed.
pub(crate) fn from_snapshot(
    dir: &Path,
    snapshots: &[i64],
    end: i64,
) -> Result<Option<(i64, ProducerState)>, StorageError> {
    for &offset in snapshots.iter().filter(|&&offset| offset <= end) {
        let path = file_names::of_segment(dir, offset, SNAPSHOT);
        let content = files::read_if_there(&path, SNAPSHOT_BYTES_MAX)?.unwrap_or_default();
        match snapshot::read(&content) {
            Some(state) => return Ok(Some((offset, state))),
            None => files::remove(&path)?,
        }
    }
    Ok(None)
}

/// Goes on from a snapshot (or from nothing) through the batches up to `end`; also answers the
/// aborted transactions met on the way.
pub(crate) fn replay(
    loaded: Option<(i64, ProducerState)>,
    segments: &Segments,
    end: i64,
) -> Result<(ProducerState, Transactions, Vec<AbortedTransaction>), StorageError> {
    let (from, mut state) = loaded.unwrap_or_default();
    let mut transactions = state.open_transactions();
    let mut aborted = Vec::new();
    for segment in segments
        .iter()
        .filter(|segment| segment.end_offset() > from)
    {
        segment.for_each(Depth::Headers, from, |position, header, bytes| {
            if header.base_offset >= end {
                return Ok(false);
            }
            if header.base_offset < from || !header.has_producer_id() {
                return Ok(true);
            }
            if header.is_control() {
                let whole = whole_batch(segment, position, header, bytes)?;
                if let Some((kind, epoch)) = marker_of(header, &whole) {
                    let time = header.max_timestamp;
                    aborted.extend(state.marker_appended(
                        header,
                        kind,
                        epoch,
                        time,
                        &mut transactions,
                    ));
                }
            } else {
                state.appended(header, header.max_timestamp, &mut transactions);
            }
            Ok(true)
        })?;
    }
    Ok((state, transactions, aborted))
}

/// A header walk buffers no more than it needs; control batches are needed whole.
fn whole_batch(
    segment: &Segment,
    position: u64,
    header: &BatchHeader,
    bytes: &[u8],
) -> Result<Vec<u8>, StorageError> {
    let size = header.size_in_bytes();
    if bytes.len() == size {
        return Ok(bytes.to_vec());
    }
    let mut whole = vec![0; size];
    let path = segment.path(LOG);
    let read = segment
        .file(false)?
        .read_at_most(&mut whole, position)
        .map_err(StorageError::io("read", &path))?;
    whole.truncate(read);
    Ok(whole)
}
