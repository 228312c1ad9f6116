//! Offset and time index of a segment. The latest entries are in memory and are written out in groups. A wrong index
//! file is rebuilt from the log.

use super::{Place, RECENT_BATCHES, Segment};
use crate::error::StorageError;
use crate::file_names::{INDEX, LOG, TIME_INDEX, TXN_INDEX};
use crate::files;
use crate::index::{self, OFFSET_ENTRY_BYTES, OffsetEntry, TIME_ENTRY_BYTES, TimeEntry};
use crate::scan::{Depth, Scan};
use pybroker_model::{BatchHeader, NO_TIMESTAMP};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

/// Index entries in memory before they are written out: 16 MB of log.
const INDEX_TAIL_ENTRIES_MAX: usize = 4096;

/// State of the indexes.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    /// Number of entries in the offset and the time index file. `None` until they are looked up.
    pub(super) on_disk: Option<(u64, u64)>,
    /// Offset entries after those in the file.
    pub(super) offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    /// The last time entry, in memory or in the file.
    last_time: Option<TimeEntry>,
    /// Largest timestamp and the last offset (relative) of its batch; `None` until looked up.
    largest: Option<TimeEntry>,
    /// Timestamp of the first batch; `None` until looked up.
    first_timestamp: Option<i64>,
    pub(crate) bytes_since_entry: u64,
}

impl Segment {
    /// Do all work for a batch at `position` that needs the disk and may fail. [`Segment::note_batch`] then cannot fail
    /// after the batch is written. Otherwise the batch would be written but not published, and would appear in the log
    /// after a restart.
    pub(crate) fn expect_batch(&self, position: u64) -> Result<(), StorageError> {
        let mut indexes = self.indexes.write();
        if indexes.offsets.len() >= INDEX_TAIL_ENTRIES_MAX {
            self.write_out(&mut indexes)?;
        }
        if indexes.largest.is_none() && position > 0 {
            drop(indexes);
            self.largest_timestamp()?;
        }
        Ok(())
    }

    /// Record a batch that was just written at `position`. Does not publish it.
    pub(crate) fn note_batch(
        &self,
        header: &BatchHeader,
        position: u64,
        index_interval_bytes: u32,
    ) {
        let mut indexes = self.indexes.write();
        self.index_batch(&mut indexes, header, position, index_interval_bytes);
        let place = Place {
            relative_offset: (header.base_offset - self.base_offset) as u32,
            position: position as u32,
        };
        let slot = self.recent_next.fetch_add(1, Ordering::Relaxed) % RECENT_BATCHES;
        self.recent[slot].store(place.pack(), Ordering::Relaxed);
    }

    /// Return the sizes that the index files would have if they were written out now: (offset, time).
    pub(crate) fn index_bytes(&self) -> Result<(u64, u64), StorageError> {
        let mut indexes = self.indexes.write();
        let (offsets, times) = self.look_at_files(&mut indexes)?;
        Ok((
            (offsets + indexes.offsets.len() as u64) * OFFSET_ENTRY_BYTES,
            (times + indexes.times.len() as u64) * TIME_ENTRY_BYTES,
        ))
    }

    /// Return the entries in the files, looked up once. A wrong file is rebuilt.
    pub(super) fn look_at_files(&self, indexes: &mut Indexes) -> Result<(u64, u64), StorageError> {
        if indexes.on_disk.is_none()
            && let Some(counts) = self.entries_in_files()?
            && self.last_entries_fit(counts, indexes)?
        {
            indexes.on_disk = Some(counts);
        }
        match indexes.on_disk {
            Some(counts) => Ok(counts),
            None => self.rebuild_locked(indexes, 4096),
        }
    }

    /// Return whether the index files have batches beyond the end of the segment. Then something outside the broker has
    /// truncated the segment.
    pub(super) fn indexes_reach_beyond(&self) -> Result<bool, StorageError> {
        let mut indexes = self.indexes.write();
        let Some(counts) = self.entries_in_files()? else {
            return Ok(false);
        };
        if indexes.on_disk.is_none() && self.last_entries_fit(counts, &mut indexes)? {
            indexes.on_disk = Some(counts);
        }
        Ok(indexes.on_disk.is_none())
    }

    /// Return the number of entries of the offset and the time index; `None` if one ends inside an entry.
    fn entries_in_files(&self) -> Result<Option<(u64, u64)>, StorageError> {
        let size = |suffix| match std::fs::metadata(self.path(suffix)) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(StorageError::io("look at", &self.path(suffix))(error)),
        };
        let (offset_bytes, time_bytes) = (size(INDEX)?, size(TIME_INDEX)?);
        let whole = offset_bytes % OFFSET_ENTRY_BYTES == 0 && time_bytes % TIME_ENTRY_BYTES == 0;
        Ok(whole.then_some((
            offset_bytes / OFFSET_ENTRY_BYTES,
            time_bytes / TIME_ENTRY_BYTES,
        )))
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

    /// Rebuild the index files from the log.
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
        // Scan the log before the index is replaced. If the log is damaged, the old index stays, because readers need
        // it to skip the damage.
        let mut fresh = Indexes {
            on_disk: Some((0, 0)),
            ..Indexes::default()
        };
        if self.size() > 0 {
            let file = self.file(false)?;
            let path = || self.path(LOG);
            let mut scan = Scan::new(&file, &path, Depth::Headers, 0, self.size());
            while let Some((position, header, _)) = scan.next().map_err(|f| self.fault(f))? {
                self.index_batch(&mut fresh, &header, position, interval);
            }
        }
        // Truncate instead of removing: creating 10,000 files takes seconds on some filesystems.
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
        *indexes = fresh;
        self.indexes_dirty.store(true, Ordering::Release);
        if self.size() > 0 {
            self.write_out(indexes)?;
        }
        Ok(indexes.on_disk.unwrap_or_default())
    }

    /// Index a batch: the part of [`Segment::note_batch`] that a rebuild shares.
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

    /// Append the entries in memory to the index files, without syncing.
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

    pub(super) fn write_index(
        &self,
        suffix: &str,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), StorageError> {
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

    /// Write the index files. With `sealing`, also write the largest timestamp as the last time entry and create both
    /// files if they are missing, as Kafka's tools expect.
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

    /// Sync the index files if they changed.
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

    /// Return the largest timestamp and the last offset of its batch; `None` if empty.
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

    /// Return the timestamp of the first batch, by which segments roll.
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

    /// Return the offset at which a search for a record with at least this timestamp must begin.
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
        // Use the entry only if it is inside the segment: a damaged entry must not skip records.
        let relative = entry
            .map_or(0, |e| e.relative_offset)
            .min(self.end().relative_offset);
        Ok(self.base_offset + i64::from(relative))
    }

    /// Truncate the index files to the entries below `offset`.
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

/// Add the largest timestamp so far as an entry if it is above the last one.
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
