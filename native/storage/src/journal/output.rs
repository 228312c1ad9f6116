//! One file of the journal, as it is written: past the page cache, and on disk when the call returns (O_DIRECT and
//! O_DSYNC); where that cannot be had through the cache, and synced then.
//!
//! Past the cache most groups cost less CPU and time, and none costs clearly more: benches/journal.md.

use super::format::BLOCK_BYTES;
use crate::error::StorageError;
use crate::files;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    cached: File,
    /// `None`: the system or the file system does not know it.
    direct: Option<File>,
}

impl Output {
    /// Makes the file, empty.
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

    /// Makes blocks of zeros, so many bytes from `position` on.
    pub(super) fn fill(&self, bytes: usize, position: u64) -> Result<(), StorageError> {
        self.cached
            .write_all_at(&vec![0; bytes], position)
            .map_err(StorageError::io("write", &self.path))?;
        if self.direct.is_some() {
            // What goes past the cache is not to meet zeros that are still in it: the kernel would write those first.
            files::sync_data(&self.cached).map_err(|error| self.unsynced(error))?;
        }
        Ok(())
    }

    /// Writes whole blocks at `position`, where blocks exist; on disk when it returns.
    ///
    /// # Errors
    /// [`StorageError::Full`]: the disk has no room for it. All others are final.
    pub(super) fn write(&mut self, blocks: &[u8], position: u64) -> Result<(), StorageError> {
        let aligned = blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
        if let Some(direct) = self.direct.as_ref().filter(|_| aligned) {
            match direct.write_all_at(blocks, position) {
                Ok(()) => return Ok(()),
                // It was opened so, and cannot be written so: blocks larger than ours.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                // No room, which a limit or a file system that writes elsewhere finds for blocks that exist as well, is
                // told as such.
                Err(error) => return Err(StorageError::io("sync", &self.path)(error)),
            }
        }
        self.cached
            .write_all_at(blocks, position)
            .map_err(StorageError::io("write", &self.path))?;
        files::sync_data(&self.cached).map_err(|error| self.unsynced(error))
    }

    /// Whatever the reason, nobody knows what is on disk.
    fn unsynced(&self, error: io::Error) -> StorageError {
        StorageError::Io {
            operation: "sync",
            path: self.path.clone(),
            source: error.into(),
        }
    }

    /// Writes go to another file from now on.
    #[cfg(test)]
    pub(super) fn replace(&mut self, file: File) {
        (self.cached, self.direct) = (file, None);
    }

    /// As on a file system that does not know how to write past the cache.
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
