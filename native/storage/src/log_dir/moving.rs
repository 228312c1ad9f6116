//! Moves of a partition to another log directory (KIP-113). The mover copies the partition's files while clients write
//! and read. At the end it blocks appends, copies the rest and swaps the directories.
//!
//! Each step is durable; after a crash the next start ([`LogDir::scan`]'s caller) finishes or undoes the move:
//!
//! | found | meaning | action at start |
//! |---|---|---|
//! | `name` and `name.{hex}-future` elsewhere | the copy is not finished | remove the copy |
//! | `name` with the file `moved`, `…-future` elsewhere | the copy is complete | rename it, remove `name` |
//! | `name` with `moved`, `name` at the destination | the move is done | remove the old one |
//! | `name` with `moved`, nothing at the destination, online | the copy is gone | remove `moved`, serve `name` |
//! | `name` with `moved`, destination offline | unknown | serve nothing |

use super::LogDir;
use super::partitions::sync_opened;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{
    self, CLEANED, CORRUPT, DELETED, FUTURE_DIR, LOG, MOVED, REMOVED_DIR, SWAP, TEMPORARY,
};
use crate::files;
use crate::log::Log;
use crate::recovery::OpenState;
use pybroker_model::Uuid;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHUNK_BYTES: usize = 1 << 20;
const MOVED_BYTES_MAX: u64 = 16 << 10;
/// Longest name without the suffixes.
const NAME_BYTES_MAX: usize = 200;

/// A running copy of a log. Dropping it removes the copy's directory.
#[derive(Debug)]
pub struct LogCopy {
    source: Arc<Log>,
    target: Arc<LogDir>,
    /// Final name of the directory.
    name: String,
    future: Option<PathBuf>,
    /// Inode and copied bytes of each segment file.
    copied: HashMap<i64, CopyProgress>,
}

#[derive(Debug, Clone, Copy)]
struct CopyProgress {
    inode: u64,
    bytes: u64,
}

impl LogCopy {
    /// Begin a copy of `source` in `target`. `name` is the final name of the copy's directory.
    ///
    /// # Errors
    /// [`StorageError`]; nothing is left behind.
    pub fn begin(
        source: &Arc<Log>,
        target: &Arc<LogDir>,
        name: String,
    ) -> Result<Self, StorageError> {
        target.health.check()?;
        let flat: String = name
            .replace('/', "_")
            .chars()
            .take(NAME_BYTES_MAX)
            .collect();
        let future = target
            .path
            .join(format!("{flat}.{}{FUTURE_DIR}", Uuid::random().to_hex()));
        std::fs::create_dir(&future).map_err(StorageError::io("create", &future))?;
        let copy = Self {
            source: Arc::clone(source),
            target: Arc::clone(target),
            name,
            future: Some(future),
            copied: HashMap::new(),
        };
        // Copy the identity first.
        copy.copy_small(file_names::PARTITION_METADATA)?;
        Ok(copy)
    }

    /// Copy the bytes that were appended to segments since the last pass. Return their number. Appends continue
    /// meanwhile.
    ///
    /// # Errors
    /// [`StorageError`] if the disk fails; [`StorageError::Closed`] if `go_on` returns false. The function calls
    /// `go_on` before each piece, with the number of bytes of the previous piece.
    pub fn pass(&mut self, go_on: &dyn Fn(usize) -> bool) -> Result<u64, StorageError> {
        let segments = self.source.segments.load_full();
        let mut bytes = 0;
        for segment in segments.iter() {
            bytes += self.copy_segment(segment.base_offset, segment.size(), go_on)?;
        }
        Ok(bytes)
    }

    fn future(&self) -> Result<&Path, StorageError> {
        self.future.as_deref().ok_or_else(|| StorageError::Closed {
            path: self.source.directory(),
        })
    }

