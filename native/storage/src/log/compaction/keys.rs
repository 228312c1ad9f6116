//! The newest offset of each key in the dirty part of a log.

use super::filter::AbortedRanges;
use crate::error::StorageError;
use crate::file_names::LOG;
use crate::log::Segments;
use crate::scan::Depth;
use crate::txn_index::AbortedTransaction;
use pybroker_model::{BatchHeader, Records, decompressed_records};
use std::hash::{BuildHasher, RandomState};

/// Keys are stored as 128-bit hashes. Each pass uses random seeds, because a collision would lose a record and clients
/// must not be able to construct one.
#[derive(Debug)]
pub(super) struct KeyOffsets {
    seeds: [RandomState; 2],
    offsets: hashbrown::HashMap<u128, i64>,
    end: i64,
}

impl KeyOffsets {
    /// Read the offsets `first_dirty..end`. Stop earlier, between batches, if `keys_max` is reached.
    pub(super) fn build(
        segments: &Segments,
        first_dirty: i64,
        end: i64,
        aborted: &[AbortedTransaction],
        keys_max: usize,
    ) -> Result<Self, StorageError> {
        let mut keys = Self {
            seeds: [RandomState::new(), RandomState::new()],
            offsets: hashbrown::HashMap::new(),
            end,
        };
        let aborted = AbortedRanges::new(aborted);
        let mut scratch = Vec::new();
        let mut full_at = None;
        for segment in segments
            .iter()
            .filter(|segment| segment.end_offset() > first_dirty)
        {
            segment.for_each(Depth::Whole, first_dirty, |_, header, batch| {
                if header.base_offset >= end {
                    return Ok(false);
                }
                if keys.offsets.len() >= keys_max && !keys.offsets.is_empty() {
                    full_at = Some(header.base_offset);
                    return Ok(false);
                }
                if header.is_control() || aborted.contains(header) {
                    return Ok(true);
                }
                keys.note(header, batch, first_dirty, &mut scratch)
                    .map_err(|error| StorageError::Corrupt {
                        path: segment.path(LOG),
                        reason: format!("batch at offset {}: {error}", header.base_offset),
                    })?;
                Ok(true)
            })?;
            if let Some(offset) = full_at {
                keys.end = offset;
                break;
            }
        }
        Ok(keys)
    }

    fn note(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        first_dirty: i64,
        scratch: &mut Vec<u8>,
    ) -> Result<(), pybroker_model::BatchError> {
        let plain = decompressed_records(header, batch, scratch)?;
        let records = Records::new(header, plain);
        for record in records.clone() {
            let record = record?;
            let offset = records.offset(&record);
            if let Some(key) = record.key
                && offset >= first_dirty
            {
                self.offsets.insert(self.hash(key), offset);
            }
        }
        Ok(())
    }

    fn hash(&self, key: &[u8]) -> u128 {
        let [a, b] = &self.seeds;
        u128::from(a.hash_one(key)) << 64 | u128::from(b.hash_one(key))
    }

    /// Return the end of the part that was read.
    pub(super) const fn end(&self) -> i64 {
        self.end
    }

    /// Return whether the record with `key` at `offset` is the newest.
    pub(super) fn is_newest(&self, key: &[u8], offset: i64) -> bool {
        self.offsets
            .get(&self.hash(key))
            .is_none_or(|&newest| offset >= newest)
    }
}
