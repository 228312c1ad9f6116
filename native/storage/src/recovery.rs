//! Opening a log directory's partition after a clean stop or after a crash at any byte.
//!
//! | found | done |
//! |---|---|
//! | `.tmp`, `.deleted`, `.cleaned` files | removed: worthless by their names |
//! | `.swap` files | compaction had finished: they replace the segments they cover |
//! | clean-shutdown marker fits the files of all segments | nothing is scanned |
//! | a segment is not what the marker says | checksums are checked from there on; what it had and is gone is reported lost, and the log goes on after the end that the marker names: no offset is given twice |
//! | no marker | checksums are checked from the recovery point on |
//! | no marker, and a segment before the recovery point ends inside a batch or is empty | from that one on |
//! | no or damaged recovery point | from the first segment on |
//! | recovery point inside a segment, index good | from the indexed batch before it |
//! | recovery point beyond the end | the last segment, from its front |
//! | last segment ends inside a batch, or in garbage | cut after the last whole batch |
//! | a batch with a bad checksum, whole batches after it | it is taken out (a copy of the file is kept as `.corrupt`) and its offsets are reported lost, the rest stays |
//! | a batch with a damaged length, below the recovery point or in an earlier segment | likewise, up to the next whole batch that a search finds |
//! | an earlier segment that ends in damage | the segment is cut there (a copy is kept as `.corrupt`), later segments stay, the offsets between are reported lost |
//! | index missing, wrong size, pointing outside | rebuilt |
//! | transaction index damaged | rebuilt from the log |
//! | snapshot missing, damaged, beyond the end | an older one, or none, and the batches since |
//! | leader epochs missing or damaged | rebuilt from the batches |
//! | leader epochs beyond the end | dropped |
//! | log start checkpoint beyond the end | ignored: it would delete data |
//! | no segment at all | an empty log at the log start |
//! | a file that cannot be read | an error: the partition stays offline, the broker starts |

use crate::clean_state::{CleanState, SegmentStamp, modified_ns};
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{self, CLEANED, DELETED, LOG, SNAPSHOT, SWAP, TEMPORARY, TXN_INDEX};
use crate::files;
use crate::handles::HandleCache;
use crate::leader_epochs::LeaderEpochs;
use crate::producer_state::{ProducerState, Transactions};
use crate::scan::Depth;
use crate::segment::{DirPath, Segment, Segments};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod producers;
mod since_stop;
mod swap;
mod walk;

use walk::Walk;

#[cfg(test)]
mod tests;

/// What is known about a log before its files are looked at.
#[derive(Clone, Debug, Default)]
pub struct OpenState {
    /// From the recovery-point checkpoint: everything below is on disk and was checked.
    pub recovery_point: Option<i64>,
    /// From the log-start checkpoint.
    pub log_start_offset: Option<i64>,
    /// From the cleaner's checkpoint: below, compaction has been.
    pub cleaned_to: Option<i64>,
    /// From the clean-shutdown marker.
    pub(crate) clean: Option<CleanState>,
}

/// What opening found and did, for the log and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Whether the clean-shutdown marker held, so that nothing was scanned.
    pub clean: bool,
    /// Bytes whose checksums were checked.
    pub scanned_bytes: u64,
    /// Bytes cut off the end.
    pub truncated_bytes: u64,
    /// Ranges (first, last) of offsets whose records are lost to damage.
    pub lost: Vec<(i64, i64)>,
    /// What else was out of order, in words.
    pub notes: Vec<String>,
}

/// An opened log's parts.
pub(crate) struct Recovered {
    pub(crate) segments: Segments,
    pub(crate) producers: ProducerState,
    pub(crate) transactions: Transactions,
    pub(crate) epochs: LeaderEpochs,
    pub(crate) epochs_changed: bool,
    pub(crate) log_start: i64,
    pub(crate) log_end: i64,
    pub(crate) checkpoint_snapshot: Option<i64>,
    pub(crate) deleted_files: Vec<PathBuf>,
    pub(crate) report: RecoveryReport,
}

