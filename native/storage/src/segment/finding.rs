//! Lookup of the batch of an offset: first remembered positions, then the index, then the batches themselves.

use super::indexes::Indexes;
use super::{NOTHING, Place, Segment};
use crate::error::StorageError;
use crate::file_names::{INDEX, LOG};
use crate::index::{self, OffsetEntry};
use crate::scan::{Depth, Fault, Scan};
use pybroker_model::BatchHeader;
use std::sync::atomic::Ordering;

/// A batch found in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLocation {
    pub(crate) position: u64,
    /// `None` if the position was remembered, so that no header was read.
    pub(crate) header: Option<BatchHeader>,
}

impl Segment {
    /// Return the position of `offset` if the segment remembers it, because it is the end, the flushed end or a recent
    /// batch.
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

    /// Return the first batch whose last offset is not below `offset`; `None` if there is none. A batch that starts
    /// exactly at `offset` may come without its header.
    pub(crate) fn find(&self, offset: i64) -> Result<Option<BatchLocation>, StorageError> {
        let end = self.end();
        if end.position == 0 || offset >= self.base_offset + i64::from(end.relative_offset) {
            return Ok(None);
        }
        if let Some(position) = self.remembered(offset)
            && position < u64::from(end.position)
        {
            return Ok(Some(BatchLocation {
                position,
                header: None,
            }));
        }
        self.find_by_index(offset, u64::from(end.position))
    }

    /// Return the position at which the records below `offset` end: the position of the first batch that ends at or
    /// above `offset`.
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

    fn find_by_index(&self, offset: i64, size: u64) -> Result<Option<BatchLocation>, StorageError> {
        let relative = (offset - self.base_offset).clamp(0, i64::from(u32::MAX)) as u32;
        let start = self.lookup(relative)?;
        match self.scan_for(offset, start, size) {
            Ok(found) => Ok(found),
            Err(Fault::Damaged { .. })
                if start.is_some() && !self.damaged.load(Ordering::Acquire) =>
            {
                // This call fails if compaction has replaced the segment, and the index belongs to the replacement.
                self.file(false)?;
                // The index points into the middle of a batch: rebuild it. If the log itself is damaged, the rebuild
                // scans to the same damage and returns the error.
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
        // Read the file without the lock: the writer must not wait for a slow disk.
        let Some((count, _)) = looked_at.filter(|&(count, _)| count > 0) else {
            return Ok(None);
        };
        let failed = |error| StorageError::io("read", &self.path(INDEX))(error);
        let file = self
            .handles
            .get(&self.index, false, || self.path(INDEX))
            .map_err(failed)?;
        match index::find_offset(&file, count, relative) {
            // The index is shorter than before. It belongs to a replacement (which `file` detects), or it is damaged.
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
    ) -> Result<Option<BatchLocation>, Fault> {
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
                return Ok(Some(BatchLocation {
                    position,
                    header: Some(header),
                }));
            }
        }
        Ok(None)
    }

    /// Return the header of the batch at `position`.
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

    /// Visit the batches from the batch with offset `from` on, as long as `visit` returns true.
    pub(crate) fn for_each(
        &self,
        depth: Depth,
        from: i64,
        mut visit: impl FnMut(u64, &BatchHeader, &[u8]) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        let size = self.size();
        let Some(found) = (if from <= self.base_offset {
            Some(BatchLocation {
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
}

/// Functions for recovery, before any other access to the segment.
impl Segment {
    /// Return whether the last batch ends at the end of the file and the index does not reach beyond it. Checks only
    /// from the last index entry on. A wrong index makes the result false.
    pub(crate) fn ends_whole(&self) -> Result<bool, StorageError> {
        if self.indexes_reach_beyond()? {
            return Ok(false);
        }
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

    /// Return position and base offset of the batch that contains `offset`, checked against the index.
    pub(crate) fn resume_point(&self, offset: i64) -> Result<(u64, i64), StorageError> {
        let size = self.size();
        match self.find_by_index(offset, size)? {
            Some(BatchLocation {
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
