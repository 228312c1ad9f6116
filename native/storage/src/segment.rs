//! One segment: a stretch of the log in one `.log` file, with its indexes.

use crate::error::StorageError;
use crate::file_names::{self, INDEX, LOG};
use crate::handles::{FileSlot, HandleCache, SegmentFile};
use crate::index::{self, OffsetEntry};
use crate::scan::{Depth, Fault, Scan};
use crate::txn_index::AbortedTransaction;
use parking_lot::{Mutex, RwLock};
use pybroker_model::BatchHeader;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

mod aborted;
mod indexes;
mod places;
mod reading;

use indexes::Indexes;
use places::ReaderPlaces;
pub(crate) use reading::ReadStart;

/// Batches of the tail whose position is remembered, for readers that follow the writer.
const RECENT_BATCHES: usize = 32;
const NOTHING: u64 = u64::MAX;

/// The directory of a log; it moves when the partition is staged for deletion.
pub(crate) type DirPath = Arc<RwLock<PathBuf>>;

/// Segments of one log in order of their base offsets; never empty.
pub(crate) type Segments = Vec<Arc<Segment>>;

/// A relative offset and a file position in one word, so that readers see both of one moment.
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

/// See the module text. Readers need no lock for the tail; index lookups take a short read lock.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    dir: DirPath,
    handles: Arc<HandleCache>,
    log: Arc<FileSlot>,
    index: Arc<FileSlot>,
    /// End of what was written; stored after the bytes are in the file.
    end: AtomicU64,
    /// End of what was synced last.
    flushed: AtomicU64,
    recent: [AtomicU64; RECENT_BATCHES],
    recent_next: AtomicUsize,
    readers: ReaderPlaces,
    indexes: RwLock<Indexes>,
    aborted: Mutex<Option<Vec<AbortedTransaction>>>,
    /// Whether the file's directory entry is durable.
    pub(crate) entry_synced: AtomicBool,
    /// Whether its indexes changed since they were last synced.
    pub(crate) indexes_dirty: AtomicBool,
    /// When this process created or opened it.
    pub(crate) opened_ms: i64,
    /// A reader has met bytes that are no batch: the next start is to check this segment.
    pub(crate) damaged: AtomicBool,
    /// Compaction puts another file in the place of this one: set before that happens, looked at
    /// after a file was opened, so that old positions never meet the new file.
    pub(crate) replaced: AtomicBool,
}

