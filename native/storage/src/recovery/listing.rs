//! Listing of the files in a log's directory.

use super::report::RecoveryReport;
use super::swap;
use crate::clean_state::{SegmentStamp, modified_ns};
use crate::error::StorageError;
use crate::file_names::{self, CLEANED, DELETED, LOG, SNAPSHOT, SWAP, TEMPORARY, TXN_INDEX};
use crate::files;
use crate::handles::HandleCache;
use crate::segment::{DirPath, Segment, Segments};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files in a log's directory.
#[derive(Default)]
pub(super) struct Listing {
    /// The `.log` files, ascending; never empty.
    pub(super) logs: Vec<SegmentStamp>,
    /// Offsets of snapshots, descending.
    pub(super) snapshots: Vec<i64>,
    /// Base offsets and sizes of transaction indexes.
    txn_indexes: Vec<(i64, u64)>,
    leftovers: Vec<PathBuf>,
    /// Files that waited for their last readers before the restart. Now they have no readers.
    pub(super) deleted: Vec<PathBuf>,
    swaps: bool,
}

impl Listing {
    /// List `dir` after finishing an interrupted compaction and removing leftovers. If there is no segment, the log is
    /// empty and begins at `start`.
    pub(super) fn settled(
        dir: &Path,
        start: i64,
        report: &mut RecoveryReport,
    ) -> Result<Self, StorageError> {
        let mut listing = list(dir)?;
        if listing.swaps {
            swap::finish(dir)?;
            report
                .notes
                .push("finished a compaction that a crash interrupted".into());
            listing = list(dir)?;
        }
        for leftover in &listing.leftovers {
            files::remove(leftover)?;
        }
        if listing.logs.is_empty() {
            listing.logs.push(SegmentStamp {
                base_offset: start,
                ..SegmentStamp::default()
            });
        }
        Ok(listing)
    }

    /// Return whether a segment has a transaction index.
    pub(super) fn has_aborted(&self, segment: &Segment) -> bool {
        let base = segment.base_offset;
        self.txn_indexes.iter().any(|&(at, _)| at == base)
    }

    /// Return the segments with provisional ends: each segment ends at the base offset of the next one.
    pub(super) fn segments(
        &self,
        dir: &DirPath,
        handles: &Arc<HandleCache>,
        now_ms: i64,
    ) -> Result<Segments, StorageError> {
        let mut segments = Vec::with_capacity(self.logs.len());
        for (at, stamp) in self.logs.iter().enumerate() {
            let (base, size) = (stamp.base_offset, stamp.size);
            if size > i32::MAX as u64 {
                return Err(StorageError::Corrupt {
                    path: file_names::of_segment(&dir.read(), base, LOG),
                    reason: format!("{size} bytes, a segment has at most {}", i32::MAX),
                });
            }
            let segment = if size == 0 {
                Segment::fresh(base, dir, handles, now_ms)
            } else {
                Segment::new(base, dir, handles, now_ms)
            };
            let next = self.logs.get(at + 1).map_or(base, |next| next.base_offset);
            segment.set_end(next.min(base.saturating_add(i64::from(i32::MAX))), size);
            segments.push(Arc::new(segment));
        }
        Ok(segments)
    }
}

fn list(dir: &Path) -> Result<Listing, StorageError> {
    let mut listing = Listing::default();
    for entry in files::entries(dir)? {
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
