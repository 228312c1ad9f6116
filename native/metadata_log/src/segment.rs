//! One file of the log: consecutive batches from its base offset on.

use bytes::Bytes;
use pybroker_model::{BatchHeader, Batches, HEADER_BYTES};

use crate::error::LogError;
use crate::files::{FileHandle, Files};
use crate::names;

/// Bytes between two entries of the index.
const INDEX_INTERVAL_BYTES: u64 = 4096;
/// Number of bytes read at a time while walking over a file.
const CHUNK_BYTES: usize = 256 * 1024;

/// A segment with a sparse index in memory.
#[derive(Debug)]
pub(crate) struct Segment<F: Files> {
    pub(crate) base_offset: i64,
    pub(crate) name: String,
    pub(crate) file: F::File,
    pub(crate) size: u64,
    /// When the segment's first batch was appended, if it has one.
    pub(crate) first_ms: Option<i64>,
    /// Base offset and position of some batches, ascending.
    index: Vec<(i64, u64)>,
}

/// Why [`Segment::walk`] stopped before the end of the file.
#[derive(Debug)]
pub(crate) struct Invalid {
    pub(crate) position: u64,
    pub(crate) reason: String,
}

impl<F: Files> Segment<F> {
    pub(crate) fn create(files: &F, base_offset: i64) -> Result<Self, LogError> {
        let name = names::of_segment(base_offset);
        let file = files
            .create(&name)
            .map_err(LogError::io("create", files.path_of(&name)))?;
        Ok(Self::new(base_offset, name, file, 0))
    }

    pub(crate) fn open(files: &F, base_offset: i64) -> Result<Self, LogError> {
        Self::open_named(files, names::of_segment(base_offset), base_offset)
    }

    /// Open any file of consecutive batches.
    pub(crate) fn open_named(files: &F, name: String, base_offset: i64) -> Result<Self, LogError> {
        let path = files.path_of(&name);
        let file = files
            .open(&name)
            .map_err(LogError::io("open", path.clone()))?;
        let size = file.size().map_err(LogError::io("read", path))?;
        Ok(Self::new(base_offset, name, file, size))
    }

    fn new(base_offset: i64, name: String, file: F::File, size: u64) -> Self {
        Self {
            base_offset,
            name,
            file,
            size,
            first_ms: None,
            index: Vec::new(),
        }
    }

    /// Add the batch at `position` to the index, if the last entry is far enough away.
    pub(crate) fn note(&mut self, base_offset: i64, position: u64) {
        let due = self
            .index
            .last()
            .is_none_or(|&(_, last)| position >= last + INDEX_INTERVAL_BYTES);
        if due {
            self.index.push((base_offset, position));
        }
    }

    /// Remove the batches from `position` on.
    pub(crate) fn forget(&mut self, position: u64) {
        self.size = position;
        if position == 0 {
            self.first_ms = None;
        }
        let kept = self.index.partition_point(|&(_, at)| at < position);
        self.index.truncate(kept);
    }

    /// Return the position of the first batch that ends after `offset`, or the file's size if there is none.
    pub(crate) fn position_of(&self, files: &F, offset: i64) -> Result<u64, LogError> {
        let after = self.index.partition_point(|&(base, _)| base <= offset);
        let mut position = after.checked_sub(1).map_or(0, |index| self.index[index].1);
        while position < self.size {
            let mut bytes = [0; HEADER_BYTES];
            self.fill(files, &mut bytes, position)?;
            let header = BatchHeader::parse(&bytes)
                .map_err(|error| self.damaged(files, position, &error.to_string()))?;
            if header.next_offset() > offset {
                break;
            }
            position += header.size_in_bytes() as u64;
        }
        Ok(position)
    }

    /// Return whole batches between the offsets `from` and `to`. The first batch contains `from`. Return at least one
    /// batch, and at most `bytes_max` bytes if there are several.
    pub(crate) fn read(
        &self,
        files: &F,
        from: i64,
        to: i64,
        bytes_max: usize,
    ) -> Result<Bytes, LogError> {
        let position = self.position_of(files, from)?;
        let left = (self.size - position) as usize;
        if left == 0 {
            return Ok(Bytes::new());
        }
        let mut bytes = vec![0; left.min(bytes_max.max(HEADER_BYTES))];
        self.fill(files, &mut bytes, position)?;
        let first = BatchHeader::parse(&bytes)
            .map_err(|error| self.damaged(files, position, &error.to_string()))?;
        if first.size_in_bytes() > bytes.len() {
            bytes.resize(first.size_in_bytes().min(left), 0);
            self.fill(files, &mut bytes, position)?;
        }
        let mut end = 0;
        for batch in Batches::new(&bytes) {
            let (header, whole) =
                batch.map_err(|error| self.damaged(files, position, &error.to_string()))?;
            if header.next_offset() > to {
                break;
            }
            end += whole.len();
        }
        bytes.truncate(end);
        Ok(bytes.into())
    }

