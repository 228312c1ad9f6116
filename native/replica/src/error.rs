//! What a partition answers when it cannot do what was asked. No wire codes here: the server maps each variant once.

use std::sync::Arc;

use pybroker_model::BatchError;
use pybroker_storage::{AppendError, ReadError, StorageError};

/// Why an operation on a partition fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// This broker does not lead the partition (`NOT_LEADER_OR_FOLLOWER`).
    #[error("not the leader")]
    NotLeader,
    /// The partition was deleted while the request ran (`UNKNOWN_TOPIC_OR_PARTITION`, by id `UNKNOWN_TOPIC_ID`).
    #[error("the topic was deleted")]
    Deleted,
    /// The request names an older leader epoch (`FENCED_LEADER_EPOCH`).
    #[error("leader epoch {requested} is older than the current {current}")]
    FencedLeaderEpoch {
        /// In the request.
        requested: i32,
        /// Here.
        current: i32,
    },
    /// The request names a newer leader epoch (`UNKNOWN_LEADER_EPOCH`).
    #[error("leader epoch {requested} is newer than the current {current}")]
    UnknownLeaderEpoch {
        /// In the request.
        requested: i32,
        /// Here.
        current: i32,
    },
    /// The request is of an earlier life of that broker (`STALE_BROKER_EPOCH`).
    #[error("broker {broker} has registered anew since its epoch {epoch}")]
    StaleBrokerEpoch {
        /// Its id.
        broker: i32,
        /// In the request.
        epoch: i64,
    },
    /// Offset below the log start or above the end (`OFFSET_OUT_OF_RANGE`).
    #[error("offset {requested} is outside [{log_start}, {end}]")]
    OffsetOutOfRange {
        /// In the request.
        requested: i64,
        /// First offset there is.
        log_start: i64,
        /// The largest that may be asked for.
        end: i64,
    },
    /// This replica does not know yet that so much is committed (`OFFSET_NOT_AVAILABLE`).
    #[error("offset {requested} is not known to be committed here, {known} is")]
    OffsetNotAvailable {
        /// In the request.
        requested: i64,
        /// The high watermark here.
        known: i64,
    },
    /// Fewer in-sync replicas than `min.insync.replicas`; nothing was appended (`NOT_ENOUGH_REPLICAS`).
    #[error("{isr} in-sync replicas, min.insync.replicas asks for {required}")]
    NotEnoughReplicas {
        /// In-sync replicas.
        isr: usize,
        /// The setting.
        required: i32,
    },
    /// Whether the records are part of a transaction cannot be known now; nothing was appended (`NOT_ENOUGH_REPLICAS`,
    /// which every client tries again, `CONCURRENT_TRANSACTIONS` if that is why and the client knows it here).
    #[error("the transaction's coordinator cannot confirm it now")]
    Unconfirmed {
        /// The producer's transaction before is still being ended, and the client is to be told so.
        ending: bool,
    },
    /// The in-sync replicas became too few after the append (`NOT_ENOUGH_REPLICAS_AFTER_APPEND`).
    #[error("{isr} in-sync replicas after the append, min.insync.replicas asks for {required}")]
    NotEnoughReplicasAfterAppend {
        /// In-sync replicas.
        isr: usize,
        /// The setting.
        required: i32,
    },
    /// The order names another incarnation of the topic that is not proven newer (`INCONSISTENT_TOPIC_ID`).
    #[error("the partition on disk belongs to another topic id")]
    InconsistentTopicId,
    /// The disk failed, or the partition's directory is offline or quarantined (`KAFKA_STORAGE_ERROR`).
    #[error("storage: {0}")]
    Storage(Arc<str>),
    /// It is taken for in sync, and nothing of its log, or of what is to be attached, is on disk (`LOG_DIR_NOT_FOUND`).
    #[error("nothing of it is on disk any more")]
    Missing,
    /// What is on disk at this offset is no batch any more; other offsets can be read (`CORRUPT_MESSAGE`).
    #[error("damaged on disk: {0}")]
    Corrupt(Arc<str>),
    /// The batches themselves are refused.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A gap in a producer's sequence numbers (`OUT_OF_ORDER_SEQUENCE_NUMBER`).
    #[error("out of order sequence number: {0}")]
    OutOfOrderSequence(Arc<str>),
    /// An older epoch of the producer id (`INVALID_PRODUCER_EPOCH`).
    #[error("invalid producer epoch: {0}")]
    InvalidProducerEpoch(Arc<str>),
    /// Nothing is known of the producer id (`UNKNOWN_PRODUCER_ID`).
    #[error("unknown producer id")]
    UnknownProducerId,
    /// A batch older than the last five of its producer, whose offset is not known any more
    /// (`DUPLICATE_SEQUENCE_NUMBER`).
    #[error("duplicate sequence number")]
    DuplicateSequence,
    /// A marker of a coordinator that was replaced (`TRANSACTION_COORDINATOR_FENCED`).
    #[error("transaction coordinator fenced: {0}")]
    TransactionCoordinatorFenced(Arc<str>),
    /// A batch that does not fit the state of its transaction (`INVALID_TXN_STATE`).
    #[error("invalid transaction state: {0}")]
    InvalidTransactionState(Arc<str>),
    /// More bytes than one segment may hold (`RECORD_LIST_TOO_LARGE`).
    #[error("{size} bytes do not fit a segment of {segment_bytes}")]
    RecordListTooLarge {
        /// Of all batches together.
        size: usize,
        /// `segment.bytes`.
        segment_bytes: usize,
    },
    /// The topic's cleanup policy does not allow it (`POLICY_VIOLATION`).
    #[error("{0}")]
    Policy(&'static str),
    /// An argument that makes no sense (`INVALID_REQUEST`).
    #[error("{0}")]
    Invalid(&'static str),
}

impl PartitionError {
    /// A [`PartitionError::Storage`] with this text.
    pub fn storage(reason: impl std::fmt::Display) -> Self {
        Self::Storage(reason.to_string().into())
    }
}

impl From<StorageError> for PartitionError {
    fn from(error: StorageError) -> Self {
        Self::storage(error)
    }
}

impl From<AppendError> for PartitionError {
    fn from(error: AppendError) -> Self {
        let text = || Arc::from(error.to_string());
        match error {
            // A log is closed by whoever stops the partition; the role says so a moment later.
            AppendError::Storage(StorageError::Closed { .. })
            | AppendError::StaleLeaderEpoch { .. } => Self::NotLeader,
            AppendError::Storage(error) => error.into(),
            AppendError::OutOfOrderSequence { .. } => Self::OutOfOrderSequence(text()),
            AppendError::InvalidProducerEpoch { .. } => Self::InvalidProducerEpoch(text()),
            AppendError::CoordinatorFenced { .. } => Self::TransactionCoordinatorFenced(text()),
            AppendError::InvalidTxnState { .. } => Self::InvalidTransactionState(text()),
            AppendError::LargerThanSegment { size, max } => Self::RecordListTooLarge {
                size,
                segment_bytes: max as usize,
            },
            AppendError::Batch(error) => Self::Batch(error),
            AppendError::OffsetsExhausted { .. } | AppendError::UnexpectedOffset { .. } => {
                Self::storage(error)
            }
        }
    }
}

impl From<ReadError> for PartitionError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(StorageError::Closed { .. }) => Self::NotLeader,
            ReadError::Storage(error @ StorageError::Corrupt { .. }) => {
                Self::Corrupt(error.to_string().into())
            }
            ReadError::Storage(error) => error.into(),
            ReadError::OutOfRange { offset, start, end } => Self::OffsetOutOfRange {
                requested: offset,
                log_start: start,
                end,
            },
        }
    }
}
