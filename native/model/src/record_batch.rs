//! The header of a record batch (message format 2, KIP-98).
//!
//! ```text
//!  0 base_offset i64        17 crc u32 (of all that follows)   43 producer_id i64
//!  8 batch_length i32       21 attributes i16                  51 producer_epoch i16
//! 12 leader_epoch i32       23 last_offset_delta i32           53 base_sequence i32
//! 16 magic i8               27 base_timestamp i64              57 record_count i32
//!                           35 max_timestamp i64               61 records
//! attributes: 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
//! ```

use crate::{BatchError, Codec, crc32c};

/// Size of the header in bytes.
pub const HEADER_BYTES: usize = 61;
/// Bytes up to and including the length field, which the length does not include.
pub const BATCH_LENGTH_END: usize = 12;
/// The only message format written or accepted.
pub const MAGIC_V2: i8 = 2;
/// The producer id of a batch that is not idempotent.
pub const NO_PRODUCER_ID: i64 = -1;
/// The producer epoch of a batch without producer id.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// The base sequence of a batch without producer id.
pub const NO_SEQUENCE: i32 = -1;
/// The timestamp of a record without timestamp.
pub const NO_TIMESTAMP: i64 = -1;
/// The leader epoch if it is not known.
pub const NO_PARTITION_LEADER_EPOCH: i32 = -1;

pub(crate) const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
pub(crate) const CRC_AT: usize = 17;
pub(crate) const ATTRIBUTES_AT: usize = 21;
pub(crate) const LAST_OFFSET_DELTA_AT: usize = 23;
pub(crate) const BASE_TIMESTAMP_AT: usize = 27;
pub(crate) const MAX_TIMESTAMP_AT: usize = 35;
const PRODUCER_ID_AT: usize = 43;
const PRODUCER_EPOCH_AT: usize = 51;
const BASE_SEQUENCE_AT: usize = 53;
pub(crate) const RECORD_COUNT_AT: usize = 57;

pub(crate) const CODEC_MASK: i16 = 0x07;
pub(crate) const LOG_APPEND_TIME_BIT: i16 = 0x08;
pub(crate) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(crate) const CONTROL_BIT: i16 = 0x20;
pub(crate) const DELETE_HORIZON_BIT: i16 = 0x40;

/// Who sets the timestamps of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer sets them.
    CreateTime,
    /// The broker sets them at the append. All records of a batch share one timestamp.
    LogAppendTime,
}

