//! A segment: a part of the log in one `.log` file, with its indexes.

use crate::error::StorageError;
use crate::file_names::{self, LOG};
use crate::handles::{FileSlot, HandleCache, SegmentFile};
use crate::scan::Fault;
use crate::txn_index::AbortedTransaction;
use parking_lot::{Mutex, RwLock};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

mod aborted;
mod finding;
mod indexes;
mod places;
mod reading;
mod unflushed_tail;

use indexes::Indexes;
use places::ReaderPlaces;
pub(crate) use reading::ReadStart;
use unflushed_tail::UnflushedTail;

/// Recent batches whose position is remembered, for readers that follow the writer.
const RECENT_BATCHES: usize = 32;
const NOTHING: u64 = u64::MAX;

/// The directory of a log; it changes when the partition is staged for deletion.
pub(crate) type DirPath = Arc<RwLock<PathBuf>>;

/// Segments of a log, ascending by base offset; never empty.
pub(crate) type Segments = Vec<Arc<Segment>>;

/// A relative offset and a file position in one word, so that readers always see a matching pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) relative_offset: u32,
    pub(crate) position: u32,
}

impl Place {
    const fn pack(self) -> u64 {
        (self.relative_offset as u64) << 32 | self.position as u64
    }

    const fn unpack(word: u64) -> Self {
        Self {
            relative_offset: (word >> 32) as u32,
            position: word as u32,
        }
    }
}

/// A segment of a log. Reads of the latest records take no lock; index lookups take a read lock for a short time.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    dir: DirPath,
    handles: Arc<HandleCache>,
    log: Arc<FileSlot>,
    index: Arc<FileSlot>,
    /// End of the written bytes. It is raised after the bytes are in the file.
    end: AtomicU64,
    /// End of the bytes that are on disk, in this file or in the journal.
    flushed: AtomicU64,
    unflushed_tail: Mutex<UnflushedTail>,
    recent: [AtomicU64; RECENT_BATCHES],
    recent_next: AtomicUsize,
    readers: ReaderPlaces,
    indexes: RwLock<Indexes>,
    aborted: Mutex<Option<Vec<AbortedTransaction>>>,
    /// Whether the file's directory entry is durable.
    pub(crate) entry_synced: AtomicBool,
    /// Whether its indexes changed since the last sync.
    pub(crate) indexes_dirty: AtomicBool,
    /// Time when this process created or opened it.
    pub(crate) opened_ms: i64,
    /// Whether a reader found an invalid batch. The next start must then check this segment.
    pub(crate) damaged: AtomicBool,
    /// Whether compaction replaces this file. Compaction sets this before the replacement, and readers check it after
    /// they open the file, so that old positions never apply to the new file.
    pub(crate) replaced: AtomicBool,
}

impl Segment {
    pub(crate) fn new(
        base_offset: i64,
        dir: &DirPath,
        handles: &Arc<HandleCache>,
        now_ms: i64,
    ) -> Self {
        Self {
            base_offset,
            dir: Arc::clone(dir),
            handles: Arc::clone(handles),
            log: Arc::default(),
            index: Arc::default(),
            end: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            unflushed_tail: Mutex::default(),
            recent: [const { AtomicU64::new(NOTHING) }; RECENT_BATCHES],
            recent_next: AtomicUsize::new(0),
            readers: ReaderPlaces::default(),
            indexes: RwLock::default(),
            aborted: Mutex::new(None),
            entry_synced: AtomicBool::new(false),
            indexes_dirty: AtomicBool::new(false),
            opened_ms: now_ms,
            damaged: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
        }
    }

    /// Return a segment whose files are new and empty, so that nothing needs to be read from them.
    pub(crate) fn fresh(
        base_offset: i64,
        dir: &DirPath,
        handles: &Arc<HandleCache>,
        now_ms: i64,
    ) -> Self {
        let segment = Self::new(base_offset, dir, handles, now_ms);
        segment.indexes.write().on_disk = Some((0, 0));
        *segment.aborted.lock() = Some(Vec::new());
        segment
    }