    fn copy_segment(
        &mut self,
        base_offset: i64,
        size: u64,
        go_on: &dyn Fn(usize) -> bool,
    ) -> Result<u64, StorageError> {
        let from = file_names::of_segment(&self.source.directory(), base_offset, LOG);
        let to = file_names::of_segment(self.future()?, base_offset, LOG);
        let mut file = match File::open(&from) {
            Ok(file) => file,
            // Retention removed the file, or the segment has no records yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(StorageError::io("open", &from)(error)),
        };
        let inode = file
            .metadata()
            .map_err(StorageError::io("look at", &from))?
            .ino();
        // Continue a copy only if the source is the same file. Compaction replaces the file, and a truncation shortens
        // it.
        let begun = self
            .copied
            .get(&base_offset)
            .filter(|one| one.inode == inode && one.bytes <= size)
            .map_or(0, |one| one.bytes);
        if begun == size && begun > 0 {
            return Ok(0);
        }
        let mut out = File::options()
            .write(true)
            .create(true)
            .truncate(begun == 0)
            .open(&to)
            .map_err(StorageError::io("create", &to))?;
        file.seek(SeekFrom::Start(begun))
            .map_err(StorageError::io("read", &from))?;
        out.seek(SeekFrom::Start(begun))
            .map_err(StorageError::io("write", &to))?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut at, mut got) = (begun, 0);
        while at < size {
            if !go_on(got) {
                return Err(StorageError::Closed { path: from });
            }
            let want = usize::try_from(size - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            got = file
                .read(&mut buffer[..want])
                .map_err(StorageError::io("read", &from))?;
            if got == 0 {
                break;
            }
            out.write_all(&buffer[..got])
                .map_err(StorageError::io("write", &to))?;
            at += got as u64;
        }
        self.copied
            .insert(base_offset, CopyProgress { inode, bytes: at });
        Ok(at - begun)
    }

    fn copy_small(&self, name: &str) -> Result<(), StorageError> {
        let (from, to) = (
            self.source.directory().join(name),
            self.future()?.join(name),
        );
        match std::fs::copy(&from, &to) {
            Ok(_) => Ok(()),
            // The index may have been removed with its segment.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StorageError::io("copy", &from)(error)),
        }
    }

    /// Run the last pass and swap the directories; return the log at its new place. The caller blocks appends
    /// meanwhile. The source stays unchanged and is marked as moved.
    ///
    /// # Errors
    /// [`StorageError`]; the source stays in use.
    pub fn finish(mut self, config: Arc<LogConfig>, now_ms: i64) -> Result<Arc<Log>, StorageError> {
        let source = Arc::clone(&self.source);
        // Block retention and compaction until the directories are swapped.
        let _maintenance = source.maintenance.lock();
        source.flush()?;
        source.prepare_checkpoint()?;
        self.pass(&|_| true)?;
        let from = source.directory();
        let future = self.future()?.to_path_buf();
        let live: Vec<i64> = source
            .segments
            .load()
            .iter()
            .map(|segment| segment.base_offset)
            .collect();
        for base_offset in self.copied.keys().filter(|base| !live.contains(base)) {
            files::remove(&file_names::of_segment(&future, *base_offset, LOG))?;
        }
        for entry in files::entries(&from)? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let passing = [LOG, DELETED, CLEANED, SWAP, TEMPORARY, CORRUPT];
            if entry.file_type().is_ok_and(|kind| kind.is_file())
                && name != MOVED
                && !passing.iter().any(|suffix| name.ends_with(suffix))
            {
                self.copy_small(&name)?;
            }
        }
        self.sync_copy(&future)?;
        let state = OpenState {
            recovery_point: Some(source.log_end_offset()),
            log_start_offset: Some(source.log_start_offset()),
            cleaned_to: Some(source.cleaned_to()),
            clean: None,
        };
        // Open the log before the source is marked as moved, so that an error can still stop the move.
        let (log, _) = Log::open(
            future.clone(),
            source.topic(),
            source.id(),
            config,
            &state,
            &self.target.health,
            &self.target.handles,
            &self.target.producers,
            self.target.flusher.journaling_of_logs(),
            now_ms,
        )?;
        let to = self.target.path.join(&self.name);
        let note = format!("version: 0\nto: {}\n", to.display());
        files::write_atomically(&from.join(MOVED), note.as_bytes())?;
        if let Err(error) = self.target.rename_into_place(&future, &self.name) {
            files::remove(&from.join(MOVED))?;
            files::sync_dir(&from)?;
            return Err(error);
        }
        // The copy is now the log of the partition, even if a later step fails.
        self.future = None;
        *log.dir.write() = to;
        Ok(log)
    }

    fn sync_copy(&self, future: &Path) -> Result<(), StorageError> {
        for entry in files::entries(future)? {
            let path = entry.path();
            File::open(&path)
                .and_then(|file| files::sync_data(&file))
                .map_err(StorageError::io("sync", &path))?;
        }
        files::sync_dir(future)
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            // If the removal fails, the next start removes the remainder.
            drop(std::fs::remove_dir_all(future));
        }
    }
}

