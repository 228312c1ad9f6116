//! Reads: from an offset to a range of a file, without the writer lock.

use super::{Log, NOTHING_LOST};
use crate::error::{ReadError, StorageError};
use crate::handles::SegmentFile;
use crate::segment::{ReadStart, Segment};
use crate::txn_index::AbortedTransaction;
use pybroker_model::{BatchError, Batches};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a segment file: complete batches, except that the last one may be incomplete.
#[derive(Clone, Debug)]
pub struct LogSlice {
    /// The open file; `None` for an empty result.
    pub file: Option<Arc<SegmentFile>>,
    /// Position of the bytes.
    pub position: u64,
    /// Number of bytes.
    pub len: usize,
}

impl LogSlice {
    const EMPTY: Self = Self {
        file: None,
        position: 0,
        len: 0,
    };

    /// Return a copy of the bytes.
    ///
    /// # Errors
    /// Any error of the operating system. An end of file before `len` bytes means that the log was truncated during the
    /// call.
    pub fn to_vec(&self) -> std::io::Result<Vec<u8>> {
        let Some(file) = &self.file else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; self.len];
        let read = file.read_at_most(&mut bytes, self.position)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

impl Log {
    /// Return at most `max_bytes` of batches, from the batch with `offset` on. `upper` is the exclusive bound: the high
    /// watermark, the last stable offset or the log end. With `at_least_one` the first batch is complete even if it is
    /// larger (KIP-74); otherwise a first batch that does not fit gives an empty result. A result never spans several
    /// segments.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] below the log start or above `upper`.
    pub fn read(
        &self,
        offset: i64,
        max_bytes: usize,
        upper: i64,
        at_least_one: bool,
    ) -> Result<LogSlice, ReadError> {
        let upper = upper.min(self.log_end_offset());
        let start = self.log_start_offset();
        if offset < start || offset > upper {
            return Err(ReadError::OutOfRange {
                offset,
                start,
                end: upper,
            });
        }
        if offset == upper || (max_bytes == 0 && !at_least_one) {
            return Ok(LogSlice::EMPTY);
        }
        match self.slice(offset, max_bytes, upper, at_least_one) {
            // The segment was removed or replaced after the list was loaded, so look it up again.
            Err(error) if error.is_not_found() => {
                // Lists and files change only under this lock: while this thread holds it, every listed file exists.
                // Otherwise a second compaction or removal could make the read fail again.
                let _writer = self.writer.lock();
                let start = self.log_start_offset();
                if offset < start {
                    return Err(ReadError::OutOfRange {
                        offset,
                        start,
                        end: upper,
                    });
                }
                Ok(self.slice(offset, max_bytes, upper, at_least_one)?)
            }
            Err(error) => Err(self.fatal(error).into()),
            Ok(slice) => Ok(slice),
        }
    }

    fn slice(
        &self,
        offset: i64,
        max_bytes: usize,
        upper: i64,
        at_least_one: bool,
    ) -> Result<LogSlice, StorageError> {
        self.health.check()?;
        let segments = self.segments.load();
        let mut index = Self::segment_index(&segments, offset);
        // Compaction leaves gaps: the next batch may be in a later segment.
        while let Some(segment) = segments.get(index).filter(|s| s.base_offset < upper) {
            let closed = index + 1 < segments.len();
            if closed && segment.is_cut()? {
                self.end_before_the_cut(segment)?;
            }
            let found = segment
                .find_start(offset)
                .map_err(|error| self.damaged_at(segment, offset, error))?;
            if let Some(found) = found {
                return Self::slice_of(segment, offset, found, max_bytes, upper, at_least_one)
                    .map_err(|error| self.damaged_at(segment, offset, error));
            }
            index += 1;
        }
        Ok(LogSlice::EMPTY)
    }

    /// If something outside the broker shortened the file of a closed segment, end the segment after the last complete
    /// batch in the file.
    fn end_before_the_cut(&self, segment: &Arc<Segment>) -> Result<(), StorageError> {
        // Truncations and replacements of segments hold this lock, so check under it that the segment is still a closed
        // one.
        let _writer = self.writer.lock();
        let segments = self.segments.load();
        let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
        if closed.iter().any(|held| Arc::ptr_eq(held, segment)) && segment.is_cut()? {
            self.note_damage(segment.end_before_the_cut()?);
        }
        Ok(())
    }

