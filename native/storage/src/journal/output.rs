//! One file of the journal for writing. Writes bypass the page cache and are on disk when the call returns (O_DIRECT
//! and O_DSYNC). If the system does not support that, writes go through the cache and are synced.
//!
//! Direct writes cost less CPU and time for most groups, and never much more (see benches/journal.md).

use super::format::BLOCK_BYTES;
use crate::error::StorageError;
use crate::files;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A journal file open for writing.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    cached: File,
    /// `None` if the system or the file system does not support direct writes.
    direct: Option<File>,
}

impl Output {
    /// Create an empty file.
    pub(super) fn create(path: PathBuf) -> Result<Self, StorageError> {
        let cached = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(StorageError::io("create", &path))?;
        Ok(Self {
            direct: open_direct(&path),
            path,
            cached,
        })
    }

    /// Write `bytes` zeros from `position`, to allocate blocks.
    pub(super) fn fill(&self, bytes: usize, position: u64) -> Result<(), StorageError> {
        self.cached
            .write_all_at(&vec![0; bytes], position)
            .map_err(StorageError::io("write", &self.path))?;
        if self.direct.is_some() {
            // Sync the zeros first: a direct write would have to wait until the kernel has written the cached zeros.
            files::sync_data(&self.cached).map_err(|error| self.unsynced(error))?;
        }
        Ok(())
    }

    /// Write whole blocks at `position`, where blocks are already allocated; on disk on return.
    ///
    /// # Errors
    /// [`StorageError::Full`]: the disk has no space. All other errors are final.
    pub(super) fn write(&mut self, blocks: &[u8], position: u64) -> Result<(), StorageError> {
        let aligned = blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
        if let Some(direct) = self.direct.as_ref().filter(|_| aligned) {
            match direct.write_all_at(blocks, position) {
                Ok(()) => return Ok(()),
                // Opening the file for direct writes succeeded but writing fails, because the disk's blocks are larger
                // than [`BLOCK_BYTES`].
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                // A size limit or a copy-on-write file system may report a full disk even for existing blocks.
                Err(error) => return Err(StorageError::io("sync", &self.path)(error)),
            }
        }
        self.cached
            .write_all_at(blocks, position)
            .map_err(StorageError::io("write", &self.path))?;
        files::sync_data(&self.cached).map_err(|error| self.unsynced(error))
    }

    /// Return the error of a failed write or sync as final: the state on disk is unknown for any cause.
    fn unsynced(&self, error: io::Error) -> StorageError {
        StorageError::Io {
            operation: "sync",
            path: self.path.clone(),
            source: error.into(),
        }
    }

    /// Redirect writes to another file.
    #[cfg(test)]
    pub(super) fn replace(&mut self, file: File) {
        (self.cached, self.direct) = (file, None);
    }

    /// Write as on a file system without support for direct writes.
    #[cfg(test)]
    pub(super) fn use_cache(&mut self) {
        self.direct = None;
    }
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = (OFlags::DIRECT | OFlags::DSYNC).bits() as i32;
    File::options()
        .write(true)
        .custom_flags(flags)
        .open(path)
        .ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}