impl LogDir {
    /// Rename a complete copy to its final name, durably.
    ///
    /// # Errors
    /// [`StorageError`] if the name is taken, or the disk failed.
    pub fn rename_into_place(&self, future: &Path, name: &str) -> Result<(), StorageError> {
        let to = self.path.join(name);
        if to.exists() {
            return Err(StorageError::Exists { path: to });
        }
        if let Some(parent) = to.parent().filter(|parent| *parent != self.path) {
            std::fs::create_dir_all(parent).map_err(StorageError::io("create", parent))?;
            files::sync_dir(&self.path)?;
        }
        std::fs::rename(future, &to).map_err(StorageError::io("rename", future))?;
        files::sync_dir(to.parent().unwrap_or(&self.path))?;
        sync_opened(&self.root, &self.path)
    }

    /// Rename the directory of a moved log, so that no start takes it for a partition; return its new path for
    /// [`LogDir::remove_moved`]. Readers in progress continue.
    ///
    /// # Errors
    /// [`StorageError`]; the next start retries.
    pub fn retire_moved(&self, log: &Log) -> Result<PathBuf, StorageError> {
        log.close(false)?;
        self.flusher.journaling().retire(&[log])?;
        let from = log.directory();
        let to = self.retire_directory(&from)?;
        *log.dir.write() = to.clone();
        Ok(to)
    }

    /// Like [`LogDir::retire_moved`], for a directory that is not open.
    ///
    /// # Errors
    /// As [`LogDir::retire_moved`].
    pub fn retire_directory(&self, from: &Path) -> Result<PathBuf, StorageError> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let flat: String = name.chars().take(NAME_BYTES_MAX).collect();
        let to = self
            .path
            .join(format!("{flat}.{}{REMOVED_DIR}", Uuid::random().to_hex()));
        std::fs::rename(from, &to).map_err(StorageError::io("rename", from))?;
        sync_opened(&self.root, &self.path)?;
        Ok(to)
    }

    /// Remove a moved directory or an unfinished copy.
    ///
    /// # Errors
    /// [`StorageError`], also for any other path.
    pub fn remove_moved(&self, path: &Path) -> Result<(), StorageError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ours = path.parent() == Some(&self.path)
            && (name.ends_with(FUTURE_DIR)
                || name.ends_with(REMOVED_DIR) && path.join(MOVED).exists());
        if !ours {
            return Err(StorageError::Corrupt {
                path: path.to_path_buf(),
                reason: "neither a copy nor a moved original".into(),
            });
        }
        std::fs::remove_dir_all(path).map_err(StorageError::io("remove", path))
    }

    /// Return the path that the partition in `directory` has moved to, if it has.
    ///
    /// # Errors
    /// [`StorageError`] if the note cannot be read.
    pub fn moved_to(&self, directory: &str) -> Result<Option<PathBuf>, StorageError> {
        let path = self.path.join(directory).join(MOVED);
        let Some(content) = files::read_if_there(&path, MOVED_BYTES_MAX)? else {
            return Ok(None);
        };
        let text = String::from_utf8(content).unwrap_or_default();
        match text.lines().find_map(|line| line.strip_prefix("to: ")) {
            Some(to) => Ok(Some(PathBuf::from(to))),
            None => Err(StorageError::Corrupt {
                path,
                reason: "no line `to:`".into(),
            }),
        }
    }

    /// Undo a move that did not take place: `directory` is the partition again.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn forget_move(&self, directory: &str) -> Result<(), StorageError> {
        let path = self.path.join(directory);
        files::remove(&path.join(MOVED))?;
        files::sync_dir(&path)
    }
}
