//! The offset and time index of one segment, in Kafka's formats.
//!
//! ```text
//! .index      { relative offset u32 | position u32 }     offset = the LAST one of the batch there
//! .timeindex  { timestamp i64 | relative offset u32 }    largest timestamp up to that offset
//! ```
//! Numbers are big-endian, entries ascending. Entries of the active segment are collected in memory and written to the
//! file at a roll, a checkpoint or a clean close. Both files can be rebuilt from the log, so no operation waits for
//! them to be written. A lookup only finds a position to start reading at. A lookup never trusts the file: the batch at
//! that position must have the entry's offset.

use crate::handles::SegmentFile;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(crate) const OFFSET_ENTRY_BYTES: u64 = 8;
pub(crate) const TIME_ENTRY_BYTES: u64 = 12;
/// Number of entries that one read of an offset index returns: one page.
const BLOCK_ENTRIES: u64 = 512;

/// Position of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    pub(crate) relative_offset: u32,
    pub(crate) position: u32,
}

impl OffsetEntry {
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.relative_offset) << 32 | u64::from(self.position)).to_be_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let packed = u64::from_be_bytes(bytes);
        Self {
            relative_offset: (packed >> 32) as u32,
            position: packed as u32,
        }
    }
}

/// The largest timestamp so far, and the last offset of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: i64,
    pub(crate) relative_offset: u32,
}

impl TimeEntry {
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.relative_offset.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; 12]) -> Self {
        let (timestamp, offset) = bytes.split_at(8);
        Self {
            timestamp: i64::from_be_bytes(timestamp.try_into().unwrap_or_default()),
            relative_offset: u32::from_be_bytes(offset.try_into().unwrap_or_default()),
        }
    }
}

/// Return the last entry of `file` (with `count` entries) whose offset is not above `relative_offset`. A lookup costs
/// one read per doubling of the number of blocks, and one read of a block, instead of one read per doubling of the
/// number of entries. Before, small fetches (64 KiB) spent most of their time in these reads.
pub(crate) fn find_offset(
    file: &SegmentFile,
    count: u64,
    relative_offset: u32,
) -> io::Result<Option<OffsetEntry>> {
    let (mut low, mut high) = (0, count.div_ceil(BLOCK_ENTRIES));
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if read_offset(file.file(), middle * BLOCK_ENTRIES)?.relative_offset <= relative_offset {
            low = middle;
        } else {
            high = middle;
        }
    }
    let first = low * BLOCK_ENTRIES;
    let mut block = [0; (BLOCK_ENTRIES * OFFSET_ENTRY_BYTES) as usize];
    let bytes = BLOCK_ENTRIES.min(count - first) * OFFSET_ENTRY_BYTES;
    let block = &mut block[..bytes as usize];
    file.file()
        .read_exact_at(block, first * OFFSET_ENTRY_BYTES)?;
    let (entries, _) = block.as_chunks();
    let after = entries.partition_point(|entry| {
        OffsetEntry::from_bytes(*entry).relative_offset <= relative_offset
    });
    Ok(after
        .checked_sub(1)
        .map(|at| OffsetEntry::from_bytes(entries[at])))
}

/// Return the last entry of `file` (with `count` entries) whose timestamp is below `timestamp`.
pub(crate) fn find_time(file: &File, count: u64, timestamp: i64) -> io::Result<Option<TimeEntry>> {
    let (mut low, mut high) = (0, count);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let entry = read_time(file, middle)?;
        if entry.timestamp < timestamp {
            best = Some(entry);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(best)
}

/// Return entry `at` of a time index.
pub(crate) fn read_time(file: &File, at: u64) -> io::Result<TimeEntry> {
    let mut bytes = [0; 12];
    file.read_exact_at(&mut bytes, at * TIME_ENTRY_BYTES)?;
    Ok(TimeEntry::from_bytes(bytes))
}

/// Return entry `at` of an offset index.
pub(crate) fn read_offset(file: &File, at: u64) -> io::Result<OffsetEntry> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at * OFFSET_ENTRY_BYTES)?;
    Ok(OffsetEntry::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_ENTRIES, OffsetEntry, find_offset};
    use crate::handles::{FileSlot, HandleCache};
    use std::sync::Arc;

    /// The lookup of every offset returns the last entry not above it, for any number of blocks.
    #[test]
    fn an_entry_is_found_in_any_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("00000000000000000000.index");
        for count in [
            0,
            1,
            2,
            BLOCK_ENTRIES,
            BLOCK_ENTRIES + 1,
            3 * BLOCK_ENTRIES + 7,
        ] {
            let entry = |at: u64| OffsetEntry {
                relative_offset: 5 + 3 * at as u32,
                position: 100 * at as u32,
            };
            let bytes: Vec<u8> = (0..count).flat_map(|at| entry(at).to_bytes()).collect();
            std::fs::write(&path, bytes).unwrap();
            let file = HandleCache::new(4)
                .get(&Arc::new(FileSlot::default()), false, || path.clone())
                .unwrap();
            for offset in 0..=5 + 3 * count as u32 {
                let wanted = (0..count)
                    .rev()
                    .map(entry)
                    .find(|e| e.relative_offset <= offset);
                assert_eq!(
                    find_offset(&file, count, offset).unwrap(),
                    wanted,
                    "{count} {offset}"
                );
            }
        }
    }
}
