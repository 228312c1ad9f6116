//! Walking concatenated batches.

use crate::{BATCH_LENGTH_END, BatchError, BatchHeader, HEADER_BYTES};

/// The whole batches of a byte range, each with its parsed header. Checksums are not looked at.
///
/// Fetch answers may end in the middle of a batch (KIP-74), so a partial tail is a normal end;
/// [`Batches::rest`] tells how many bytes it has. After an error the walk is over.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            failed: false,
        }
    }

    /// Where the next batch starts.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes after the last whole batch.
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
            // Fewer bytes than a header: the tail was cut there.
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
