//! Durable file operations.
//!
//! Assumptions: after `fdatasync` returns, the file's bytes and size survive a power loss; after `fsync` of a
//! directory, its entries do; `rename` is atomic; `syncfs` does both for a whole filesystem and reports any error since
//! the descriptor was opened (Linux 5.8).

use crate::error::StorageError;
use crate::file_names::TEMPORARY;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Make the bytes and the size of `file` durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    // On macOS std issues F_FULLFSYNC, which reaches the medium.
    file.sync_data()
}

/// Make the entries of directory `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(StorageError::io("sync", dir))
}

/// Limit of parallel syncs.
const SYNCS_AT_ONCE: usize = 8;

/// Make the entries of several directories durable, in any order.
pub(crate) fn sync_dirs(dirs: &[&Path]) -> Result<(), StorageError> {
    side_by_side(dirs, sync_dir)
}

/// Make the temporary files of several paths durable, in any order.
pub(crate) fn sync_temporaries(paths: &[&Path]) -> Result<(), StorageError> {
    side_by_side(paths, |path| {
        let temp = temporary(path);
        File::open(&temp)
            .and_then(|file| sync_data(&file))
            .map_err(StorageError::io("sync", &temp))
    })
}

/// Run the syncs in parallel, because a disk completes several in the time of one. After an error the remaining syncs
/// still run.
fn side_by_side(
    paths: &[&Path],
    sync: impl Fn(&Path) -> Result<(), StorageError> + Sync,
) -> Result<(), StorageError> {
    let sync = &sync;
    let mut done = Vec::with_capacity(paths.len());
    for some in paths.chunks(SYNCS_AT_ONCE) {
        std::thread::scope(|scope| {
            let mut begun = Vec::with_capacity(some.len());
            for path in some.iter().skip(1) {
                let thread = std::thread::Builder::new().name("storage-sync".into());
                match thread.spawn_scoped(scope, move || sync(path)) {
                    Ok(thread) => begun.push(thread),
                    // If no thread can start, sync on this one.
                    Err(_) => done.push(sync(path)),
                }
            }
            done.extend(some.first().map(|path| sync(path)));
            for thread in begun {
                let synced = thread.join();
                done.push(synced.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
    }
    done.into_iter().collect()
}

/// Make everything on the filesystem of `dir` durable.
#[cfg(target_os = "linux")]
pub(crate) fn sync_filesystem(dir: &File) -> io::Result<()> {
    rustix::fs::syncfs(dir)?;
    // Without a journal, ext4 writes the sizes of files (inodes) only after syncfs has flushed the disk's cache. This
    // sync flushes the cache once more and has nothing else to write.
    dir.sync_data()
}

/// Return `path` with `.tmp` appended.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// Write `content` to the temporary file of `path` without syncing it; [`replace`] moves it into place.
pub(crate) fn write_temporary(path: &Path, content: &[u8]) -> Result<File, StorageError> {
    let temp = temporary(path);
    let mut file = File::create(&temp).map_err(StorageError::io("create", &temp))?;
    file.write_all(content)
        .map_err(StorageError::io("write", &temp))?;
    Ok(file)
}

/// Rename the temporary file of `path` to `path`.
pub(crate) fn replace(path: &Path) -> Result<(), StorageError> {
    fs::rename(temporary(path), path).map_err(StorageError::io("rename to", path))
}

/// Replace `path` by `content`, atomically: after a crash it has the old or the new content. Durable on return.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), StorageError> {
    let file = write_temporary(path, content)?;
    sync_data(&file).map_err(StorageError::io("sync", path))?;
    replace(path)?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Like [`write_atomically`], but durable only after the next barrier or sync of the directory: for files that recovery
/// can rebuild.
pub(crate) fn write_replacing(path: &Path, content: &[u8]) -> Result<(), StorageError> {
    write_temporary(path, content)?;
    replace(path)
}

/// Remove a file; succeed if it does not exist.
pub(crate) fn remove(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StorageError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Read a file that may be missing. `limit` bounds the memory, because these files are small.
pub(crate) fn read_if_there(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StorageError> {
    use std::io::Read;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("open", path)(error)),
    };
    let mut content = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut content)
        .map_err(StorageError::io("read", path))?;
    if content.len() as u64 > limit {
        return Err(StorageError::Corrupt {
            path: path.to_path_buf(),
            reason: format!("more than {limit} bytes"),
        });
    }
    Ok(Some(content))
}

/// Return the entries of a directory, in any order.
pub(crate) fn entries(dir: &Path) -> Result<Vec<fs::DirEntry>, StorageError> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect);
    entries.map_err(StorageError::io("list", dir))
}

/// Like [`entries`]; empty if the directory does not exist.
pub(crate) fn entries_if_there(dir: &Path) -> Result<Vec<fs::DirEntry>, StorageError> {
    match entries(dir) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        found => found,
    }
}

/// Return the names of the directories in `path`, sorted; empty if it does not exist.
pub(crate) fn directories_in(path: &Path) -> Result<Vec<String>, StorageError> {
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut names: Vec<_> = entries_if_there(path)?
        .iter()
        .filter(|entry| is_dir(entry))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    Ok(names)
}