/// Opens the log in `dir`. See the module text.
pub(crate) fn recover(
    dir: &DirPath,
    handles: &Arc<HandleCache>,
    config: &LogConfig,
    state: &OpenState,
    now_ms: i64,
) -> Result<Recovered, StorageError> {
    let path = dir.read().clone();
    let mut report = RecoveryReport::default();
    let mut listing = list(&path)?;
    if listing.swaps {
        swap::finish(&path)?;
        report
            .notes
            .push("finished a compaction that a crash interrupted".into());
        listing = list(&path)?;
    }
    for leftover in &listing.leftovers {
        files::remove(leftover)?;
    }
    let start_hint = state.log_start_offset.unwrap_or(0).max(0);
    if listing.logs.is_empty() {
        listing.logs.push(SegmentStamp {
            base_offset: start_hint,
            ..SegmentStamp::default()
        });
    }
    let segments = segments_of(&listing, dir, handles, now_ms, &path)?;
    let changed = state
        .clean
        .as_ref()
        .and_then(|clean| clean.first_change(&listing.logs));
    let clean = state.clean.as_ref().filter(|_| changed.is_none());
    let epochs_path = path.join(file_names::LEADER_EPOCHS);
    let read_epochs = LeaderEpochs::read(&epochs_path);
    let mut epochs = read_epochs.as_ref().cloned().unwrap_or_default();
    let mut epochs_changed = read_epochs.is_err();
    if let Err(error) = &read_epochs {
        report
            .notes
            .push(format!("rebuilding leader epochs: {error}"));
    }
    let segments = match clean {
        Some(clean) => {
            report.clean = true;
            let last = &segments[segments.len() - 1];
            last.set_end(clean.log_end, last.size());
            segments
        }
        None => scan_segments(
            segments,
            config,
            state,
            changed,
            &mut epochs,
            &mut epochs_changed,
            &mut report,
        )?,
    };
    if let Some(before) = &state.clean
        && changed.is_some()
    {
        report.lost.extend(before.missing(&listing.logs));
        let interval = config.index_interval_bytes;
        since_stop::go_on_after(before.log_end, &segments, &epochs, interval, &mut report)?;
    }
    let last = &segments[segments.len() - 1];
    let log_end = last.end_offset();
    if read_epochs.is_err() {
        epochs.clear();
        rebuild_epochs(&segments, &mut epochs)?;
    }
    // An epoch that begins exactly at the end was announced by a leader that wrote nothing yet.
    epochs_changed |= epochs.truncate_from_end(log_end + 1);
    let first_base = segments[0].base_offset;
    let log_start = if start_hint > log_end {
        report.notes.push(format!(
            "ignoring log start {start_hint} beyond the end {log_end}"
        ));
        first_base
    } else {
        start_hint.max(first_base)
    };
    epochs_changed |= epochs.truncate_from_start(log_start);
    since_stop::join_ranges(&mut report.lost, start_hint);

    let (producers, transactions, checkpoint_snapshot) = recover_producers(
        &path,
        &listing,
        &segments,
        state,
        changed,
        log_end,
        &mut report,
    )?;
    Ok(Recovered {
        segments,
        producers,
        transactions,
        epochs,
        epochs_changed,
        log_start,
        log_end,
        checkpoint_snapshot,
        deleted_files: listing.deleted,
        report,
    })
}

#[derive(Default)]
struct Listing {
    /// The `.log` files, ascending.
    logs: Vec<SegmentStamp>,
    /// Offsets of snapshots, descending.
    snapshots: Vec<i64>,
    /// Base offsets and sizes of transaction indexes.
    txn_indexes: Vec<(i64, u64)>,
    leftovers: Vec<PathBuf>,
    deleted: Vec<PathBuf>,
    swaps: bool,
}

fn list(dir: &Path) -> Result<Listing, StorageError> {
    let mut listing = Listing::default();
    for entry in std::fs::read_dir(dir).map_err(StorageError::io("list", dir))? {
        let entry = entry.map_err(StorageError::io("list", dir))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(TEMPORARY) {
            listing.leftovers.push(entry.path());
            continue;
        }
        let Some((offset, suffix)) = file_names::offset_and_suffix(name) else {
            continue;
        };
        let look_at = || {
            let metadata = entry.metadata();
            metadata.map_err(StorageError::io("look at", &entry.path()))
        };
        match suffix {
            LOG => {
                let metadata = look_at()?;
                listing.logs.push(SegmentStamp {
                    base_offset: offset,
                    size: metadata.len(),
                    modified_ns: modified_ns(&metadata),
                    aborted_bytes: 0,
                });
            }
            SNAPSHOT => listing.snapshots.push(offset),
            TXN_INDEX => listing.txn_indexes.push((offset, look_at()?.len())),
            _ if suffix.ends_with(SWAP) || suffix.ends_with(CLEANED) => listing.swaps = true,
            _ if suffix.ends_with(DELETED) => listing.deleted.push(entry.path()),
            _ => {}
        }
    }
    listing
        .logs
        .sort_unstable_by_key(|segment| segment.base_offset);
    for &(base, bytes) in &listing.txn_indexes {
        let at = listing
            .logs
            .binary_search_by_key(&base, |segment| segment.base_offset);
        if let Ok(at) = at {
            listing.logs[at].aborted_bytes = bytes;
        }
    }
    listing.snapshots.sort_unstable_by(|a, b| b.cmp(a));
    Ok(listing)
}

