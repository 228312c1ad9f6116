//! The few bytes of a batch that a broker may rewrite in place.
//!
//! Base offset and leader epoch are before the checksummed part, so a leader can assign them under its lock without
//! recomputing the checksum. All functions expect a complete batch that the caller has parsed, as [`crate::Batches`]
//! yields it. They panic if it is shorter.

use crate::TimestampType;
use crate::crc::crc32c;
use crate::record_batch::{
    ATTRIBUTES_AT, CRC_AT, LEADER_EPOCH_AT, LOG_APPEND_TIME_BIT, MAX_TIMESTAMP_AT,
};

/// Set the offset of the first record.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
}

/// Set the epoch of the leader that appends the batch.
pub fn set_leader_epoch(batch: &mut [u8], epoch: i32) {
    batch[LEADER_EPOCH_AT..LEADER_EPOCH_AT + 4].copy_from_slice(&epoch.to_be_bytes());
}

/// Set timestamp type and largest timestamp, and update the checksum.
pub fn set_timestamp_type_and_max(batch: &mut [u8], kind: TimestampType, max_timestamp: i64) {
    let old = i16::from_be_bytes([batch[ATTRIBUTES_AT], batch[ATTRIBUTES_AT + 1]]);
    let new = match kind {
        TimestampType::CreateTime => old & !LOG_APPEND_TIME_BIT,
        TimestampType::LogAppendTime => old | LOG_APPEND_TIME_BIT,
    };
    batch[ATTRIBUTES_AT..ATTRIBUTES_AT + 2].copy_from_slice(&new.to_be_bytes());
    batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&max_timestamp.to_be_bytes());
    recompute_crc(batch);
}

/// Recompute the checksum and store it.
pub fn recompute_crc(batch: &mut [u8]) {
    let crc = crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
}
