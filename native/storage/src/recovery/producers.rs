//! Recovery of producer state from snapshots and the batches after them.

use super::listing::Listing;
use super::report::{OpenState, RecoveryReport};
use super::since_stop;
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

/// Return the offsets of a log's snapshot files, descending.
pub(crate) fn snapshots(dir: &Path) -> Result<Vec<i64>, StorageError> {
    let mut offsets = Vec::new();
    for entry in files::entries(dir)? {
        let name = entry.file_name();
        if let Some((offset, SNAPSHOT)) = name.to_str().and_then(file_names::offset_and_suffix) {
            offsets.push(offset);
        }
    }
    offsets.sort_unstable_by(|a, b| b.cmp(a));
    Ok(offsets)
}

/// Return the state at `end`, from the newest undamaged snapshot at or below it and the batches after that snapshot.
pub(crate) fn load(
    dir: &Path,
    segments: &Segments,
    end: i64,
    producers_max: usize,
) -> Result<(ProducerState, Transactions), StorageError> {
    let snapshots = snapshots(dir)?;
    let loaded = from_snapshot(dir, &snapshots, end)?;
    let (state, transactions, _) = replay(loaded, segments, end, producers_max)?;
    Ok((state, transactions))
}

/// Return the producer state and the open transactions at the log end. Also return the offset of the snapshot they come
/// from, if a checkpoint wrote it, so that the next checkpoint replaces it. Rebuilds transaction indexes that are
/// damaged or have changed since the clean stop. `changed` is the offset from which the files differ from the
/// clean-shutdown marker.
pub(super) fn recover(
    path: &Path,
    listing: &Listing,
    segments: &Segments,
    state: &OpenState,
    changed: Option<i64>,
    (log_end, producers_max): (i64, usize),
    report: &mut RecoveryReport,
) -> Result<(ProducerState, Transactions, Option<i64>), StorageError> {
    for &beyond in listing.snapshots.iter().filter(|&&offset| offset > log_end) {
        files::remove(&file_names::of_segment(path, beyond, SNAPSHOT))?;
    }
    let clean = state.clean.as_ref();
    let mut indexes_good = changed.is_none()
        || clean.is_none_or(|before| since_stop::same_aborted(before, &listing.logs));
    if !indexes_good {
        report
            .notes
            .push("rebuilding transaction indexes: they changed since the stop".into());
    }
    for segment in segments
        .iter()
        .filter(|segment| listing.has_aborted(segment))
    {
        if let Err(error) = segment.aborted() {
            report
                .notes
                .push(format!("rebuilding transaction indexes: {error}"));
            indexes_good = false;
        }
    }
    let mut loaded = if indexes_good {
        from_snapshot(path, &listing.snapshots, log_end)?
    } else {
        None
    };
    let checkpoint = loaded.as_ref().map(|(offset, _)| *offset).filter(|offset| {
        segments
            .iter()
            .all(|segment| segment.base_offset != *offset)
    });
    let none_known = clean.is_some_and(|before| changed.is_none() && before.producers == 0);
    if loaded.is_none() && indexes_good && none_known {
        loaded = Some((log_end, ProducerState::default()));
    }
    let from = loaded.as_ref().map_or(0, |(offset, _)| *offset);
    let (state, transactions, aborted) = replay(loaded, segments, log_end, producers_max)?;
    for segment in segments {
        let end = segment.end_offset();
        let has_file = listing.has_aborted(segment);
        let mut kept = if indexes_good && has_file {
            segment.aborted()?
        } else {
            Vec::new()
        };
        let before = kept.len();
        kept.retain(|t| t.last_offset < from.min(end));
        let met = aborted
            .iter()
            .filter(|t| (segment.base_offset..end).contains(&t.last_offset));
        kept.extend(met);
        if before != kept.len() || (has_file && end > from) {
            segment.set_aborted(kept)?;
        }
    }
    Ok((state, transactions, checkpoint))
}

/// Return the newest complete snapshot at or below `end`, and its offset. Removes damaged ones.
fn from_snapshot(
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

/// Replay the batches from a snapshot (or from the log start without one) up to `end`. Also return the transactions
/// that these batches abort.
fn replay(
    loaded: Option<(i64, ProducerState)>,
    segments: &Segments,
    end: i64,
    producers_max: usize,
) -> Result<(ProducerState, Transactions, Vec<AbortedTransaction>), StorageError> {
    let (from, mut state) = loaded.unwrap_or_default();
    state.limit_to(producers_max);
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

/// Return the complete bytes of a batch. A header walk reads only the start of a batch, but a control batch is needed
/// completely.
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
