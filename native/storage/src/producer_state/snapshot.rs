//! `.snapshot` files: producer state of a log up to the offset in the file's name.
//!
//! ```text
//! version i16 = 1 | crc u32 (CRC-32C of all that follows) | count i32
//! | { producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32
//!   | timestamp i64 | coordinator epoch i32 | open transaction's first offset i64 (-1) } …
//! | "PBX1" | count i32 | { producer id i64 | n u8 | { last sequence i32 | last offset i64
//!                          | offset delta i32 | timestamp i64 } … } …
//! ```
//! Kafka's format ends before "PBX1" and keeps only the last batch of a producer: after a restart it cannot recognise
//! the other batches that a client may have in flight. Kafka's readers ignore bytes after the entries (the checksum
//! covers them), so pybroker stores all batches there.

use super::{BATCHES_KEPT, BatchMetadata, ProducerEntry, ProducerState};
use pybroker_model::crc32c;

const VERSION: i16 = 1;
const CRC_END: usize = 6;
const ENTRY_BYTES: usize = 46;
const EXTENSION: &[u8; 4] = b"PBX1";

/// Return the file's bytes.
pub(crate) fn write(state: &ProducerState) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + state.len() * 2 * ENTRY_BYTES);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(state.len() as i32).to_be_bytes());
    let none = BatchMetadata {
        last_sequence: -1,
        last_offset: -1,
        offset_delta: 0,
        timestamp: -1,
    };
    for (id, entry) in state.entries() {
        let last = entry.batches.last().copied().unwrap_or(none);
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&entry.epoch.to_be_bytes());
        out.extend_from_slice(&last.last_sequence.to_be_bytes());
        out.extend_from_slice(&last.last_offset.to_be_bytes());
        out.extend_from_slice(&last.offset_delta.to_be_bytes());
        out.extend_from_slice(&entry.last_timestamp.to_be_bytes());
        out.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        out.extend_from_slice(&entry.transaction_start.unwrap_or(-1).to_be_bytes());
    }
    let more = || state.entries().filter(|(_, entry)| entry.batches.len() > 1);
    out.extend_from_slice(EXTENSION);
    out.extend_from_slice(&(more().count() as i32).to_be_bytes());
    for (id, entry) in more() {
        let earlier = &entry.batches[..entry.batches.len() - 1];
        out.extend_from_slice(&id.to_be_bytes());
        out.push(earlier.len() as u8);
        for batch in earlier {
            out.extend_from_slice(&batch.last_sequence.to_be_bytes());
            out.extend_from_slice(&batch.last_offset.to_be_bytes());
            out.extend_from_slice(&batch.offset_delta.to_be_bytes());
            out.extend_from_slice(&batch.timestamp.to_be_bytes());
        }
    }
    let crc = crc32c(&out[CRC_END..]);
    out[2..CRC_END].copy_from_slice(&crc.to_be_bytes());
    out
}

/// A cursor over the file; every read is checked.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*chunk)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }
}

/// Parse a snapshot; `None` unless it is complete and undamaged.
pub(crate) fn read(content: &[u8]) -> Option<ProducerState> {
    let mut reader = Reader(content);
    if reader.i16()? != VERSION {
        return None;
    }
    let crc = u32::from_be_bytes(reader.take()?);
    if crc32c(&content[CRC_END..]) != crc {
        return None;
    }
    let count = usize::try_from(reader.i32()?).ok()?;
    if count > reader.0.len() / ENTRY_BYTES {
        return None;
    }
    let mut state = ProducerState::default();
    for _ in 0..count {
        let id = reader.i64()?;
        let epoch = reader.i16()?;
        let last = BatchMetadata {
            last_sequence: reader.i32()?,
            last_offset: reader.i64()?,
            offset_delta: reader.i32()?,
            timestamp: 0,
        };
        let last_timestamp = reader.i64()?;
        let coordinator_epoch = reader.i32()?;
        let start = reader.i64()?;
        let has_batch = last.last_sequence >= 0
            && last.offset_delta >= 0
            && last.last_offset >= i64::from(last.offset_delta);
        let last = BatchMetadata {
            timestamp: last_timestamp,
            ..last
        };
        state.insert(
            id,
            ProducerEntry {
                epoch,
                coordinator_epoch,
                last_timestamp,
                batches: if has_batch { vec![last] } else { Vec::new() },
                transaction_start: (start >= 0).then_some(start),
                last_marker: -1,
            },
        );
    }
    if reader.0.is_empty() {
        return Some(state);
    }
    read_extension(&mut reader, &mut state)?;
    Some(state)
}

fn read_extension(reader: &mut Reader<'_>, state: &mut ProducerState) -> Option<()> {
    if &reader.take::<4>()? != EXTENSION {
        return None;
    }
    for _ in 0..reader.i32()? {
        let id = reader.i64()?;
        let [count] = reader.take::<1>()?;
        if usize::from(count) >= BATCHES_KEPT {
            return None;
        }
        let entry = state.entries.get_mut(&id)?;
        for at in 0..usize::from(count) {
            let batch = BatchMetadata {
                last_sequence: reader.i32()?,
                last_offset: reader.i64()?,
                offset_delta: reader.i32()?,
                timestamp: reader.i64()?,
            };
            if batch.last_sequence < 0
                || batch.offset_delta < 0
                || batch.last_offset < i64::from(batch.offset_delta)
            {
                return None;
            }
            entry.batches.insert(at, batch);
        }
    }
    reader.0.is_empty().then_some(())
}
