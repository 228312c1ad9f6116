//! A group: the unit of one journal write.

use super::format::{BLOCK_BYTES, EntryHead, GroupHeader, HEADER_BYTES, write_id};
use super::padded;
use pybroker_model::TopicIdPartition;

/// A group under construction. Its memory is aligned to blocks, as direct writes require, and is reused for the next
/// one.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Memory of the group, which begins at index `start`.
    bytes: Vec<u8>,
    start: usize,
    entries: u32,
}

impl Group {
    /// Start a new group. `bytes`: size of all its entries.
    pub(super) fn begin(&mut self, bytes: usize) {
        self.bytes.clear();
        self.bytes
            .reserve(padded(HEADER_BYTES + bytes) + BLOCK_BYTES);
        self.start = self
            .bytes
            .as_ptr()
            .align_offset(BLOCK_BYTES)
            .min(BLOCK_BYTES);
        self.bytes.resize(self.start + HEADER_BYTES, 0);
        self.entries = 0;
    }

    /// Return the size so far.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Add an entry; `append` adds its bytes. On failure the group is unchanged.
    pub(super) fn push<E>(
        &mut self,
        head: &EntryHead<'_>,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.bytes.len();
        head.write(&mut self.bytes);
        let end = self.bytes.len() + head.length as usize;
        match append(&mut self.bytes) {
            Ok(()) => {
                assert_eq!(self.bytes.len(), end, "an entry is as long as it says");
                self.entries += 1;
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(before);
                Err(error)
            }
        }
    }

    /// Add a log whose entries are void.
    pub(super) fn push_void(&mut self, id: TopicIdPartition) {
        write_id(&mut self.bytes, id);
        self.entries += 1;
    }

    pub(super) const fn entries(&self) -> u32 {
        self.entries
    }

    /// Pad to whole blocks and write the header, which `header` builds from the number of bytes and of entries.
    pub(super) fn close(&mut self, header: impl FnOnce(u32, u32) -> GroupHeader) {
        let body = self.len() - HEADER_BYTES;
        self.bytes.resize(self.start + padded(self.len()), 0);
        header(body as u32, self.entries).put(&mut self.bytes[self.start..]);
    }

    pub(super) fn blocks(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
