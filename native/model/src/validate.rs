//! Validation of produced batches before they reach a log. Runs outside the log's lock.
//!
//! Follows Kafka's `ProduceRequest.validateRecords` (exactly one batch of format 2) and `LogValidator` (counts,
//! offsets, keys, timestamps); One check is stricter, without effect on clients: the inner offsets of uncompressed
//! batches must be consecutive, too.

use crate::compression::has_linked_lz4_blocks;
use crate::record::RecordRef;
use crate::record_batch::DELETE_HORIZON_BIT;
use crate::stamp::set_timestamp_type_and_max;
use crate::walk::{EXPANSION_MAX, ExpansionBudget, walk};
use crate::{
    BATCH_LENGTH_END, BatchError, BatchHeader, Batches, Codec, DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES, NO_TIMESTAMP, REJECTED_RECORDS_MAX, RecordFault, RejectedRecord, TimestampType,
    compress, decompress,
};

/// Limit of decompressed bytes for the recompression of one batch: this number or [`EXPANSION_MAX`] times the batch's
/// size. All decompressed bytes are in memory, and compression takes a second for each 30 MB (gzip).
const RECOMPRESSED_BYTES_MAX: usize = 32 << 20;
/// Number of bytes whose decompression costs as much as compressing one byte.
const RECOMPRESSION_COST: usize = 8;

/// Value of the topic config `compression.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// Keep the producer's codec.
    Producer,
    /// Recompress batches with another codec, at this level if the codec has levels.
    Recompress(Codec, Option<i32>),
}

/// The topic's rules at the time of the request.
#[derive(Clone, Debug)]
pub struct ProduceRules {
    /// `max.message.bytes`: limit for one batch, as stored.
    pub max_message_bytes: i32,
    /// `cleanup.policy` includes `compact`: each record needs a key.
    pub compacted: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
    /// `compression.type`.
    pub compression_type: CompressionType,
    /// Whether the request version allows zstd (KIP-110: from Produce v7 on).
    pub zstd_allowed: bool,
    /// Time of the broker's clock, in milliseconds since the epoch.
    pub now_ms: i64,
}

/// Complete batches of format 2 with matching checksums: bytes that passed [`validate_produce`], or that the broker
/// built. Only these can be appended.
#[derive(Debug)]
pub struct ValidBatches<'a> {
    bytes: Bytes<'a>,
    first: BatchHeader,
    count: usize,
    log_append_time: Option<i64>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Borrowed(&'a mut [u8]),
    Owned(Vec<u8>),
}

impl<'a> ValidBatches<'a> {
    /// Check batches that did not come from a client: structure and checksums, but not the inner records.
    ///
    /// # Errors
    /// The first fault. An incomplete batch at the end and an empty buffer are also faults.
    pub fn checked(bytes: &'a mut [u8]) -> Result<Self, BatchError> {
        Self::of_checked(Bytes::Borrowed(bytes))
    }

    /// Like [`ValidBatches::checked`], owning the bytes.
    ///
    /// # Errors
    /// As [`ValidBatches::checked`].
    pub fn checked_owned(bytes: Vec<u8>) -> Result<ValidBatches<'static>, BatchError> {
        ValidBatches::of_checked(Bytes::Owned(bytes))
    }

    fn of_checked(bytes: Bytes<'a>) -> Result<Self, BatchError> {
        let slice = match &bytes {
            Bytes::Borrowed(slice) => &**slice,
            Bytes::Owned(vec) => vec,
        };
        let mut batches = Batches::new(slice);
        let mut first = None;
        let mut count = 0;
        for batch in &mut batches {
            let (header, batch) = batch?;
            header.check()?;
            header.check_crc(batch)?;
            first.get_or_insert(header);
            count += 1;
        }
        if batches.rest() > 0 {
            return Err(BatchError::Truncated {
                needed: slice.len() - batches.rest() + HEADER_BYTES,
                got: slice.len(),
            });
        }
        let first = first.ok_or(BatchError::invalid("no record batch"))?;
        Ok(Self {
            bytes,
            first,
            count,
            log_append_time: None,
        })
    }

    /// Return the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Borrowed(slice) => slice,
            Bytes::Owned(vec) => vec,
        }
    }

    /// Return the bytes, so that the leader can set offsets and leader epoch. The caller must not change other fields.
    #[must_use]
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Bytes::Borrowed(slice) => slice,
            Bytes::Owned(vec) => vec,
        }
    }

    /// Return the header of the first batch. A client sends only one batch.
    #[must_use]
    pub const fn first(&self) -> &BatchHeader {
        &self.first
    }

    /// Return the number of batches.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Return the append time stamped on the batches, if the topic uses LogAppendTime.
    #[must_use]
    pub const fn log_append_time(&self) -> Option<i64> {
        self.log_append_time
    }
}

