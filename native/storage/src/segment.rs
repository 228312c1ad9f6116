//! One segment: a stretch of the log in one `.log` file, with its indexes.

use crate::error::StorageError;
use crate::file_names::{self, INDEX, LOG, TIME_INDEX, TXN_INDEX};
use crate::files;
use crate::handles::{FileSlot, HandleCache, SegmentFile};
use crate::index::{self, OFFSET_ENTRY_BYTES, OffsetEntry, TIME_ENTRY_BYTES, TimeEntry};
use crate::scan::{Depth, Fault, Scan};
use crate::txn_index::{self, AbortedTransaction};
use parking_lot::{Mutex, RwLock};
use pybroker_model::{BatchHeader, NO_TIMESTAMP};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Batches of the tail whose position is remembered, for readers that follow the writer.
const RECENT_BATCHES: usize = 32;
const NOTHING: u64 = u64::MAX;
/// Index entries held in memory before they are written out: 16 MB of log.
const INDEX_TAIL_ENTRIES_MAX: usize = 4096;
const TXN_INDEX_BYTES_MAX: u64 = 1 << 30;

/// The directory of a log; it moves when the partition is staged for deletion.
pub(crate) type DirPath = Arc<RwLock<PathBuf>>;

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

/// What is known of the indexes.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    /// Entries in the files; `None` until looked at.
    on_disk: Option<(u64, u64)>,
    /// Entries after those.
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    /// The last time entry, wherever it is.
    last_time: Option<TimeEntry>,
    /// Largest timestamp and the last offset (relative) of its batch; `None` until looked at.
    largest: Option<TimeEntry>,
    /// Timestamp of the first batch; `None` until looked at.
    first_timestamp: Option<i64>,
    pub(crate) bytes_since_entry: u64,
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
    indexes: RwLock<Indexes>,
    aborted: Mutex<Option<Vec<AbortedTransaction>>>,
    /// Whether the file's directory entry is durable.
    pub(crate) entry_synced: AtomicBool,
    /// Whether its indexes changed since they were last synced.
    pub(crate) indexes_dirty: AtomicBool,
    /// When this process created or opened it.
    pub(crate) opened_ms: i64,
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
            indexes: RwLock::default(),
            aborted: Mutex::new(None),
            entry_synced: AtomicBool::new(false),
            indexes_dirty: AtomicBool::new(false),
            opened_ms: now_ms,
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
        *self.indexes.write() = Indexes::default();
        *self.aborted.lock() = None;
    }

    /// Takes note of a batch just written at `position`; publishes nothing.
    pub(crate) fn note_batch(
        &self,
        header: &BatchHeader,
        position: u64,
        index_interval_bytes: u32,
    ) -> Result<(), StorageError> {
        let mut indexes = self.indexes.write();
        let last = (header.last_offset() - self.base_offset) as u32;
        if indexes.largest.is_none() && position > 0 {
            drop(indexes);
            self.largest_timestamp()?;
            indexes = self.indexes.write();
        }
        let batch = TimeEntry {
            timestamp: header.max_timestamp,
            relative_offset: last,
        };
        if indexes
            .largest
            .is_none_or(|largest| largest.timestamp < batch.timestamp)
        {
            indexes.largest = Some(batch);
        }
        if position == 0 {
            indexes.first_timestamp = Some(header.max_timestamp);
        }
        if indexes.bytes_since_entry > u64::from(index_interval_bytes) {
            indexes.offsets.push(OffsetEntry {
                relative_offset: last,
                position: position as u32,
            });
            push_time(&mut indexes);
            indexes.bytes_since_entry = 0;
            if indexes.offsets.len() >= INDEX_TAIL_ENTRIES_MAX {
                self.write_out(&mut indexes)?;
            }
        }
        indexes.bytes_since_entry += header.size_in_bytes() as u64;
        let place = Place {
            relative_offset: (header.base_offset - self.base_offset) as u32,
            position: position as u32,
        };
        let slot = self.recent_next.fetch_add(1, Ordering::Relaxed) % RECENT_BATCHES;
        self.recent[slot].store(place.pack(), Ordering::Relaxed);
        Ok(())
    }

    /// Bytes the index files would have if written out now: (offset, time).
    pub(crate) fn index_bytes(&self) -> Result<(u64, u64), StorageError> {
        let mut indexes = self.indexes.write();
        let (offsets, times) = self.look_at_files(&mut indexes)?;
        Ok((
            (offsets + indexes.offsets.len() as u64) * OFFSET_ENTRY_BYTES,
            (times + indexes.times.len() as u64) * TIME_ENTRY_BYTES,
        ))
    }

    /// Entries in the files, looked up once. A file that cannot be right is rebuilt.
    fn look_at_files(&self, indexes: &mut Indexes) -> Result<(u64, u64), StorageError> {
        if let Some(counts) = indexes.on_disk {
            return Ok(counts);
        }
        let size = |suffix| match std::fs::metadata(self.path(suffix)) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io("look at", &self.path(suffix))(error)),
        };
        let (offset_bytes, time_bytes) =
            (size(INDEX)?.unwrap_or(0), size(TIME_INDEX)?.unwrap_or(0));
        let counts = (
            offset_bytes / OFFSET_ENTRY_BYTES,
            time_bytes / TIME_ENTRY_BYTES,
        );
        let whole = offset_bytes % OFFSET_ENTRY_BYTES == 0 && time_bytes % TIME_ENTRY_BYTES == 0;
        if whole && self.last_entries_fit(counts, indexes)? {
            indexes.on_disk = Some(counts);
            return Ok(counts);
        }
        self.rebuild_locked(indexes, 4096)
    }

    fn last_entries_fit(
        &self,
        counts: (u64, u64),
        indexes: &mut Indexes,
    ) -> Result<bool, StorageError> {
        let end = self.end();
        if let Some(at) = counts.0.checked_sub(1) {
            let path = self.path(INDEX);
            let file = std::fs::File::open(&path).map_err(StorageError::io("open", &path))?;
            let last = index::read_offset(&file, at).map_err(StorageError::io("read", &path))?;
            if last.relative_offset >= end.relative_offset || last.position >= end.position {
                return Ok(false);
            }
        }
        if let Some(at) = counts.1.checked_sub(1) {
            let path = self.path(TIME_INDEX);
            let file = std::fs::File::open(&path).map_err(StorageError::io("open", &path))?;
            let last = index::read_time(&file, at).map_err(StorageError::io("read", &path))?;
            if last.relative_offset >= end.relative_offset {
                return Ok(false);
            }
            indexes.last_time = Some(last);
        }
        Ok(true)
    }

    /// Discards the index files and makes them anew from the log.
    pub(crate) fn rebuild_indexes(&self, index_interval_bytes: u32) -> Result<(), StorageError> {
        let mut indexes = self.indexes.write();
        self.rebuild_locked(&mut indexes, index_interval_bytes)
            .map(|_| ())
    }

    fn rebuild_locked(
        &self,
        indexes: &mut Indexes,
        interval: u32,
    ) -> Result<(u64, u64), StorageError> {
        // Emptied rather than removed: making 10,000 files anew costs seconds on some filesystems.
        for suffix in [INDEX, TIME_INDEX] {
            let path = self.path(suffix);
            match std::fs::OpenOptions::new().write(true).open(&path) {
                Ok(file) => file
                    .set_len(0)
                    .map_err(StorageError::io("truncate", &path))?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(StorageError::io("open", &path)(error)),
            }
        }
        *indexes = Indexes {
            on_disk: Some((0, 0)),
            ..Indexes::default()
        };
        self.indexes_dirty.store(true, Ordering::Release);
        if self.size() == 0 {
            return Ok((0, 0));
        }
        let file = self.file(false)?;
        let path = || self.path(LOG);
        let mut scan = Scan::new(&file, &path, Depth::Headers, 0, self.size());
        while let Some((position, header, _)) = scan.next().map_err(|f| self.fault(f))? {
            self.index_batch(indexes, &header, position, interval);
        }
        self.write_out(indexes)?;
        Ok(indexes.on_disk.unwrap_or_default())
    }

    /// As [`Segment::note_batch`], for a batch met while rebuilding.
    fn index_batch(
        &self,
        indexes: &mut Indexes,
        header: &BatchHeader,
        position: u64,
        interval: u32,
    ) {
        let last = (header.last_offset() - self.base_offset) as u32;
        let batch = TimeEntry {
            timestamp: header.max_timestamp,
            relative_offset: last,
        };
        if indexes
            .largest
            .is_none_or(|largest| largest.timestamp < batch.timestamp)
        {
            indexes.largest = Some(batch);
        }
        if position == 0 {
            indexes.first_timestamp = Some(header.max_timestamp);
        }
        if indexes.bytes_since_entry > u64::from(interval) {
            indexes.offsets.push(OffsetEntry {
                relative_offset: last,
                position: position as u32,
            });
            push_time(indexes);
            indexes.bytes_since_entry = 0;
        }
        indexes.bytes_since_entry += header.size_in_bytes() as u64;
    }

    /// Appends what is in memory to the index files, without syncing.
    fn write_out(&self, indexes: &mut Indexes) -> Result<(), StorageError> {
        let (offsets, times) = self.look_at_files(indexes)?;
        if !indexes.offsets.is_empty() {
            let bytes: Vec<u8> = indexes.offsets.iter().flat_map(|e| e.to_bytes()).collect();
            self.write_index(INDEX, offsets * OFFSET_ENTRY_BYTES, &bytes)?;
        }
        if !indexes.times.is_empty() {
            let bytes: Vec<u8> = indexes.times.iter().flat_map(|e| e.to_bytes()).collect();
            self.write_index(TIME_INDEX, times * TIME_ENTRY_BYTES, &bytes)?;
        }
        indexes.on_disk = Some((
            offsets + indexes.offsets.len() as u64,
            times + indexes.times.len() as u64,
        ));
        indexes.offsets.clear();
        indexes.times.clear();
        self.indexes_dirty.store(true, Ordering::Release);
        Ok(())
    }

    fn write_index(&self, suffix: &str, position: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let path = self.path(suffix);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StorageError::io("open", &path))?;
        file.write_all_at(bytes, position)
            .map_err(StorageError::io("write", &path))
    }

    /// Brings the index files up to date; with `sealing` also notes the largest timestamp as the
    /// last time entry and makes sure that both files exist, as Kafka's tools expect.
    pub(crate) fn persist_indexes(&self, sealing: bool) -> Result<(), StorageError> {
        if self.size() == 0 {
            return Ok(());
        }
        if sealing {
            self.largest_timestamp()?;
        }
        let mut indexes = self.indexes.write();
        self.look_at_files(&mut indexes)?;
        if sealing {
            push_time(&mut indexes);
        }
        self.write_out(&mut indexes)?;
        if sealing && indexes.on_disk.is_some_and(|(offsets, _)| offsets == 0) {
            self.write_index(INDEX, 0, &[])?;
        }
        Ok(())
    }

    /// Syncs the index files if they changed.
    pub(crate) fn sync_indexes(&self) -> Result<(), StorageError> {
        if !self.indexes_dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        for suffix in [INDEX, TIME_INDEX, TXN_INDEX] {
            let path = self.path(suffix);
            match std::fs::File::open(&path) {
                Ok(file) => files::sync_data(&file).map_err(StorageError::io("sync", &path))?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(StorageError::io("open", &path)(error)),
            }
        }
        Ok(())
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
            Err(Fault::Damaged { .. }) if start.is_some() => {
                // Not if it is the index of a replacement: `file` answers that.
                self.file(false)?;
                // The index pointed into the middle of a batch: make it anew, start at the front.
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
        index::find_offset(&file, count, relative).map_err(failed)
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

    /// The largest timestamp and the last offset of the batch that has it; `None` when empty.
    pub(crate) fn largest_timestamp(&self) -> Result<Option<(i64, i64)>, StorageError> {
        let absolute = |entry: TimeEntry| {
            (
                entry.timestamp,
                self.base_offset + i64::from(entry.relative_offset),
            )
        };
        if let Some(largest) = self.indexes.read().largest {
            return Ok(Some(absolute(largest)));
        }
        if self.size() == 0 {
            return Ok(None);
        }
        let last = {
            let mut indexes = self.indexes.write();
            self.look_at_files(&mut indexes)?;
            indexes.times.last().copied().or(indexes.last_time)
        };
        let mut largest = last;
        let from = last.map_or(self.base_offset, |e| {
            self.base_offset + i64::from(e.relative_offset) + 1
        });
        self.for_each(Depth::Headers, from, |_, header, _| {
            if largest.is_none_or(|l| l.timestamp < header.max_timestamp) {
                let relative_offset = (header.last_offset() - self.base_offset) as u32;
                largest = Some(TimeEntry {
                    timestamp: header.max_timestamp,
                    relative_offset,
                });
            }
            Ok(true)
        })?;
        self.indexes.write().largest = largest;
        Ok(largest.map(absolute))
    }

    /// Timestamp of the first batch, by which segments roll.
    pub(crate) fn first_timestamp(&self) -> Result<Option<i64>, StorageError> {
        if let Some(timestamp) = self.indexes.read().first_timestamp {
            return Ok(Some(timestamp).filter(|&t| t != NO_TIMESTAMP));
        }
        if self.size() == 0 {
            return Ok(None);
        }
        let timestamp = self.header_at(0)?.max_timestamp;
        self.indexes.write().first_timestamp = Some(timestamp);
        Ok(Some(timestamp).filter(|&t| t != NO_TIMESTAMP))
    }

    /// From which offset on a record with a timestamp not below `timestamp` may be found.
    pub(crate) fn lookup_time(&self, timestamp: i64) -> Result<i64, StorageError> {
        let (in_memory, on_disk) = {
            let mut indexes = self.indexes.write();
            let (_, on_disk) = self.look_at_files(&mut indexes)?;
            let after = indexes
                .times
                .partition_point(|entry| entry.timestamp < timestamp);
            (after.checked_sub(1).map(|at| indexes.times[at]), on_disk)
        };
        let entry = if in_memory.is_some() || on_disk == 0 {
            in_memory
        } else {
            let path = self.path(TIME_INDEX);
            let file = std::fs::File::open(&path).map_err(StorageError::io("open", &path))?;
            index::find_time(&file, on_disk, timestamp).map_err(StorageError::io("read", &path))?
        };
        // A damaged entry must not skip records: it counts only inside the segment.
        let relative = entry
            .map_or(0, |e| e.relative_offset)
            .min(self.end().relative_offset);
        Ok(self.base_offset + i64::from(relative))
    }

    /// Aborted transactions whose marker is in this segment.
    pub(crate) fn aborted(&self) -> Result<Vec<AbortedTransaction>, StorageError> {
        let mut aborted = self.aborted.lock();
        if let Some(known) = &*aborted {
            return Ok(known.clone());
        }
        let path = self.path(TXN_INDEX);
        let content = files::read_if_there(&path, TXN_INDEX_BYTES_MAX)?;
        let parsed = txn_index::parse(&content.unwrap_or_default()).ok_or_else(|| {
            StorageError::Corrupt {
                path,
                reason: "not a transaction index".into(),
            }
        })?;
        *aborted = Some(parsed.clone());
        Ok(parsed)
    }

    /// Adds an aborted transaction, to memory and to the file.
    pub(crate) fn add_aborted(&self, transaction: AbortedTransaction) -> Result<(), StorageError> {
        let known = self.aborted()?.len();
        let position = (known * txn_index::ENTRY_BYTES) as u64;
        self.write_index(TXN_INDEX, position, &transaction.to_bytes())?;
        self.indexes_dirty.store(true, Ordering::Release);
        if let Some(list) = &mut *self.aborted.lock() {
            list.push(transaction);
        }
        Ok(())
    }

    /// Replaces the transaction index (recovery, truncation).
    pub(crate) fn set_aborted(&self, list: Vec<AbortedTransaction>) -> Result<(), StorageError> {
        let path = self.path(TXN_INDEX);
        if list.is_empty() {
            files::remove(&path)?;
        } else {
            let bytes: Vec<u8> = list.iter().flat_map(|t| t.to_bytes()).collect();
            files::write_replacing(&path, &bytes)?;
            self.indexes_dirty.store(true, Ordering::Release);
        }
        *self.aborted.lock() = Some(list);
        Ok(())
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

/// Adds the largest timestamp so far as an entry if it is above the last one.
fn push_time(indexes: &mut Indexes) {
    let Some(largest) = indexes.largest else {
        return;
    };
    let last = indexes.times.last().copied().or(indexes.last_time);
    let last = last.unwrap_or(TimeEntry {
        timestamp: NO_TIMESTAMP,
        relative_offset: 0,
    });
    if largest.timestamp > last.timestamp && largest.relative_offset >= last.relative_offset {
        indexes.times.push(largest);
        indexes.last_time = Some(largest);
    }
}

/// Used while a segment is being recovered; nothing else looks at it then.
impl Segment {
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

    /// Cuts the index files to the entries below `offset`.
    pub(crate) fn keep_indexes_below(&self, offset: i64) -> Result<(), StorageError> {
        let relative = u32::try_from(offset - self.base_offset).unwrap_or(u32::MAX);
        let mut indexes = self.indexes.write();
        let (offsets, times) = self.look_at_files(&mut indexes)?;
        let cut = |suffix,
                   count: u64,
                   bytes: u64,
                   above: &dyn Fn(&std::fs::File, u64) -> std::io::Result<bool>| {
            let path = self.path(suffix);
            let file = match std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
            {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && count == 0 => {
                    return Ok(0);
                }
                Err(error) => return Err(StorageError::io("open", &path)(error)),
            };
            let mut keep = count;
            while keep > 0 && above(&file, keep - 1).map_err(StorageError::io("read", &path))? {
                keep -= 1;
            }
            file.set_len(keep * bytes)
                .map_err(StorageError::io("truncate", &path))?;
            Ok(keep)
        };
        let offsets = cut(INDEX, offsets, OFFSET_ENTRY_BYTES, &|file, at| {
            Ok(index::read_offset(file, at)?.relative_offset >= relative)
        })?;
        let times = cut(TIME_INDEX, times, TIME_ENTRY_BYTES, &|file, at| {
            Ok(index::read_time(file, at)?.relative_offset >= relative)
        })?;
        *indexes = Indexes {
            on_disk: Some((offsets, times)),
            ..Indexes::default()
        };
        if let Some(at) = times.checked_sub(1) {
            let path = self.path(TIME_INDEX);
            let file = std::fs::File::open(&path).map_err(StorageError::io("open", &path))?;
            indexes.last_time =
                Some(index::read_time(&file, at).map_err(StorageError::io("read", &path))?);
        }
        Ok(())
    }
}
