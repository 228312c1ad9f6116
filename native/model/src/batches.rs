//! Iteration over consecutive batches in a byte range.

use crate::{BATCH_LENGTH_END, BatchError, BatchHeader, HEADER_BYTES};

/// Iterator over the complete batches of a byte range, with parsed headers. Does not check checksums.
///
/// Fetch responses may end in the middle of a batch (KIP-74): a partial tail is a normal end, and [`Batches::rest`]
/// returns its size. The iteration ends after an error.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    /// Start at the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            failed: false,
        }
    }

    /// Return the position of the next batch.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Return the number of bytes after the last whole batch.
    #[must_use]
    pub const fn rest(&self) -> usize {
        self.bytes.len() - self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<(BatchHeader, &'a [u8]), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.position..).filter(|_| !self.failed)?;
        if rest.len() < BATCH_LENGTH_END {
            return None;
        }
        let header = match BatchHeader::parse(rest) {
            Ok(header) => header,
            // Fewer bytes than a header: the range ends within a batch.
            Err(BatchError::Truncated { .. }) => return None,
            Err(error) => {
                self.failed = true;
                return Some(Err(error));
            }
        };
        debug_assert!(header.size_in_bytes() >= HEADER_BYTES);
        let batch = rest.get(..header.size_in_bytes())?;
        self.position += batch.len();
        Some(Ok((header, batch)))
    }
}