/// Validate the records field of one partition in a Produce request (v3 and later) and apply the topic's settings:
/// append time, codec, a corrected largest timestamp.
///
/// # Errors
/// The first fault of the batch, or all records that the topic rejects. The error determines the Kafka error code and
/// the record errors of v8.
pub fn validate_produce<'a>(
    records: &'a mut [u8],
    rules: &ProduceRules,
) -> Result<ValidBatches<'a>, BatchError> {
    validate_within(records, rules, &mut ExpansionBudget::new(usize::MAX))
}

/// Like [`validate_produce`], but decompress no more than `budget` allows.
///
/// # Errors
/// The errors of [`validate_produce`]; also [`BatchError::OverBudget`], after which the records are unchanged and not
/// completely checked.
pub fn validate_within<'a>(
    records: &'a mut [u8],
    rules: &ProduceRules,
    budget: &mut ExpansionBudget,
) -> Result<ValidBatches<'a>, BatchError> {
    if records.len() < BATCH_LENGTH_END {
        return Err(BatchError::invalid("no record batch"));
    }
    let header = BatchHeader::parse(records)?;
    let size = header.size_in_bytes();
    if size > records.len() {
        return Err(BatchError::Truncated {
            needed: size,
            got: records.len(),
        });
    }
    if size < records.len() {
        return Err(BatchError::invalid("more than one record batch"));
    }
    check_size(&header, rules)?;
    // Check the checksum before the fields that it covers: a bit flip in transit is a corrupt message, which a producer
    // retries, not an invalid record, which it drops.
    header.check_crc(records)?;
    check_header(&header, rules)?;
    let codec = header.codec()?;
    let (max_timestamp, plain_bytes) =
        check_records(&header, codec, &records[HEADER_BYTES..], rules, budget)?;
    let other = match rules.compression_type {
        CompressionType::Recompress(target, level) if target != codec => Some((target, level)),
        _ => None,
    };
    if codec == Codec::Lz4 && other.is_none() && has_linked_lz4_blocks(&records[HEADER_BYTES..]) {
        return Err(BatchError::invalid(
            "an LZ4 frame whose blocks depend on each other: Java consumers cannot read it",
        ));
    }

    let (timestamp_type, max_timestamp) = match rules.timestamp_type {
        TimestampType::CreateTime => (TimestampType::CreateTime, max_timestamp),
        TimestampType::LogAppendTime => (TimestampType::LogAppendTime, rules.now_ms),
    };
    let restamp =
        header.timestamp_type() != timestamp_type || header.max_timestamp != max_timestamp;
    let mut bytes = match other {
        Some((target, level)) => {
            let max = RECOMPRESSED_BYTES_MAX.max(size.saturating_mul(EXPANSION_MAX));
            if plain_bytes > max {
                return Err(BatchError::Expands { max });
            }
            budget.take(plain_bytes.saturating_mul(RECOMPRESSION_COST))?;
            Bytes::Owned(recompress(&header, records, target, level, rules)?)
        }
        None => Bytes::Borrowed(records),
    };
    let stored = match &mut bytes {
        Bytes::Borrowed(slice) => &mut **slice,
        Bytes::Owned(vec) => vec,
    };
    if restamp {
        set_timestamp_type_and_max(stored, timestamp_type, max_timestamp);
    }
    let first = if restamp || matches!(rules.compression_type, CompressionType::Recompress(..)) {
        BatchHeader::parse(stored)?
    } else {
        header
    };
    let log_append_time = (timestamp_type == TimestampType::LogAppendTime).then_some(rules.now_ms);
    Ok(ValidBatches {
        bytes,
        first,
        count: 1,
        log_append_time,
    })
}

fn check_size(header: &BatchHeader, rules: &ProduceRules) -> Result<(), BatchError> {
    if header.size_in_bytes() > usize::try_from(rules.max_message_bytes).unwrap_or(0) {
        return Err(BatchError::TooLarge {
            size: header.size_in_bytes(),
            max: rules.max_message_bytes,
        });
    }
    Ok(())
}

