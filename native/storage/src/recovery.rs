//! Recovery of a partition's log after a clean stop or after a crash at any byte.
//!
//! | found | action |
//! |---|---|
//! | `.tmp`, `.deleted`, `.cleaned` files | remove: files with these suffixes are never needed |
//! | `.swap` files | compaction had finished: they replace the segments they cover |
//! | clean-shutdown marker matches the files of all segments | scan nothing |
//! | a segment differs from the marker | check checksums from there on; report missing records as lost; continue after the end in the marker: no offset is assigned twice |
//! | no marker | check checksums from the recovery point on |
//! | no marker, and a segment before the recovery point ends inside a batch, is empty, or is shorter than its index says | check from that segment on; report missing records as lost |
//! | no or damaged recovery point | check from the first segment on |
//! | recovery point inside a segment, index good | check from the indexed batch before it |
//! | recovery point beyond the end | check the last segment from its start |
//! | last segment ends inside a batch, or in garbage | cut after the last whole batch |
//! | a batch with a bad checksum, whole batches after it | remove it (keep a copy of the file as `.corrupt`) and report its offsets as lost; the rest stays |
//! | a batch with a damaged length, below the recovery point or in an earlier segment | likewise, up to the next whole batch that a search finds |
//! | an earlier segment that ends in damage | cut the segment there (keep a copy as `.corrupt`); later segments stay; report the offsets between as lost |
//! | index missing, wrong size, pointing outside | rebuild |
//! | transaction index damaged | rebuild from the log |
//! | snapshot missing, damaged, beyond the end | use an older one, or none, and the batches since |
//! | leader epochs missing or damaged | rebuild from the batches |
//! | leader epochs beyond the end | drop |
//! | log start checkpoint beyond the end | ignore: it would delete data |
//! | no segment at all | an empty log at the log start |
//! | a file that cannot be read | an error: the partition stays offline, the broker starts |

use crate::config::LogConfig;
use crate::error::StorageError;
use crate::handles::HandleCache;
use crate::leader_epochs::LeaderEpochs;
use crate::producer_state::{ProducerState, Transactions};
use crate::segment::{DirPath, Segments};
use std::path::PathBuf;
use std::sync::Arc;

mod check;
mod epochs;
mod listing;
pub(crate) mod producers;
mod report;
mod since_stop;
mod swap;
#[cfg(test)]
mod tests;
mod walk;

use epochs::Epochs;
use listing::Listing;
pub use report::{OpenState, RecoveryReport};

/// Parts of an opened log.
pub(crate) struct RecoveredLog {
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

/// Open the log in `dir`. See the module documentation.
pub(crate) fn recover(
    dir: &DirPath,
    handles: &Arc<HandleCache>,
    config: &LogConfig,
    state: &OpenState,
    now_ms: i64,
) -> Result<RecoveredLog, StorageError> {
    let path = dir.read().clone();
    let mut report = RecoveryReport::default();
    let start_known = state.log_start_offset.unwrap_or(0).max(0);
    let listing = Listing::settled(&path, start_known, &mut report)?;
    let mut segments = listing.segments(dir, handles, now_ms)?;
    let mut epochs = Epochs::read(&path, &mut report);
    let marker = state.clean.as_ref();
    let changed = marker.and_then(|clean| clean.first_change(&listing.logs));
    match marker {
        Some(clean) if changed.is_none() => {
            report.clean = true;
            let last = &segments[segments.len() - 1];
            last.set_end(clean.log_end, last.size());
        }
        _ => {
            segments = check::check(segments, config, state, changed, &mut epochs, &mut report)?;
        }
    }
    if let Some(before) = marker.filter(|_| changed.is_some()) {
        report.lost.extend(before.missing(&listing.logs));
        let interval = config.index_interval_bytes;
        let latest = epochs.entries.latest().map_or(0, |latest| latest.epoch);
        since_stop::go_on_after(before.log_end, &segments, latest, interval, &mut report)?;
    }
    let log_end = segments[segments.len() - 1].end_offset();
    epochs.end_at(log_end, &segments)?;
    let first_base = segments[0].base_offset;
    let log_start = if start_known > log_end {
        report.notes.push(format!(
            "ignoring log start {start_known} beyond the end {log_end}"
        ));
        first_base
    } else {
        start_known.max(first_base)
    };
    epochs.start_at(log_start);
    since_stop::join_ranges(&mut report.lost, start_known);

    let (producers, transactions, checkpoint_snapshot) = producers::recover(
        &path,
        &listing,
        &segments,
        state,
        changed,
        (log_end, config.producer_ids_per_partition_max),
        &mut report,
    )?;
    Ok(RecoveredLog {
        segments,
        producers,
        transactions,
        epochs: epochs.entries,
        epochs_changed: epochs.changed,
        log_start,
        log_end,
        checkpoint_snapshot,
        deleted_files: listing.deleted,
        report,
    })
}