/// A batch found in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) position: u64,
    /// Known unless the place came from memory.
    pub(crate) header: Option<BatchHeader>,
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

    /// A segment whose files start empty: nothing has to be looked up.
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

    pub(crate) fn set_flushed(&self, place: Place) {
        self.flushed.store(place.pack(), Ordering::Release);
    }

    /// The `.log` file, opened if need be; only the writer of the active segment creates it.
    /// A segment that compaction replaced is "not found": its readers look again.
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

    /// Writes a batch to `file`, the `.log` file, past the page cache as far as that can be had.
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

    /// Forgets open files and everything known of the indexes: the files were replaced.
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

    /// The position of `offset` if memory knows it: the end, the flushed end, a recent batch.
    fn remembered(&self, offset: i64) -> Option<u64> {
        let relative = u32::try_from(offset - self.base_offset).ok()?;
        for word in [&self.end, &self.flushed] {
            let place = Place::unpack(word.load(Ordering::Acquire));
            if place.relative_offset == relative {
                return Some(u64::from(place.position));
            }
        }
        self.recent
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .find_map(|word| {
                let place = Place::unpack(word);
                (word != NOTHING && place.relative_offset == relative)
                    .then_some(u64::from(place.position))
            })
    }

    /// The first batch whose last offset is not below `offset`; `None` if there is none. A
    /// batch that starts exactly at `offset` may come without its header.
    pub(crate) fn find(&self, offset: i64) -> Result<Option<Found>, StorageError> {
        let end = self.end();
        if end.position == 0 || offset >= self.base_offset + i64::from(end.relative_offset) {
            return Ok(None);
        }
        if let Some(position) = self.remembered(offset)
            && position < u64::from(end.position)
        {
            return Ok(Some(Found {
                position,
                header: None,
            }));
        }
        self.find_by_index(offset, u64::from(end.position))
    }

    /// The position where everything below `offset` ends: that of the first batch that reaches it.
    pub(crate) fn position_of(&self, offset: i64) -> Result<u64, StorageError> {
        if let Some(position) = self.remembered(offset) {
            return Ok(position);
        }
        let size = self.size();
        if offset >= self.end_offset() {
            return Ok(size);
        }
        Ok(self
            .find_by_index(offset, size)?
            .map_or(size, |found| found.position))
    }

    fn find_by_index(&self, offset: i64, size: u64) -> Result<Option<Found>, StorageError> {
        let relative = (offset - self.base_offset).clamp(0, i64::from(u32::MAX)) as u32;
        let start = self.lookup(relative)?;
        match self.scan_for(offset, start, size) {
            Ok(found) => Ok(found),
            Err(Fault::Damaged { .. })
                if start.is_some() && !self.damaged.load(Ordering::Acquire) =>
            {
                // Not if it is the index of a replacement: `file` answers that.
                self.file(false)?;
                // The index pointed into the middle of a batch: it is made anew. If the log itself is
                // damaged, the way from the front ends there, too, and that is the answer.
                self.rebuild_indexes(4096)?;
                self.scan_for(offset, None, size).map_err(|f| self.fault(f))
            }
            Err(fault) => Err(self.fault(fault)),
        }
    }

    fn lookup(&self, relative: u32) -> Result<Option<OffsetEntry>, StorageError> {
        let in_memory = |indexes: &Indexes| {
            let after = indexes
                .offsets
                .partition_point(|entry| entry.relative_offset <= relative);
            after.checked_sub(1).map(|at| indexes.offsets[at])
        };
        let mut looked_at = {
            let indexes = self.indexes.read();
            if let Some(entry) = in_memory(&indexes) {
                return Ok(Some(entry));
            }
            indexes.on_disk
        };
        if looked_at.is_none() {
            looked_at = Some(self.look_at_files(&mut self.indexes.write())?);
        }
        // The file is read without the lock: the writer must not wait for a slow disk.
        let Some((count, _)) = looked_at.filter(|&(count, _)| count > 0) else {
            return Ok(None);
        };
        let failed = |error| StorageError::io("read", &self.path(INDEX))(error);
        let file = self
            .handles
            .get(&self.index, false, || self.path(INDEX))
            .map_err(failed)?;
        match index::find_offset(&file, count, relative) {
            // Shorter than it was: the index of a replacement (`file` answers that), or a damaged one.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                self.file(false)?;
                self.rebuild_indexes(4096)?;
                Ok(None)
            }
            found => found.map_err(failed),
        }
    }

    fn scan_for(
        &self,
        offset: i64,
        start: Option<OffsetEntry>,
        size: u64,
    ) -> Result<Option<Found>, Fault> {
        let file = self.file(false).map_err(Fault::Storage)?;
        let path = || self.path(LOG);
        let position = start.map_or(0, |entry| u64::from(entry.position));
        if start.is_some() && position >= size {
            let reason = format!("index points to {position}, the file has {size} bytes");
            return Err(Fault::Damaged {
                position,
                reason,
                next: None,
            });
        }
        let mut scan = Scan::new(&file, &path, Depth::Headers, position, size);
        let mut expected = start.map(|entry| self.base_offset + i64::from(entry.relative_offset));
        while let Some((position, header, _)) = scan.next()? {
            if let Some(last) = expected.take()
                && header.last_offset() != last
            {
                let reason = format!(
                    "index names offset {last}, the log has {}",
                    header.last_offset()
                );
                return Err(Fault::Damaged {
                    position,
                    reason,
                    next: None,
                });
            }
            if header.last_offset() >= offset {
                return Ok(Some(Found {
                    position,
                    header: Some(header),
                }));
            }
        }
        Ok(None)
    }

    /// The header of the batch at `position`.
    pub(crate) fn header_at(&self, position: u64) -> Result<BatchHeader, StorageError> {
        let file = self.file(false)?;
        let path = || self.path(LOG);
        let mut scan = Scan::new(&file, &path, Depth::Headers, position, self.size());
        match scan.next() {
            Ok(Some((_, header, _))) => Ok(header),
            Ok(None) => Err(StorageError::Corrupt {
                path: path(),
                reason: format!("ends before {position}"),
            }),
            Err(fault) => Err(self.fault(fault)),
        }
    }

    /// Walks the batches from the one that holds `from` on. `visit` answers whether to go on.
    pub(crate) fn for_each(
        &self,
        depth: Depth,
        from: i64,
        mut visit: impl FnMut(u64, &BatchHeader, &[u8]) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        let size = self.size();
        let Some(found) = (if from <= self.base_offset {
            Some(Found {
                position: 0,
                header: None,
            })
        } else {
            self.find(from)?
        }) else {
            return Ok(());
        };
        if size == 0 {
            return Ok(());
        }
        let file = self.file(false)?;
        let path = || self.path(LOG);
        let mut scan = Scan::new(&file, &path, depth, found.position, size);
        while let Some((position, header, bytes)) = scan.next().map_err(|f| self.fault(f))? {
            if !visit(position, &header, bytes)? {
                break;
            }
        }
        Ok(())
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

    /// Cuts the segment at `position`, where `end_offset` is the next offset.
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
        self.set_flushed(Place {
            relative_offset: 0,
            position: 0,
        });
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

/// Used while a segment is being recovered; nothing else looks at it then.
impl Segment {
    /// Whether the last batch ends where the file does, as far as what follows the last index entry tells. A wrong
    /// index makes the answer no.
    pub(crate) fn ends_whole(&self) -> Result<bool, StorageError> {
        let start = match self.lookup(u32::MAX) {
            Err(StorageError::Corrupt { .. }) => return Ok(false),
            start => start?,
        };
        match self.scan_for(i64::MAX, start, self.size()) {
            Ok(_) => Ok(true),
            Err(Fault::Damaged { .. }) => Ok(false),
            Err(fault) => Err(self.fault(fault)),
        }
    }

    /// Position and base offset of the batch that holds `offset`, checked against the index.
    pub(crate) fn resume_point(&self, offset: i64) -> Result<(u64, i64), StorageError> {
        let size = self.size();
        match self.find_by_index(offset, size)? {
            Some(Found {
                position,
                header: Some(header),
            }) => Ok((position, header.base_offset)),
            _ => Err(StorageError::Corrupt {
                path: self.path(LOG),
                reason: format!("no batch reaches offset {offset}"),
            }),
        }
    }
}
