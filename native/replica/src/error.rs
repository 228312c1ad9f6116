//! Errors of partition operations. They have no wire codes; the server maps each variant to one.

use std::sync::Arc;

use pybroker_model::BatchError;
use pybroker_storage::{AppendError, ReadError, StorageError};

/// Why an operation on a partition failed.
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
        /// Epoch in the request.
        requested: i32,
        /// Current epoch of the partition.
        current: i32,
    },
    /// The request names a newer leader epoch (`UNKNOWN_LEADER_EPOCH`).
    #[error("leader epoch {requested} is newer than the current {current}")]
    UnknownLeaderEpoch {
        /// Epoch in the request.
        requested: i32,
        /// Current epoch of the partition.
        current: i32,
    },
    /// The request carries an outdated broker epoch of its sender (`STALE_BROKER_EPOCH`).
    #[error("broker {broker} has registered again since broker epoch {epoch}")]
    StaleBrokerEpoch {
        /// Id of the broker.
        broker: i32,
        /// Broker epoch in the request.
        epoch: i64,
    },
    /// Offset below the log start or above the end (`OFFSET_OUT_OF_RANGE`).
    #[error("offset {requested} is outside [{log_start}, {end}]")]
    OffsetOutOfRange {
        /// Offset in the request.
        requested: i64,
        /// Log start offset.
        log_start: i64,
        /// Largest offset that a request may name.
        end: i64,
    },
    /// The requested offset is above the high watermark that this replica knows, or the high watermark of a new leader
    /// is below the start of its epoch (`OFFSET_NOT_AVAILABLE`).
    #[error("offset {requested} is above the high watermark {known} of this replica")]
    OffsetNotAvailable {
        /// Offset in the request; for ListOffsets, the start of the leader epoch.
        requested: i64,
        /// High watermark of this replica.
        known: i64,
    },
    /// Fewer in-sync replicas than `min.insync.replicas`; nothing was appended (`NOT_ENOUGH_REPLICAS`).
    #[error("{isr} in-sync replicas, but min.insync.replicas is {required}")]
    NotEnoughReplicas {
        /// Number of in-sync replicas.
        isr: usize,
        /// Value of `min.insync.replicas`.
        required: i32,
    },
    /// The transaction coordinator could not confirm the transaction; nothing was appended. The code is
    /// `NOT_ENOUGH_REPLICAS`, which every client retries. It is `CONCURRENT_TRANSACTIONS` if a previous transaction is
    /// still ending and the client accepts this code here.
    #[error("the transaction coordinator cannot confirm the transaction now")]
    Unconfirmed {
        /// The producer's previous transaction is still ending, and the client accepts `CONCURRENT_TRANSACTIONS`.
        ending: bool,
    },
    /// The ISR fell below `min.insync.replicas` after the append (`NOT_ENOUGH_REPLICAS_AFTER_APPEND`).
    #[error("{isr} in-sync replicas after the append, but min.insync.replicas is {required}")]
    NotEnoughReplicasAfterAppend {
        /// Number of in-sync replicas.
        isr: usize,
        /// Value of `min.insync.replicas`.
        required: i32,
    },
    /// The order names another incarnation of the topic, which may be older than the one on disk
    /// (`INCONSISTENT_TOPIC_ID`).
    #[error("the partition on disk belongs to another topic id")]
    InconsistentTopicId,
    /// The disk failed, or the log directory is offline or quarantined (`KAFKA_STORAGE_ERROR`).
    #[error("storage: {0}")]
    Storage(Arc<str>),
    /// The controller counts this replica as in sync, but the replica's log, or the staged segments to link, are
    /// missing on disk (`LOG_DIR_NOT_FOUND`).
    #[error("it is no longer on disk")]
    Missing,
    /// The data at this offset is not a valid batch; other offsets can be read (`CORRUPT_MESSAGE`).
    #[error("damaged on disk: {0}")]
    Corrupt(Arc<str>),
    /// The batches are invalid.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A gap in a producer's sequence numbers (`OUT_OF_ORDER_SEQUENCE_NUMBER`).
    #[error("out of order sequence number: {0}")]
    OutOfOrderSequence(Arc<str>),
    /// An older epoch of the producer id (`INVALID_PRODUCER_EPOCH`).
    #[error("invalid producer epoch: {0}")]
    InvalidProducerEpoch(Arc<str>),
    /// The log has no state of the producer id (`UNKNOWN_PRODUCER_ID`).
    #[error("unknown producer id")]
    UnknownProducerId,
    /// A batch older than the last five of its producer, whose offset is no longer known (`DUPLICATE_SEQUENCE_NUMBER`).
    #[error("duplicate sequence number")]
    DuplicateSequence,
    /// A marker from a replaced transaction coordinator (`TRANSACTION_COORDINATOR_FENCED`).
    #[error("transaction coordinator fenced: {0}")]
    TransactionCoordinatorFenced(Arc<str>),
    /// A batch that does not fit the state of its transaction (`INVALID_TXN_STATE`).
    #[error("invalid transaction state: {0}")]
    InvalidTransactionState(Arc<str>),
    /// The partition is at its limit of producers, and all of them have open transactions (`NOT_ENOUGH_REPLICAS`, which
    /// every client retries).
    #[error("{0}")]
    TooManyProducers(Arc<str>),
    /// More bytes than one segment may hold (`RECORD_LIST_TOO_LARGE`).
    #[error("{size} bytes do not fit a segment of {segment_bytes}")]
    RecordListTooLarge {
        /// Size of all batches together.
        size: usize,
        /// `segment.bytes`.
        segment_bytes: usize,
    },
    /// The topic's cleanup policy forbids the operation (`POLICY_VIOLATION`).
    #[error("{0}")]
    Policy(&'static str),
    /// An invalid argument (`INVALID_REQUEST`).
    #[error("{0}")]
    Invalid(&'static str),
}

impl PartitionError {
    /// Return a [`PartitionError::Storage`] with this text.
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
            // The partition is being stopped, which closes the log before it changes the role.
            AppendError::Storage(StorageError::Closed { .. })
            | AppendError::StaleLeaderEpoch { .. } => Self::NotLeader,
            AppendError::Storage(error) => error.into(),
            AppendError::OutOfOrderSequence { .. } => Self::OutOfOrderSequence(text()),
            AppendError::InvalidProducerEpoch { .. } => Self::InvalidProducerEpoch(text()),
            AppendError::CoordinatorFenced { .. } => Self::TransactionCoordinatorFenced(text()),
            AppendError::InvalidTxnState { .. } => Self::InvalidTransactionState(text()),
            AppendError::TooManyProducers { .. } => Self::TooManyProducers(text()),
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