    /// Read all batches and verify their checksums. Calls `each` with the position, the header and the bytes of each
    /// batch; if `each` returns an error, the batch is invalid.
    pub(crate) fn walk(
        &self,
        files: &F,
        mut each: impl FnMut(u64, &BatchHeader, Bytes) -> Result<(), String>,
    ) -> Result<Option<Invalid>, LogError> {
        let mut position = 0;
        let mut buffer = Bytes::new();
        while position < self.size {
            let invalid = |reason: String| Ok(Some(Invalid { position, reason }));
            if buffer.len() < HEADER_BYTES {
                buffer = self.chunk(files, position, CHUNK_BYTES)?;
            }
            let header = match BatchHeader::parse(&buffer) {
                Ok(header) => header,
                Err(error) => return invalid(error.to_string()),
            };
            let size = header.size_in_bytes();
            if size as u64 > self.size - position {
                let left = self.size - position;
                return invalid(format!(
                    "a batch of {size} bytes, of which {left} are there"
                ));
            }
            if buffer.len() < size {
                buffer = self.chunk(files, position, size.max(CHUNK_BYTES))?;
            }
            let bytes = buffer.split_to(size);
            let checked = header.check().and_then(|()| header.check_crc(&bytes));
            if let Err(error) = checked {
                return invalid(error.to_string());
            }
            if let Err(reason) = each(position, &header, bytes) {
                return invalid(reason);
            }
            position += size as u64;
        }
        Ok(None)
    }

    /// Return the batch at `position` without verifying its checksum; `None` at the end of the file.
    pub(crate) fn batch_at(
        &self,
        files: &F,
        position: u64,
    ) -> Result<Option<(BatchHeader, Bytes)>, LogError> {
        if position >= self.size {
            return Ok(None);
        }
        let head = self.chunk(files, position, HEADER_BYTES)?;
        let header = BatchHeader::parse(&head)
            .map_err(|error| self.damaged(files, position, &error.to_string()))?;
        let bytes = self.chunk(files, position, header.size_in_bytes())?;
        match bytes.len() == header.size_in_bytes() {
            true => Ok(Some((header, bytes))),
            false => Err(self.damaged(files, position, "a part of a batch")),
        }
    }

    /// Search the file from `position` on for a valid batch with an offset above `offset`. Return the batch's position.
    pub(crate) fn valid_from(
        &self,
        files: &F,
        position: u64,
        offset: i64,
    ) -> Result<Option<u64>, LogError> {
        if position >= self.size {
            return Ok(None);
        }
        let bytes = self.chunk(files, position, (self.size - position) as usize)?;
        for start in 0..bytes.len().saturating_sub(HEADER_BYTES) {
            let rest = &bytes[start..];
            let Ok(header) = BatchHeader::parse(rest) else {
                continue;
            };
            let plausible = header.base_offset > offset && header.size_in_bytes() <= rest.len();
            if plausible && header.check().is_ok() && header.check_crc(rest).is_ok() {
                return Ok(Some(position + start as u64));
            }
        }
        Ok(None)
    }

    pub(crate) fn chunk(
        &self,
        files: &F,
        position: u64,
        bytes_max: usize,
    ) -> Result<Bytes, LogError> {
        let left = (self.size - position) as usize;
        let mut bytes = vec![0; left.min(bytes_max)];
        self.fill(files, &mut bytes, position)?;
        Ok(bytes.into())
    }

    fn fill(&self, files: &F, bytes: &mut [u8], position: u64) -> Result<(), LogError> {
        let read = self
            .file
            .read_at(bytes, position)
            .map_err(LogError::io("read", files.path_of(&self.name)))?;
        match read == bytes.len() {
            true => Ok(()),
            false => Err(self.damaged(files, position, "the file became shorter")),
        }
    }

    pub(crate) fn damaged(&self, files: &F, position: u64, reason: &str) -> LogError {
        LogError::Damaged {
            path: files.path_of(&self.name),
            reason: format!("at position {position}: {reason}"),
        }
    }
}
