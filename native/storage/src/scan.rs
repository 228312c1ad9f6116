//! Iteration over the batches of a segment file: only their headers, or complete batches with a check of their
//! checksums.

use crate::error::StorageError;
use crate::handles::SegmentFile;
use pybroker_model::{BatchHeader, HEADER_BYTES};
use std::path::PathBuf;

/// Size of the first read of a header walk: one index interval.
const HEADER_CHUNK_BYTES: usize = 4096;
/// Size of one read in a walk over whole batches.
const WHOLE_CHUNK_BYTES: usize = 1 << 20;

/// How much of each batch a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only headers: the walk does not read large bodies.
    Headers,
    /// All bytes, whose checksums the walk checks.
    Whole,
}

/// Why a walk stopped.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file could not be read.
    Storage(StorageError),
    /// The bytes at `position` are not a batch.
    Damaged {
        position: u64,
        reason: String,
        /// Position of the next batch, if the damaged batch's length can be trusted.
        next: Option<u64>,
    },
}

/// A batch: its position, its header, and its bytes (at least the header's).
pub(crate) type ScannedBatch<'a> = (u64, BatchHeader, &'a [u8]);

/// A walk over `position..end` of one file.
pub(crate) struct Scan<'a> {
    file: &'a SegmentFile,
    path: &'a dyn Fn() -> PathBuf,
    depth: Depth,
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    /// File position of the buffer's first byte, and number of filled bytes.
    buffer_at: u64,
    filled: usize,
    /// Size of the batch that the walk returned last.
    last_bytes: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        file: &'a SegmentFile,
        path: &'a dyn Fn() -> PathBuf,
        depth: Depth,
        position: u64,
        end: u64,
    ) -> Self {
        Self {
            file,
            path,
            depth,
            position,
            end,
            buffer: Vec::new(),
            buffer_at: 0,
            filled: 0,
            last_bytes: 0,
        }
    }

    /// Return the next batch: position, header, and its bytes (at least the header; all with `Depth::Whole`). `None` at
    /// the end.
    pub(crate) fn next(&mut self) -> Result<Option<ScannedBatch<'_>>, Fault> {
        let position = self.position;
        if position >= self.end {
            return Ok(None);
        }
        self.buffer_bytes(HEADER_BYTES)?;
        let header = BatchHeader::parse(self.available())
            .and_then(|header| header.check().map(|()| header))
            .map_err(|error| damaged(position, &error, None))?;
        let size = header.size_in_bytes();
        let next = position + size as u64;
        if next > self.end {
            let reason = format!(
                "batch of {size} bytes ends at {next}, the file at {}",
                self.end
            );
            return Err(Fault::Damaged {
                position,
                reason,
                next: None,
            });
        }
        if self.depth == Depth::Whole {
            self.buffer_bytes(size)?;
            header
                .check_crc(self.available())
                .map_err(|error| damaged(position, &error, Some(next)))?;
        }
        self.position = next;
        self.last_bytes = size;
        let start = (position - self.buffer_at) as usize;
        let stop = (start + size).min(self.filled);
        Ok(Some((position, header, &self.buffer[start..stop])))
    }

    /// Return the buffered bytes from the current position.
    fn available(&self) -> &[u8] {
        let start = self.position.saturating_sub(self.buffer_at) as usize;
        self.buffer.get(start..self.filled).unwrap_or(&[])
    }

    /// Buffer at least `needed` bytes from the current position, or up to the end.
    fn buffer_bytes(&mut self, needed: usize) -> Result<(), Fault> {
        let inside = self.position >= self.buffer_at
            && self.position - self.buffer_at + needed as u64 <= self.filled as u64;
        if inside {
            return Ok(());
        }
        let chunk = match self.depth {
            // Batches are small: read further ahead after the first miss. Large batches are skipped instead.
            Depth::Headers if self.filled == 0 || self.last_bytes >= HEADER_CHUNK_BYTES => {
                HEADER_CHUNK_BYTES
            }
            Depth::Headers => 4 * HEADER_CHUNK_BYTES,
            Depth::Whole => WHOLE_CHUNK_BYTES,
        };
        let left = (self.end - self.position) as usize;
        let wanted = chunk.max(needed).min(left);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        self.buffer_at = self.position;
        self.filled = self
            .file
            .read_at_most(&mut self.buffer[..wanted], self.position)
            .map_err(|e| Fault::Storage(StorageError::io("read", &(self.path)())(e)))?;
        Ok(())
    }
}

fn damaged(position: u64, error: &pybroker_model::BatchError, next: Option<u64>) -> Fault {
    Fault::Damaged {
        position,
        reason: error.to_string(),
        next,
    }
}
