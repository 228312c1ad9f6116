//! Hard links: a staged file and a log's segment are one file with two names.

use super::{StagedSegment, staged_file};
use crate::error::StorageError;
use crate::file_names::{self, INDEX, LOG, TIME_INDEX};
use crate::files;
use crate::segment::Segment;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Suffixes of a segment's linked files. The log is linked last, so that a segment that is in place has its indexes.
const LINKED: [&str; 3] = [INDEX, TIME_INDEX, LOG];

/// Link a staged segment into a log's directory. An existing file must be the same one, or an empty one from a roll or
/// a truncation.
pub(crate) fn link(
    staged: &StagedSegment,
    partition: &Path,
    base: i64,
) -> Result<(), StorageError> {
    for suffix in LINKED {
        let from = staged_file(staged, suffix);
        let to = file_names::of_segment(partition, base, suffix);
        match std::fs::hard_link(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && suffix != LOG => {
                // The staged segment has no such index. An existing file with this name belongs to another segment.
                files::remove(&to)?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                replace(&from, &to, suffix)?;
            }
            Err(error) => return Err(StorageError::io("link", &to)(error)),
        }
    }
    Ok(())
}

fn replace(from: &Path, to: &Path, suffix: &str) -> Result<(), StorageError> {
    if same_file(from, to)? {
        return Ok(());
    }
    let there = std::fs::metadata(to).map_err(StorageError::io("look at", to))?;
    if suffix == LOG && there.len() > 0 {
        return Err(StorageError::Exists {
            path: to.to_path_buf(),
        });
    }
    files::remove(to)?;
    std::fs::hard_link(from, to).map_err(StorageError::io("link", to))
}

/// Remove the links of a segment from a log's directory. If the name belongs to another file, that file and its indexes
/// stay.
pub(crate) fn unlink(
    staged: &StagedSegment,
    partition: &Path,
    base: i64,
) -> Result<(), StorageError> {
    let to = |suffix| file_names::of_segment(partition, base, suffix);
    for suffix in LINKED {
        let (from, to) = (staged_file(staged, suffix), to(suffix));
        if from.exists() && to.exists() && same_file(&from, &to)? {
            files::remove(&to)?;
        }
    }
    Ok(())
}

/// Replace a segment that is linked to staged files by its own copy with the first `bytes` of its log. The staged files
/// stay intact. The caller must rebuild the indexes.
pub(crate) fn unshare(segment: &Segment, bytes: u64) -> Result<(), StorageError> {
    let path = segment.path(LOG);
    if !is_shared(&path)? {
        return Ok(());
    }
    let io = |operation| StorageError::io(operation, &path);
    let temporary = files::temporary(&path);
    let staged = File::open(&path).map_err(io("open"))?;
    let mut own = File::create(&temporary).map_err(io("create"))?;
    std::io::copy(&mut staged.take(bytes), &mut own).map_err(io("copy"))?;
    files::sync_data(&own).map_err(io("sync"))?;
    segment.forget();
    for suffix in [INDEX, TIME_INDEX] {
        files::remove(&segment.path(suffix))?;
    }
    files::replace(&path)
}

/// Return whether a file has more than one name; false if it does not exist.
pub(crate) fn is_shared(path: &Path) -> Result<bool, StorageError> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.nlink() > 1),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StorageError::io("look at", path)(error)),
    }
}

fn same_file(one: &Path, other: &Path) -> Result<bool, StorageError> {
    let look = |path: &Path| std::fs::metadata(path).map_err(StorageError::io("look at", path));
    let (one, other) = (look(one)?, look(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}