/// Segments with provisional ends: each reaches to the next one's base.
fn segments_of(
    listing: &Listing,
    dir: &DirPath,
    handles: &Arc<HandleCache>,
    now_ms: i64,
    path: &Path,
) -> Result<Segments, StorageError> {
    let mut segments = Vec::with_capacity(listing.logs.len());
    for (at, stamp) in listing.logs.iter().enumerate() {
        let (base, size) = (stamp.base_offset, stamp.size);
        if size > i32::MAX as u64 {
            return Err(StorageError::Corrupt {
                path: file_names::of_segment(path, base, LOG),
                reason: format!("{size} bytes, a segment has at most {}", i32::MAX),
            });
        }
        let segment = if size == 0 {
            Segment::fresh(base, dir, handles, now_ms)
        } else {
            Segment::new(base, dir, handles, now_ms)
        };
        let next = listing
            .logs
            .get(at + 1)
            .map_or(base, |next| next.base_offset);
        segment.set_end(next.min(base.saturating_add(i64::from(i32::MAX))), size);
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// Checks the segments that nothing vouches for. `changed`: where the files are not what the marker says.
fn scan_segments(
    mut segments: Segments,
    config: &LogConfig,
    state: &OpenState,
    changed: Option<i64>,
    epochs: &mut LeaderEpochs,
    epochs_changed: &mut bool,
    report: &mut RecoveryReport,
) -> Result<Segments, StorageError> {
    let checked = state.recovery_point.unwrap_or(0);
    let mut recovery_point = checked.min(changed.unwrap_or(i64::MAX));
    if changed.is_none() {
        recovery_point = since_stop::whole_up_to(&segments, checked, config)?;
    }
    let last = segments.len() - 1;
    let first = segments
        .partition_point(|segment| segment.base_offset <= recovery_point)
        .saturating_sub(1);
    let mut expected = None;
    for at in first..=last {
        let segment = Arc::clone(&segments[at]);
        let size = segment.size();
        let later_data = segments[at + 1..].iter().any(|later| later.size() > 0);
        let next_base = segments.get(at + 1).map(|next| next.base_offset);
        let truncated = report.truncated_bytes;
        let mut walk = Walk {
            segment: &segment,
            config,
            epochs: &mut *epochs,
            epochs_changed: &mut *epochs_changed,
            report: &mut *report,
            expected,
            durable: if later_data {
                i64::MAX
            } else {
                checked.max(state.clean.as_ref().map_or(0, |clean| clean.log_end))
            },
        };
        let end = walk.run(recovery_point, size, later_data, next_base)?;
        expected = Some(end);
        let before = state
            .clean
            .as_ref()
            .and_then(|clean| clean.known(segment.base_offset));
        if let Some((stamp, end_before)) = before {
            if end < end_before && (size < stamp.size || report.truncated_bytes > truncated) {
                report.lost.push((end, end_before - 1));
            }
        } else if let Some(next) = next_base
            && size == 0
            && later_data
            && !config.cleanup_policy.compact
        {
            report.lost.push((segment.base_offset, next - 1));
        }
    }
    // Segments without a byte between others: of one that had some, or of a compaction.
    let active = segments[last].base_offset;
    for empty in segments.iter().filter(|segment| segment.size() == 0) {
        if empty.base_offset != active {
            files::remove(&empty.path(LOG))?;
        }
    }
    segments.retain(|segment| segment.size() > 0 || segment.base_offset == active);
    // A segment that a later one follows must not claim its offsets.
    for pair in segments.windows(2) {
        since_stop::reach_to(&pair[0], pair[1].base_offset);
    }
    Ok(segments)
}

fn rebuild_epochs(segments: &Segments, epochs: &mut LeaderEpochs) -> Result<(), StorageError> {
    for segment in segments {
        segment.for_each(Depth::Headers, segment.base_offset, |_, header, _| {
            if epochs
                .latest()
                .is_none_or(|latest| latest.epoch < header.partition_leader_epoch)
            {
                epochs.assign(header.partition_leader_epoch, header.base_offset);
            }
            Ok(true)
        })?;
    }
    Ok(())
}

fn recover_producers(
    path: &Path,
    listing: &Listing,
    segments: &Segments,
    state: &OpenState,
    changed: Option<i64>,
    log_end: i64,
    report: &mut RecoveryReport,
) -> Result<(ProducerState, Transactions, Option<i64>), StorageError> {
    for &beyond in listing.snapshots.iter().filter(|&&offset| offset > log_end) {
        files::remove(&file_names::of_segment(path, beyond, SNAPSHOT))?;
    }
    let has_file = |segment: &Segment| {
        let base = segment.base_offset;
        listing.txn_indexes.iter().any(|&(at, _)| at == base)
    };
    let clean = state.clean.as_ref();
    let mut indexes_good = changed.is_none()
        || clean.is_none_or(|before| since_stop::same_aborted(before, &listing.logs));
    if !indexes_good {
        report
            .notes
            .push("rebuilding transaction indexes: they changed since the stop".into());
    }
    for segment in segments.iter().filter(|segment| has_file(segment)) {
        if let Err(error) = segment.aborted() {
            report
                .notes
                .push(format!("rebuilding transaction indexes: {error}"));
            indexes_good = false;
        }
    }
    let mut loaded = if indexes_good {
        producers::from_snapshot(path, &listing.snapshots, log_end)?
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
    let (state, transactions, aborted) = producers::replay(loaded, segments, log_end)?;
    for segment in segments {
        let end = segment.end_offset();
        let has_file = has_file(segment);
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
