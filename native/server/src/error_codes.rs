//! Mapping of internal errors to Kafka's error codes; the only such place.

use pybroker_model::{BatchError, RecordFault, RejectedRecord};
use pybroker_protocol::ErrorCode;
use pybroker_replica::{IngestError, PartitionError};

/// How a request names topics, which selects the error for unknown topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By name: UNKNOWN_TOPIC_OR_PARTITION.
    Name,
    /// By topic id: UNKNOWN_TOPIC_ID.
    Id,
}

/// Return the error for a topic that does not exist.
pub(crate) fn unknown_topic(naming: Naming) -> ErrorCode {
    match naming {
        Naming::Name => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Naming::Id => ErrorCode::UNKNOWN_TOPIC_ID,
    }
}

/// Return the error for a refused batch. As in Kafka's Produce, a wrong format is INVALID_RECORD
/// (`ProduceRequest.validateRecords`).
pub fn of_batch(error: &BatchError) -> ErrorCode {
    match error {
        BatchError::Truncated { .. }
        | BatchError::BadLength(_)
        | BatchError::BadCrc { .. }
        | BatchError::BadHeader(_)
        | BatchError::Decompression(_) => ErrorCode::CORRUPT_MESSAGE,
        BatchError::UnsupportedMagic(_) | BatchError::InvalidRecord { .. } => {
            ErrorCode::INVALID_RECORD
        }
        BatchError::UnsupportedCompression(_) => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        BatchError::TooLarge { .. }
        | BatchError::Expands { .. }
        | BatchError::OverBudget { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        BatchError::RejectedRecords(rejected) => {
            let late = |one: &RejectedRecord| matches!(one.fault, RecordFault::Timestamp(_));
            if rejected.iter().any(late) {
                ErrorCode::INVALID_TIMESTAMP
            } else {
                ErrorCode::INVALID_RECORD
            }
        }
    }
}

/// Return the error for a partition that refuses an operation.
pub fn of_partition(error: &PartitionError, naming: Naming) -> ErrorCode {
    match error {
        PartitionError::NotLeader => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        PartitionError::Deleted => unknown_topic(naming),
        PartitionError::FencedLeaderEpoch { .. } => ErrorCode::FENCED_LEADER_EPOCH,
        PartitionError::StaleBrokerEpoch { .. } => ErrorCode::STALE_BROKER_EPOCH,
        PartitionError::UnknownLeaderEpoch { .. } => ErrorCode::UNKNOWN_LEADER_EPOCH,
        PartitionError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        PartitionError::OffsetNotAvailable { .. } => ErrorCode::OFFSET_NOT_AVAILABLE,
        PartitionError::Unconfirmed { ending: true } => ErrorCode::CONCURRENT_TRANSACTIONS,
        PartitionError::NotEnoughReplicas { .. }
        | PartitionError::TooManyProducers(_)
        | PartitionError::Unconfirmed { ending: false } => ErrorCode::NOT_ENOUGH_REPLICAS,
        PartitionError::NotEnoughReplicasAfterAppend { .. } => {
            ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        }
        PartitionError::InconsistentTopicId => ErrorCode::INCONSISTENT_TOPIC_ID,
        PartitionError::Storage(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        PartitionError::Missing => ErrorCode::LOG_DIR_NOT_FOUND,
        PartitionError::Corrupt(_) => ErrorCode::CORRUPT_MESSAGE,
        PartitionError::Batch(error) => of_batch(error),
        PartitionError::OutOfOrderSequence(_) => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        PartitionError::InvalidProducerEpoch(_) => ErrorCode::INVALID_PRODUCER_EPOCH,
        PartitionError::UnknownProducerId => ErrorCode::UNKNOWN_PRODUCER_ID,
        PartitionError::DuplicateSequence => ErrorCode::DUPLICATE_SEQUENCE_NUMBER,
        PartitionError::TransactionCoordinatorFenced(_) => {
            ErrorCode::TRANSACTION_COORDINATOR_FENCED
        }
        PartitionError::InvalidTransactionState(_) => ErrorCode::INVALID_TXN_STATE,
        PartitionError::RecordListTooLarge { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        PartitionError::Policy(_) => ErrorCode::POLICY_VIOLATION,
        PartitionError::Invalid(_) => ErrorCode::INVALID_REQUEST,
    }
}

/// Return the error for an ingest that refuses an operation.
pub fn of_ingest(error: &IngestError) -> ErrorCode {
    match error {
        IngestError::Unknown => ErrorCode::TRANSACTIONAL_ID_NOT_FOUND,
        IngestError::Fenced { .. } => ErrorCode::PRODUCER_FENCED,
        IngestError::Committing => ErrorCode::INVALID_TXN_STATE,
        IngestError::Throttled { .. } => ErrorCode::THROTTLING_QUOTA_EXCEEDED,
        IngestError::NotCopied { .. } => ErrorCode::REQUEST_TIMED_OUT,
        IngestError::Gap { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        IngestError::Mismatch(_) => ErrorCode::INVALID_REQUEST,
        IngestError::Partition(error) => of_partition(error, Naming::Id),
    }
}