    pub(crate) fn path(&self, suffix: &str) -> PathBuf {
        file_names::of_segment(&self.dir.read(), self.base_offset, suffix)
    }

    pub(crate) fn end(&self) -> Place {
        Place::unpack(self.end.load(Ordering::Acquire))
    }

    pub(crate) fn size(&self) -> u64 {
        u64::from(self.end().position)
    }

    pub(crate) fn end_offset(&self) -> i64 {
        self.base_offset + i64::from(self.end().relative_offset)
    }

    pub(crate) fn set_end(&self, end_offset: i64, size: u64) {
        let place = Place {
            relative_offset: (end_offset - self.base_offset) as u32,
            position: size as u32,
        };
        self.end.store(place.pack(), Ordering::Release);
    }

    /// Raise the flushed end. Only a truncation lowers it.
    pub(crate) fn set_flushed(&self, place: Place) {
        self.flushed.fetch_max(place.pack(), Ordering::AcqRel);
        self.forget_flushed(place.position.into());
    }

    pub(crate) fn flushed(&self) -> Place {
        Place::unpack(self.flushed.load(Ordering::Acquire))
    }

    /// Return the `.log` file, opened if necessary. Only the writer of the active segment may create it. For a segment
    /// that compaction replaced, return "not found", so that readers look up the offset again.
    pub(crate) fn file(&self, create: bool) -> Result<Arc<SegmentFile>, StorageError> {
        let failed = |error| StorageError::io("open", &self.path(LOG))(error);
        let file = self
            .handles
            .get(&self.log, create, || self.path(LOG))
            .map_err(failed)?;
        if self.replaced.load(Ordering::Acquire) {
            return Err(failed(std::io::ErrorKind::NotFound.into()));
        }
        Ok(file)
    }

    /// Write a batch to `file`, the `.log` file, bypassing the page cache where possible.
    pub(crate) fn write_directly(
        &self,
        file: &File,
        batch: &[u8],
        position: u64,
    ) -> std::io::Result<()> {
        self.handles
            .direct
            .write_batch_at(file, || self.path(LOG), batch, position)
    }

    pub(crate) fn set_dirty(&self, dirty: bool) {
        self.log.dirty.store(dirty, Ordering::Release);
    }

    /// Drop open files and all cached index state, because the files were replaced.
    pub(crate) fn forget(&self) {
        self.log.close();
        self.index.close();
        for place in &self.recent {
            place.store(NOTHING, Ordering::Relaxed);
        }
        self.readers.forget();
        *self.indexes.write() = Indexes::default();
        *self.aborted.lock() = None;
    }

    pub(crate) fn fault(&self, fault: Fault) -> StorageError {
        match fault {
            Fault::Storage(error) => error,
            Fault::Damaged {
                position, reason, ..
            } => StorageError::Corrupt {
                path: self.path(LOG),
                reason: format!("at position {position}: {reason}"),
            },
        }
    }

    /// Truncate the segment at `position`. `end_offset` is the log end after that.
    pub(crate) fn truncate(
        &self,
        position: u64,
        end_offset: i64,
        interval: u32,
    ) -> Result<(), StorageError> {
        if position < self.size() || position == 0 {
            let path = self.path(LOG);
            let file = self.file(true)?;
            file.file()
                .set_len(position)
                .map_err(StorageError::io("truncate", &path))?;
        }
        self.set_end(end_offset, position);
        self.flushed.store(0, Ordering::Release);
        for place in &self.recent {
            place.store(NOTHING, Ordering::Relaxed);
        }
        self.readers.forget();
        self.rebuild_indexes(interval)?;
        let kept = self.aborted().unwrap_or_default();
        let before = kept.len();
        let kept: Vec<_> = kept
            .into_iter()
            .filter(|t| t.last_offset < end_offset)
            .collect();
        if kept.len() != before {
            self.set_aborted(kept)?;
        }
        Ok(())
    }
}
