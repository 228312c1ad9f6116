//! Format of the journal's files. Numbers are little-endian.
//!
//! | bytes | of a group |
//! |---|---|
//! | 8 | `pybjrnl1` |
//! | 16 | the journal's id |
//! | 8 | number of the group |
//! | 8 | number of the write: of two groups with the same number, the one with the higher write number is valid |
//! | 8 | number of the first group that is still needed |
//! | 4 | bytes of the body |
//! | 4 | entries |
//! | 4 | 0: entries to write; 1: topic id and partition of logs whose entries are void |
//! | 4 | CRC-32C of the body |
//! | 4 | CRC-32C of the header up to this field |
//! | … | the body, then zeros up to a block border |
//!
//! | bytes | of an entry to write |
//! |---|---|
//! | 16, 4 | topic id, partition |
//! | 8, 4 | the segment's base offset, position in its `.log` file |
//! | 4 | bytes to write |
//! | 2 | bytes of the directory's name |
//! | … | the name in the log directory; the bytes, whole record batches |

use pybroker_model::{TopicId, TopicIdPartition, Uuid, crc32c};

/// Groups begin at multiples of this size. Common disks write such a block atomically.
pub(crate) const BLOCK_BYTES: usize = 4096;
pub(crate) const HEADER_BYTES: usize = 68;
const MAGIC: &[u8; 8] = b"pybjrnl1";
/// Size of a log's entry in a voiding group.
pub(crate) const VOID_BYTES: usize = 20;
const ENTRY_HEAD_BYTES: usize = 38;

/// Header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub(crate) journal: Uuid,
    pub(crate) sequence: u64,
    pub(crate) write: u64,
    pub(crate) floor: u64,
    pub(crate) body_bytes: u32,
    pub(crate) entries: u32,
    pub(crate) voids: bool,
}

impl GroupHeader {
    /// Write the header in front of the body in `group`.
    pub(crate) fn put(&self, group: &mut [u8]) {
        let body = &group[HEADER_BYTES..HEADER_BYTES + self.body_bytes as usize];
        let body_crc = crc32c(body);
        let mut head = Vec::with_capacity(HEADER_BYTES);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&self.journal.to_bytes());
        head.extend_from_slice(&self.sequence.to_le_bytes());
        head.extend_from_slice(&self.write.to_le_bytes());
        head.extend_from_slice(&self.floor.to_le_bytes());
        head.extend_from_slice(&self.body_bytes.to_le_bytes());
        head.extend_from_slice(&self.entries.to_le_bytes());
        head.extend_from_slice(&u32::from(self.voids).to_le_bytes());
        head.extend_from_slice(&body_crc.to_le_bytes());
        let crc = crc32c(&head);
        head.extend_from_slice(&crc.to_le_bytes());
        group[..HEADER_BYTES].copy_from_slice(&head);
    }

    /// Parse the header at the start of a block; return it with its body's checksum. `None` if the block is not the
    /// start of a group of this journal.
    pub(crate) fn read(block: &[u8], journal: Uuid) -> Option<(Self, u32)> {
        let head = block.get(..HEADER_BYTES)?;
        let (covered, crc) = head.split_at(HEADER_BYTES - 4);
        if !head.starts_with(MAGIC) || crc32c(covered).to_le_bytes() != crc {
            return None;
        }
        let mut rest = Fields(&covered[MAGIC.len()..]);
        let header = Self {
            journal: Uuid::from_bytes(rest.array()?),
            sequence: u64::from_le_bytes(rest.array()?),
            write: u64::from_le_bytes(rest.array()?),
            floor: u64::from_le_bytes(rest.array()?),
            body_bytes: u32::from_le_bytes(rest.array()?),
            entries: u32::from_le_bytes(rest.array()?),
            voids: u32::from_le_bytes(rest.array()?) == 1,
        };
        let body_crc = u32::from_le_bytes(rest.array()?);
        (header.journal == journal).then_some((header, body_crc))
    }
}

/// Header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead<'a> {
    pub(crate) id: TopicIdPartition,
    pub(crate) segment: i64,
    pub(crate) position: u32,
    pub(crate) length: u32,
    pub(crate) directory: &'a str,
}

impl EntryHead<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_id(out, self.id);
        out.extend_from_slice(&self.segment.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        // The length fits: file systems limit names to 255 bytes, and a directory name by id has two components.
        out.extend_from_slice(&(self.directory.len() as u16).to_le_bytes());
        out.extend_from_slice(self.directory.as_bytes());
    }
}

/// Return the size of an entry in a group.
pub(crate) const fn entry_bytes(directory: &str, length: usize) -> usize {
    ENTRY_HEAD_BYTES + directory.len() + length
}

/// An entry as read from disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) head: EntryHead<'a>,
    pub(crate) bytes: &'a [u8],
}

/// Parse the entries of a body. Return `None` if it is malformed, even if its checksum is correct.
pub(crate) fn entries(body: &[u8], count: u32) -> Option<Vec<Entry<'_>>> {
    let mut rest = Fields(body);
    let entries: Option<Vec<_>> = (0..count).map(|_| rest.entry()).collect();
    entries.filter(|_| rest.0.is_empty())
}

/// Parse the logs of a voiding group's body.
pub(crate) fn voided(body: &[u8], count: u32) -> Option<Vec<TopicIdPartition>> {
    let mut rest = Fields(body);
    let ids: Option<Vec<_>> = (0..count).map(|_| rest.id()).collect();
    ids.filter(|_| rest.0.is_empty())
}

pub(crate) fn write_id(out: &mut Vec<u8>, id: TopicIdPartition) {
    out.extend_from_slice(&id.topic_id.uuid().to_bytes());
    out.extend_from_slice(&id.partition.to_le_bytes());
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn id(&mut self) -> Option<TopicIdPartition> {
        Some(TopicIdPartition {
            topic_id: TopicId::new(Uuid::from_bytes(self.array()?))?,
            partition: i32::from_le_bytes(self.array()?),
        })
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        let id = self.id()?;
        let segment = i64::from_le_bytes(self.array()?);
        let position = u32::from_le_bytes(self.array()?);
        let length = u32::from_le_bytes(self.array()?);
        let name = u16::from_le_bytes(self.array()?);
        let directory = std::str::from_utf8(self.take(usize::from(name))?).ok()?;
        let bytes = self.take(length as usize)?;
        let head = EntryHead {
            id,
            segment,
            position,
            length,
            directory,
        };
        Some(Entry { head, bytes })
    }
}
