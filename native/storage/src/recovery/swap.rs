//! Completion, or removal, of a compaction that a crash interrupted.
//!
//! Compaction writes `*.cleaned`, syncs them, renames them to `*.swap` (the `.log` last), renames the originals to
//! `*.deleted`, and finally drops the suffix `.swap`. A `.log.swap` thus proves that the replacement is complete.
//! Without it, the replacement files are removed, because all originals still exist.

use crate::error::StorageError;
use crate::file_names::{self, CLEANED, LOG, SEGMENT_SUFFIXES, SNAPSHOT, SWAP};
use crate::files;
use crate::handles::HandleCache;
use crate::scan::{Depth, Scan};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bring the directory into a state without `.cleaned` and `.swap` files.
pub(super) fn finish(dir: &Path) -> Result<(), StorageError> {
    let names = names(dir)?;
    for (_, suffix, path) in &names {
        if suffix.ends_with(CLEANED) {
            files::remove(path)?;
        }
    }
    let whole: Vec<i64> = names
        .iter()
        .filter(|(_, suffix, _)| suffix.strip_suffix(SWAP) == Some(LOG))
        .map(|(offset, _, _)| *offset)
        .collect();
    for &base in &whole {
        replace_originals(dir, base, &names)?;
    }
    for (offset, suffix, path) in &names {
        if suffix.ends_with(SWAP) && !whole.contains(offset) {
            // This file is not needed. Either its log was already put in place (then this file was too, or can be
            // rebuilt), or its log never became a swap file.
            files::remove(path)?;
        }
    }
    files::sync_dir(dir)
}

fn names(dir: &Path) -> Result<Vec<(i64, String, PathBuf)>, StorageError> {
    let mut names = Vec::new();
    for entry in files::entries(dir)? {
        if let Some((offset, suffix)) = entry
            .file_name()
            .to_str()
            .and_then(file_names::offset_and_suffix)
        {
            names.push((offset, suffix.to_owned(), entry.path()));
        }
    }
    Ok(names)
}

fn replace_originals(
    dir: &Path,
    base: i64,
    names: &[(i64, String, PathBuf)],
) -> Result<(), StorageError> {
    let last = last_offset(dir, base)?;
    for (offset, suffix, path) in names {
        let part =
            SEGMENT_SUFFIXES.contains(&suffix.as_str()) || (suffix == SNAPSHOT && *offset > base);
        if part && (*offset == base || (*offset > base && *offset <= last)) {
            files::remove(path)?;
        }
    }
    for suffix in SEGMENT_SUFFIXES.iter().rev() {
        let target = file_names::of_segment(dir, base, suffix);
        let swap = file_names::of_segment(dir, base, &format!("{suffix}{SWAP}"));
        match std::fs::rename(&swap, &target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StorageError::io("rename", &swap)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Return the last offset in the swap file of `base`. The swap file replaces the originals up to that offset.
fn last_offset(dir: &Path, base: i64) -> Result<i64, StorageError> {
    let path = || file_names::of_segment(dir, base, &format!("{LOG}{SWAP}"));
    let slot = Arc::default();
    let failed = |error| StorageError::io("open", &path())(error);
    let file = HandleCache::new(1)
        .get(&slot, false, path)
        .map_err(failed)?;
    let size = file.file().metadata().map_err(failed)?.len();
    let mut scan = Scan::new(&file, &path, Depth::Headers, 0, size);
    let mut last = base;
    while let Ok(Some((_, header, _))) = scan.next() {
        last = last.max(header.last_offset());
    }
    Ok(last)
}
