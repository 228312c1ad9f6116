//! Errors of record batches from outside.

/// Why a batch is refused. The server maps each variant to one Kafka error code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than the batch claims (`CORRUPT_MESSAGE`).
    #[error("batch needs {needed} bytes but {got} are there")]
    Truncated {
        /// Number of bytes that the header or its length field requires.
        needed: usize,
        /// Number of bytes present.
        got: usize,
    },
    /// The length field is invalid for a batch (`CORRUPT_MESSAGE`).
    #[error("impossible batch length {0}")]
    BadLength(i32),
    /// The checksum does not match (`CORRUPT_MESSAGE`).
    #[error("batch checksum is {computed:#010x}, its header says {stored:#010x}")]
    BadCrc {
        /// Checksum in the header.
        stored: u32,
        /// Checksum of the received bytes.
        computed: u32,
    },
    /// A header field contradicts another (`CORRUPT_MESSAGE`).
    #[error("corrupt batch header: {0}")]
    BadHeader(&'static str),
    /// The compressed bytes do not decompress (`CORRUPT_MESSAGE`).
    #[error("records do not decompress: {0}")]
    Decompression(String),
    /// The batch does not have message format 2 (`UNSUPPORTED_FOR_MESSAGE_FORMAT`; `INVALID_RECORD` in Produce).
    #[error("message format {0} is not supported")]
    UnsupportedMagic(i8),
    /// The codec is unknown, or the request version does not allow it (`UNSUPPORTED_COMPRESSION_TYPE`).
    #[error("compression type {0} is not supported here")]
    UnsupportedCompression(u8),
    /// The batch is larger than `max.message.bytes` (`MESSAGE_TOO_LARGE`).
    #[error("batch of {size} bytes exceeds max.message.bytes {max}")]
    TooLarge {
        /// Bytes of the batch, after recompression if there was one.
        size: usize,
        /// The limit.
        max: i32,
    },
    /// The records decompress to more than the limit for a batch of this size (`MESSAGE_TOO_LARGE`).
    #[error("the records of the batch decompress to more than {max} bytes")]
    Expands {
        /// The limit.
        max: usize,
    },
    /// The records decompress to more than the caller's remaining budget. The caller returns `MESSAGE_TOO_LARGE` if its
    /// budget cannot grow.
    #[error("the records of the request decompress to more than {granted} bytes")]
    OverBudget {
        /// The caller's initial budget.
        granted: usize,
    },
    /// Inner records are malformed or not allowed (`INVALID_RECORD`).
    #[error("invalid record{}: {reason}", .index.map(|i| format!(" {i}")).unwrap_or_default())]
    InvalidRecord {
        /// Position of the wrong record in the batch, for the record errors of Produce v8.
        index: Option<i32>,
        /// The fault, in words for the client's log.
        reason: &'static str,
    },
    /// The topic rejects well-formed records. All of them are listed, ascending, up to [`REJECTED_RECORDS_MAX`]. The
    /// code is `INVALID_TIMESTAMP` if one of them is rejected for its timestamp, else `INVALID_RECORD`.
    #[error("{}", summary(.0))]
    RejectedRecords(Vec<RejectedRecord>),
}

/// Maximum number of rejected records listed for a batch. Clients treat the unlisted ones as rejected too. A compressed
/// batch of a megabyte can hold millions.
pub const REJECTED_RECORDS_MAX: usize = 10_000;

/// A record that the topic rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedRecord {
    /// Position in the batch.
    pub index: i32,
    /// Why it is rejected.
    pub fault: RecordFault,
}

/// Why a topic rejects a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The record has no key, although the topic is compacted.
    #[error("a compacted topic needs a key")]
    NoKey,
    /// The record's timestamp (milliseconds since the epoch) is outside the topic's window.
    #[error("timestamp {0} is outside what the topic accepts")]
    Timestamp(i64),
}

/// Return a text with the number of rejected records and the first three of them.
fn summary(rejected: &[RejectedRecord]) -> String {
    const SHOWN: usize = 3;
    let shown = rejected.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|one| format!("record {}: {}", one.index, one.fault))
        .collect();
    let more = if rejected.len() > SHOWN { "; …" } else { "" };
    let records = if rejected.len() == 1 {
        "record is"
    } else {
        "records are"
    };
    format!(
        "{} {records} rejected: {}{more}",
        rejected.len(),
        shown.join("; ")
    )
}

impl BatchError {
    /// Return a [`BatchError::InvalidRecord`] without a record index.
    #[must_use]
    pub const fn invalid(reason: &'static str) -> Self {
        Self::InvalidRecord {
            index: None,
            reason,
        }
    }

    /// Return a [`BatchError::InvalidRecord`] of the record at `index`.
    #[must_use]
    pub(crate) const fn invalid_at(index: i32, reason: &'static str) -> Self {
        Self::InvalidRecord {
            index: Some(index),
            reason,
        }
    }
}