/// All fields of a batch header, parsed but not yet checked against the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record. It stays the same after compaction removes that record.
    pub base_offset: i64,
    /// Number of bytes after this field.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch. The checksum does not cover it.
    pub partition_leader_epoch: i32,
    /// Message format; always 2 in this type.
    pub magic: i8,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Bits for the codec, the timestamp type, transactions, control batches and the delete horizon.
    pub attributes: i16,
    /// Last offset minus base offset. Compaction does not change it.
    pub last_offset_delta: i32,
    /// Base timestamp in milliseconds, or the delete horizon if its attribute bit is set.
    pub base_timestamp: i64,
    /// Largest timestamp of the records, or the append time.
    pub max_timestamp: i64,
    /// Producer id, or [`NO_PRODUCER_ID`].
    pub producer_id: i64,
    /// Epoch of the producer.
    pub producer_epoch: i16,
    /// Sequence of the first record, or [`NO_SEQUENCE`].
    pub base_sequence: i32,
    /// Number of records in the batch.
    pub record_count: i32,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl BatchHeader {
    /// Parse the header at the front of `bytes`. The rest of the batch may be missing; [`BatchHeader::size_in_bytes`]
    /// returns its length.
    ///
    /// # Errors
    /// If there are too few bytes, the message format is not 2, or a length is impossible.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // The magic byte defines the format of the remaining header, so check it before requiring 61 bytes.
        if let Some(&magic) = bytes.get(MAGIC_AT)
            && magic as i8 != MAGIC_V2
        {
            return Err(BatchError::UnsupportedMagic(magic as i8));
        }
        if bytes.len() < HEADER_BYTES {
            return Err(BatchError::Truncated {
                needed: HEADER_BYTES,
                got: bytes.len(),
            });
        }
        let header = Self {
            base_offset: i64::from_be_bytes(array(bytes, 0)),
            batch_length: i32::from_be_bytes(array(bytes, 8)),
            partition_leader_epoch: i32::from_be_bytes(array(bytes, LEADER_EPOCH_AT)),
            magic: bytes[MAGIC_AT] as i8,
            crc: u32::from_be_bytes(array(bytes, CRC_AT)),
            attributes: i16::from_be_bytes(array(bytes, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(array(bytes, LAST_OFFSET_DELTA_AT)),
            base_timestamp: i64::from_be_bytes(array(bytes, BASE_TIMESTAMP_AT)),
            max_timestamp: i64::from_be_bytes(array(bytes, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(array(bytes, PRODUCER_ID_AT)),
            producer_epoch: i16::from_be_bytes(array(bytes, PRODUCER_EPOCH_AT)),
            base_sequence: i32::from_be_bytes(array(bytes, BASE_SEQUENCE_AT)),
            record_count: i32::from_be_bytes(array(bytes, RECORD_COUNT_AT)),
        };
        if header.batch_length < (HEADER_BYTES - BATCH_LENGTH_END) as i32 {
            return Err(BatchError::BadLength(header.batch_length));
        }
        Ok(header)
    }

    /// Check rules that hold for every batch, even after compaction: counts are not negative, there is at most one
    /// record for each offset, and offsets do not overflow.
    ///
    /// # Errors
    /// [`BatchError::BadHeader`] with the field's name.
    pub fn check(&self) -> Result<(), BatchError> {
        if self.base_offset < 0 {
            return Err(BatchError::BadHeader("negative base offset"));
        }
        if self.last_offset_delta < 0 {
            return Err(BatchError::BadHeader("negative last offset delta"));
        }
        if self
            .base_offset
            .checked_add(i64::from(self.last_offset_delta) + 1)
            .is_none()
        {
            return Err(BatchError::BadHeader("offsets overflow"));
        }
        if self.record_count < 0
            || i64::from(self.record_count) > i64::from(self.last_offset_delta) + 1
        {
            return Err(BatchError::BadHeader(
                "record count does not fit the offsets",
            ));
        }
        // A record has at least seven bytes, but compressed records may have fewer. So check only the codec.
        self.codec().map(|_| ())
    }

    /// Check the checksum of `batch`, which must be the whole batch.
    ///
    /// # Errors
    /// [`BatchError::BadCrc`], or [`BatchError::Truncated`] if `batch` is not whole.
    pub fn check_crc(&self, batch: &[u8]) -> Result<(), BatchError> {
        let size = self.size_in_bytes();
        let Some(covered) = batch.get(ATTRIBUTES_AT..size) else {
            return Err(BatchError::Truncated {
                needed: size,
                got: batch.len(),
            });
        };
        let computed = crc32c(covered);
        if computed == self.crc {
            Ok(())
        } else {
            Err(BatchError::BadCrc {
                stored: self.crc,
                computed,
            })
        }
    }

    /// Return the size of the whole batch, header included.
    #[must_use]
    pub const fn size_in_bytes(&self) -> usize {
        // `parse` refuses negative lengths.
        BATCH_LENGTH_END + self.batch_length as usize
    }

    /// Return the offset of the last record. The sum saturates, so that hostile headers cannot cause an overflow.
    #[must_use]
    pub const fn last_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(self.last_offset_delta as i64)
    }

    /// Return the offset after this batch.
    #[must_use]
    pub const fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Return the sequence of the last record, or [`NO_SEQUENCE`]; sequences wrap to 0 after `i32::MAX`.
    #[must_use]
    pub const fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            increment_sequence(self.base_sequence, self.last_offset_delta)
        }
    }

    /// Return the codec of the records.
    ///
    /// # Errors
    /// [`BatchError::UnsupportedCompression`] for an unknown code.
    pub const fn codec(&self) -> Result<Codec, BatchError> {
        match Codec::from_code((self.attributes & CODEC_MASK) as u8) {
            Some(codec) => Ok(codec),
            None => Err(BatchError::UnsupportedCompression(
                (self.attributes & CODEC_MASK) as u8,
            )),
        }
    }

    /// Return the timestamp type.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Return whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Return whether the batch has control records (transaction markers).
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Return the time in milliseconds when compaction may remove the batch's tombstones, if compaction has set it.
    #[must_use]
    pub const fn delete_horizon_ms(&self) -> Option<i64> {
        if self.attributes & DELETE_HORIZON_BIT == 0 {
            None
        } else {
            Some(self.base_timestamp)
        }
    }

    /// Return whether the batch has a producer id.
    #[must_use]
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Write the header to the front of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than [`HEADER_BYTES`]; the caller allocated the buffer.
    pub fn write(&self, out: &mut [u8]) {
        out[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..16].copy_from_slice(&self.partition_leader_epoch.to_be_bytes());
        out[MAGIC_AT] = self.magic as u8;
        out[17..21].copy_from_slice(&self.crc.to_be_bytes());
        out[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        out[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        out[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        out[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        out[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        out[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[57..61].copy_from_slice(&self.record_count.to_be_bytes());
    }
}

/// Return `sequence + increment`, wrapping from `i32::MAX` to 0 (both non-negative).
#[must_use]
pub const fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    let sum = sequence as i64 + increment as i64;
    (if sum > i32::MAX as i64 {
        sum - i32::MAX as i64 - 1
    } else {
        sum
    }) as i32
}