fn check_header(header: &BatchHeader, rules: &ProduceRules) -> Result<(), BatchError> {
    if header.codec()? == Codec::Zstd && !rules.zstd_allowed {
        return Err(BatchError::UnsupportedCompression(Codec::Zstd as u8));
    }
    if header.is_control() {
        return Err(BatchError::invalid("clients may not write control records"));
    }
    if header.base_offset != 0 {
        return Err(BatchError::invalid(
            "base offset of a produced batch must be 0",
        ));
    }
    if header.record_count <= 0 {
        return Err(BatchError::invalid("batch has no records"));
    }
    if i64::from(header.last_offset_delta) + 1 != i64::from(header.record_count) {
        return Err(BatchError::invalid(
            "record count differs from the offset range",
        ));
    }
    if header.attributes & DELETE_HORIZON_BIT != 0 {
        return Err(BatchError::invalid("clients may not set a delete horizon"));
    }
    if header.has_producer_id() && (header.producer_epoch < 0 || header.base_sequence < 0) {
        return Err(BatchError::invalid("producer id without epoch or sequence"));
    }
    if header.is_transactional() && !header.has_producer_id() {
        return Err(BatchError::invalid(
            "transactional batch without producer id",
        ));
    }
    Ok(())
}

/// Check each record. Return the largest timestamp, and the size of the decompressed records.
fn check_records(
    header: &BatchHeader,
    codec: Codec,
    records: &[u8],
    rules: &ProduceRules,
    budget: &mut ExpansionBudget,
) -> Result<(i64, usize), BatchError> {
    let create_time = rules.timestamp_type == TimestampType::CreateTime;
    let oldest = rules.now_ms.saturating_sub(rules.before_max_ms);
    let newest = rules.now_ms.saturating_add(rules.after_max_ms);
    let mut max_timestamp = NO_TIMESTAMP;
    let mut rejected = Vec::new();
    let visit = |index, record: &RecordRef<'_>| {
        if record.offset_delta != index {
            return Err(BatchError::invalid_at(index, "offsets are not consecutive"));
        }
        if rules.compacted && record.key.is_none() {
            return reject(&mut rejected, index, RecordFault::NoKey);
        }
        if create_time {
            let accepted = header
                .base_timestamp
                .checked_add(record.timestamp_delta)
                .filter(|&t| t == NO_TIMESTAMP || (t >= oldest && t <= newest));
            let Some(timestamp) = accepted else {
                let timestamp = header.base_timestamp.wrapping_add(record.timestamp_delta);
                return reject(&mut rejected, index, RecordFault::Timestamp(timestamp));
            };
            max_timestamp = max_timestamp.max(timestamp);
        }
        Ok(())
    };
    let walked = walk(codec, records, header.record_count, budget, visit);
    if rejected.len() >= REJECTED_RECORDS_MAX {
        return Err(BatchError::RejectedRecords(rejected));
    }
    let plain_bytes = walked?;
    if rejected.is_empty() {
        Ok((max_timestamp, plain_bytes))
    } else {
        Err(BatchError::RejectedRecords(rejected))
    }
}

/// Record a rejected record. End the iteration when the list is full.
#[cold]
fn reject(
    rejected: &mut Vec<RejectedRecord>,
    index: i32,
    fault: RecordFault,
) -> Result<(), BatchError> {
    rejected.push(RejectedRecord { index, fault });
    if rejected.len() < REJECTED_RECORDS_MAX {
        Ok(())
    } else {
        Err(BatchError::invalid("too many records are rejected"))
    }
}

/// Return the batch with its records compressed by `target`. Inner offsets and timestamps stay unchanged, so the
/// records need not be parsed.
fn recompress(
    header: &BatchHeader,
    batch: &[u8],
    target: Codec,
    level: Option<i32>,
    rules: &ProduceRules,
) -> Result<Vec<u8>, BatchError> {
    let mut plain = Vec::new();
    decompress(
        header.codec()?,
        &batch[HEADER_BYTES..],
        &mut plain,
        DECOMPRESSED_BYTES_MAX,
    )?;
    let mut out = batch[..HEADER_BYTES].to_vec();
    compress(target, level, &plain, &mut out)?;
    if out.len() > usize::try_from(rules.max_message_bytes).unwrap_or(0) {
        return Err(BatchError::TooLarge {
            size: out.len(),
            max: rules.max_message_bytes,
        });
    }
    let mut header = *header;
    header.batch_length = (out.len() - BATCH_LENGTH_END) as i32;
    header.attributes = (header.attributes & !crate::record_batch::CODEC_MASK) | target as i16;
    header.write(&mut out);
    crate::stamp::recompute_crc(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests;
