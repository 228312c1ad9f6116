//! The directory and file operations that the log uses. The simulator implements them on a simulated disk.
//!
//! Assumptions: after a sync of a file its bytes and size survive a power loss; after a sync of the directory the names
//! of its files survive it; a rename is atomic.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory.
pub trait Files: Clone + Debug {
    /// An open file.
    type File: FileHandle + Debug;
    /// A sync of the directory that has begun.
    type NamesSync: Debug;

    /// Return the names in the directory, in any order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Open a file that exists.
    ///
    /// # Errors
    /// As [`File::open`].
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Create an empty file, or empty an existing one.
    ///
    /// # Errors
    /// As [`File::create`].
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Rename a file. Replaces an existing file `to`.
    ///
    /// # Errors
    /// As [`fs::rename`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Remove a file; succeed if it does not exist.
    ///
    /// # Errors
    /// As [`fs::remove_file`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Begin a sync of the directory's names. It covers all changes before this call.
    fn begin_names_sync(&self) -> Self::NamesSync;

    /// Complete a sync of the names.
    ///
    /// # Errors
    /// If the disk fails.
    fn end_names_sync(&self, sync: &Self::NamesSync) -> io::Result<()>;

    /// Make the names durable.
    ///
    /// # Errors
    /// If the disk fails.
    fn sync_names(&self) -> io::Result<()> {
        self.end_names_sync(&self.begin_names_sync())
    }

    /// Return the path of a file, for messages.
    fn path_of(&self, name: &str) -> String;
}

/// An open file.
pub trait FileHandle {
    /// A sync that has begun.
    type Sync: Debug;

    /// Return the size.
    ///
    /// # Errors
    /// If the disk fails.
    fn size(&self) -> io::Result<u64>;

    /// Read into `buffer` from `position` on, until the buffer is full or the file ends. Return the number of bytes.
    ///
    /// # Errors
    /// If the disk fails.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Write all of `bytes` at `position`.
    ///
    /// # Errors
    /// If the disk fails or is full.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// Truncate the file to `size` bytes.
    ///
    /// # Errors
    /// If the disk fails.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Begin a sync. It covers all writes before this call.
    fn begin_sync(&self) -> Self::Sync;

    /// Complete a sync.
    ///
    /// # Errors
    /// If the disk fails. The content of the disk is then unknown.
    fn end_sync(sync: &Self::Sync) -> io::Result<()>;

    /// Make bytes and size durable.
    ///
    /// # Errors
    /// As [`FileHandle::end_sync`].
    fn sync(&self) -> io::Result<()> {
        Self::end_sync(&self.begin_sync())
    }
}

/// A directory of the operating system.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    file: Arc<File>,
}

impl Directory {
    /// Open the directory; create it if it does not exist.
    ///
    /// # Errors
    /// As [`fs::create_dir_all`].
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            fs::create_dir_all(path)?;
            if let Some(parent) = path.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(File::open(path)?),
        })
    }
}

impl Files for Directory {
    type File = Arc<File>;
    type NamesSync = Arc<File>;

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn open(&self, name: &str) -> io::Result<Arc<File>> {
        let mut options = File::options();
        options.read(true).write(true);
        options.open(self.path.join(name)).map(Arc::new)
    }

    fn create(&self, name: &str) -> io::Result<Arc<File>> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.open(self.path.join(name)).map(Arc::new)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn begin_names_sync(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    fn end_names_sync(&self, sync: &Arc<File>) -> io::Result<()> {
        sync.sync_all()
    }

    fn path_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl FileHandle for Arc<File> {
    type Sync = Arc<File>;

    fn size(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match FileExt::read_at(&**self, &mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(bytes, position)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn begin_sync(&self) -> Arc<File> {
        Arc::clone(self)
    }

    fn end_sync(sync: &Arc<File>) -> io::Result<()> {
        // `sync_data` also flushes the file's size; on macOS std issues F_FULLFSYNC.
        sync.sync_data()
    }
}
