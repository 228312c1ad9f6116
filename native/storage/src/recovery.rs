//! Opening a log directory's partition after a clean stop or after a crash at any byte.
//!
//! | found | done |
//! |---|---|
//! | `.tmp`, `.deleted`, `.cleaned` files | removed: worthless by their names |
//! | `.swap` files | compaction had finished: they replace the segments they cover |
//! | clean-shutdown marker fits the last segment's file | nothing is scanned |
//! | no marker, or it does not fit | checksums are checked from the recovery point on |
//! | no or damaged recovery point | from the first segment on |
//! | recovery point inside a segment, index good | from the indexed batch before it |
//! | recovery point beyond the end | the last segment, from its front |
//! | last segment ends inside a batch, or in garbage | cut after the last whole batch |
//! | a batch with a bad checksum, whole batches after it | it becomes an empty batch of the same size; its offsets are reported lost, the rest stays |
//! | an earlier segment with a damaged length | the segment is cut there (a copy is kept as `.corrupt`), later segments stay, the offsets between are reported lost |
//! | index missing, wrong size, pointing outside | rebuilt |
//! | transaction index damaged | rebuilt from the log |
//! | snapshot missing, damaged, beyond the end | an older one, or none, and the batches since |
//! | leader epochs missing or damaged | rebuilt from the batches |
//! | leader epochs beyond the end | dropped |
//! | log start checkpoint beyond the end | ignored: it would delete data |
//! | no segment at all | an empty log at the log start |
//! | a file that cannot be read | an error: the partition stays offline, the broker starts |

use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{
    self, CLEANED, DELETED, INDEX, LOG, SNAPSHOT, SWAP, TEMPORARY, TIME_INDEX, TXN_INDEX,
};
use crate::files;
use crate::handles::HandleCache;
use crate::leader_epochs::LeaderEpochs;
use crate::log::durable::modified_ns;
use crate::log::{CleanState, Segments};
use crate::producer_state::{ProducerState, Transactions};
use crate::scan::Depth;
use crate::segment::{DirPath, Segment};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod producers;
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
        listing.logs.push((start_hint, 0));
    }
    let segments = segments_of(&listing, dir, handles, now_ms, &path)?;
    let clean = state.clean.as_ref().filter(|clean| fits(clean, &segments));
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
            &mut epochs,
            &mut epochs_changed,
            &mut report,
        )?,
    };
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

    let (producers, transactions, checkpoint_snapshot) =
        recover_producers(&path, &listing, &segments, clean, log_end, &mut report)?;
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
    /// Base offsets and sizes of `.log` files, ascending.
    logs: Vec<(i64, u64)>,
    /// Offsets of snapshots, descending.
    snapshots: Vec<i64>,
    /// Base offsets of transaction indexes.
    txn_indexes: Vec<i64>,
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
        match suffix {
            LOG => {
                let size = entry
                    .metadata()
                    .map_err(StorageError::io("look at", &entry.path()))?
                    .len();
                listing.logs.push((offset, size));
            }
            SNAPSHOT => listing.snapshots.push(offset),
            TXN_INDEX => listing.txn_indexes.push(offset),
            _ if suffix.ends_with(SWAP) || suffix.ends_with(CLEANED) => listing.swaps = true,
            _ if suffix.ends_with(DELETED) => listing.deleted.push(entry.path()),
            _ => {}
        }
    }
    listing.logs.sort_unstable();
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
    for (at, &(base, size)) in listing.logs.iter().enumerate() {
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
        let next = listing.logs.get(at + 1).map_or(base, |&(next, _)| next);
        segment.set_end(next.min(base.saturating_add(i64::from(i32::MAX))), size);
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// Whether the marker was written about these very files: the last one with bytes has the size and
/// the time it names, and a segment without bytes after it begins where the log ends.
fn fits(clean: &CleanState, segments: &Segments) -> bool {
    let last = &segments[segments.len() - 1];
    let Some(sized) = segments.iter().rev().find(|segment| segment.size() > 0) else {
        return clean.size == 0 && clean.log_end == last.base_offset;
    };
    let modified = std::fs::metadata(sized.path(LOG)).map_or(i64::MIN, |m| modified_ns(&m));
    let range = 0..=i64::from(i32::MAX);
    clean.active_base == sized.base_offset
        && clean.size == sized.size()
        && clean.modified_ns == modified
        && range.contains(&clean.log_end.wrapping_sub(sized.base_offset))
        && (last.size() > 0 || clean.log_end == last.base_offset)
}

fn scan_segments(
    mut segments: Segments,
    config: &LogConfig,
    state: &OpenState,
    epochs: &mut LeaderEpochs,
    epochs_changed: &mut bool,
    report: &mut RecoveryReport,
) -> Result<Segments, StorageError> {
    let recovery_point = state.recovery_point.unwrap_or(0);
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
        let mut walk = Walk {
            segment: &segment,
            config,
            epochs: &mut *epochs,
            epochs_changed: &mut *epochs_changed,
            report: &mut *report,
            expected,
        };
        let end = walk.run(recovery_point, size, later_data, next_base)?;
        expected = Some(end);
    }
    // Segments without a byte between others are leftovers of a roll.
    let active = segments[last].base_offset;
    segments.retain(|segment| segment.size() > 0 || segment.base_offset == active);
    // Their files may stay; a segment that a later one follows must not claim its offsets.
    for pair in segments.windows(2) {
        pair[0].set_end(
            pair[1]
                .base_offset
                .min(pair[0].base_offset + i64::from(i32::MAX)),
            pair[0].size(),
        );
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
    clean: Option<&CleanState>,
    log_end: i64,
    report: &mut RecoveryReport,
) -> Result<(ProducerState, Transactions, Option<i64>), StorageError> {
    for &beyond in listing.snapshots.iter().filter(|&&offset| offset > log_end) {
        files::remove(&file_names::of_segment(path, beyond, SNAPSHOT))?;
    }
    let mut indexes_good = true;
    for segment in segments
        .iter()
        .filter(|s| listing.txn_indexes.contains(&s.base_offset))
    {
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
    if loaded.is_none() && indexes_good && clean.is_some_and(|clean| clean.producers == 0) {
        loaded = Some((log_end, ProducerState::default()));
    }
    let from = loaded.as_ref().map_or(0, |(offset, _)| *offset);
    let (state, transactions, aborted) = producers::replay(loaded, segments, log_end)?;
    for segment in segments {
        let end = segment.end_offset();
        let has_file = listing.txn_indexes.contains(&segment.base_offset);
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

/// Suffixes of the files that make up a segment.
pub(crate) const SEGMENT_SUFFIXES: [&str; 4] = [LOG, INDEX, TIME_INDEX, TXN_INDEX];