    /// Mark a segment in which a reader found an invalid batch, so that the next start checks it.
    fn damaged_at(&self, segment: &Segment, offset: i64, error: StorageError) -> StorageError {
        if matches!(error, StorageError::Corrupt { .. })
            && !segment.damaged.swap(true, Ordering::AcqRel)
        {
            self.note_damage(format!(
                "offset {offset} cannot be read: {error}. Consumers get CORRUPT_MESSAGE and must seek past it. A \
                 restart of the broker removes the damaged batch"
            ));
        }
        error
    }

    fn note_damage(&self, text: String) {
        self.damage_noted.lock().push(text);
        self.has_damage_noted.store(true, Ordering::Release);
    }

    /// If the batch that contains `offset` is damaged, return a description. The next start then checks its segment.
    pub fn damage_at(&self, offset: i64) -> Option<String> {
        let slice = self.read(offset, 0, self.log_end_offset(), true).ok()?;
        let bytes = slice.to_vec().ok()?;
        let (header, batch) = match Batches::new(&bytes).next()? {
            Ok(found) => found,
            Err(error) => return Some(self.found_damaged(offset, &error)),
        };
        let checked = header.check().and_then(|()| header.check_crc(batch));
        checked
            .err()
            .map(|error| self.found_damaged(offset, &error))
    }

    fn found_damaged(&self, offset: i64, error: &BatchError) -> String {
        let segments = self.segments.load();
        segments[Self::segment_index(&segments, offset)]
            .damaged
            .store(true, Ordering::Release);
        let text = format!("the batch with offset {offset} is damaged on disk: {error}");
        self.note_damage(format!(
            "{text}. Another replica must lead. After a restart this broker copies the damaged records again"
        ));
        text
    }

    /// Return the first offset whose record was damaged when the log was opened and has been missing since.
    pub fn lost_from(&self) -> Option<i64> {
        Some(self.lost_from.load(Ordering::Acquire)).filter(|&from| from != NOTHING_LOST)
    }

    /// Forget lost offsets at or above the log end, because the leader sends their records again.
    pub(super) fn forget_lost_above(&self, end: i64) {
        if self.lost_from.load(Ordering::Acquire) >= end {
            self.lost_from.store(NOTHING_LOST, Ordering::Release);
        }
    }

    /// Return descriptions, for the operator, of the damage that readers found since the last call. Each segment is
    /// reported once.
    pub fn take_damage(&self) -> Vec<String> {
        if !self.has_damage_noted.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.damage_noted.lock())
    }

    fn slice_of(
        segment: &Segment,
        offset: i64,
        mut found: ReadStart,
        max_bytes: usize,
        upper: i64,
        at_least_one: bool,
    ) -> Result<LogSlice, StorageError> {
        let end = if upper >= segment.end_offset() {
            segment.size()
        } else {
            segment.position_of(upper)?
        };
        let available = end.saturating_sub(found.position) as usize;
        if available == 0 {
            return Ok(LogSlice::EMPTY);
        }
        debug_assert!(offset >= segment.base_offset || found.position == 0);
        let mut len = available.min(max_bytes);
        if len < available {
            let first = segment.first_bytes(&mut found)?;
            if len < first {
                len = if at_least_one {
                    first.min(available)
                } else {
                    0
                };
            }
        }
        if len == 0 {
            return Ok(LogSlice::EMPTY);
        }
        Ok(LogSlice {
            file: Some(segment.file(false)?),
            position: found.position,
            len,
        })
    }

    /// Return the aborted transactions that a read_committed reader of `offset..upper` needs.
    ///
    /// # Errors
    /// [`StorageError`] if a transaction index cannot be read.
    pub fn aborted_transactions(
        &self,
        offset: i64,
        upper: i64,
    ) -> Result<Vec<AbortedTransaction>, StorageError> {
        let segments = self.segments.load();
        let mut aborted = Vec::new();
        for segment in &segments[Self::segment_index(&segments, offset)..] {
            for transaction in segment.aborted()? {
                if transaction.last_offset >= offset && transaction.first_offset < upper {
                    aborted.push(transaction);
                }
                // Later transactions begin at or after the bound.
                if transaction.last_stable_offset >= upper {
                    return Ok(aborted);
                }
            }
        }
        Ok(aborted)
    }
}
