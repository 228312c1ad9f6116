//! Why a partition's records are not taken, and what the client is told of it.

use pybroker_model::{BatchError, RecordFault, RejectedRecord, is_internal};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::produce_response::{PartitionProduceResponse, RecordError};
use pybroker_replica::PartitionError;

use crate::error_codes::{Naming, of_batch, of_partition};
use crate::resolve::ResolvedTopic;

const ADMIN_CLIENT_ID: &str = "__admin_client";

/// A refused partition.
pub(super) struct Refusal {
    pub(super) error: ErrorCode,
    message: Option<String>,
    /// The records to blame: index in the batch, and what the message does not say of it.
    records: Vec<(i32, Option<String>)>,
    /// −1: not said.
    log_start_offset: i64,
}

impl Refusal {
    pub(super) fn code(error: ErrorCode) -> Self {
        Refusal {
            error,
            message: None,
            records: Vec::new(),
            log_start_offset: -1,
        }
    }

    pub(super) fn batch(error: &BatchError) -> Self {
        let records = match error {
            BatchError::InvalidRecord {
                index: Some(index), ..
            } => vec![(*index, None)],
            BatchError::RejectedRecords(rejected) => rejected.iter().map(told).collect(),
            _ => Vec::new(),
        };
        Refusal {
            error: of_batch(error),
            message: Some(error.to_string()),
            records,
            log_start_offset: -1,
        }
    }

    pub(super) fn partition(error: &PartitionError, naming: Naming) -> Self {
        match error {
            PartitionError::Batch(error) => Refusal::batch(error),
            other => Refusal {
                error: of_partition(other, naming),
                message: Some(other.to_string()),
                records: Vec::new(),
                log_start_offset: -1,
            },
        }
    }

    /// What a log refuses to append. A producer whose sequence does not fit is told where the log begins, as by Kafka:
    /// clients see by that whether what came before was removed by retention.
    pub(super) fn append(error: &PartitionError, naming: Naming, log_start_offset: i64) -> Self {
        let of_producer = matches!(
            error,
            PartitionError::OutOfOrderSequence(_)
                | PartitionError::InvalidProducerEpoch(_)
                | PartitionError::UnknownProducerId
                | PartitionError::DuplicateSequence
                | PartitionError::InvalidTransactionState(_)
        );
        Refusal {
            log_start_offset: if of_producer { log_start_offset } else { -1 },
            ..Refusal::partition(error, naming)
        }
    }

    /// Whether the operator has to do something before clients can write: most of them try again in silence.
    pub(super) fn is_for_want_of_replicas(&self) -> bool {
        self.error == ErrorCode::NOT_ENOUGH_REPLICAS
    }

    /// The refusal as the log tells it.
    pub(super) fn line(&self, topic: &str, index: i32) -> String {
        format!(
            "{topic}-{index}: a produce with acks=all was refused (NOT_ENOUGH_REPLICAS): {}; at most one such line a \
             minute and topic",
            self.message.as_deref().unwrap_or_default(),
        )
    }

    /// What the partition with this index is told.
    pub(super) fn response(&self, index: i32) -> PartitionProduceResponse<'_> {
        let message = self.message.as_deref();
        let mut response = PartitionProduceResponse::refused(index, self.error.0, message);
        response.log_start_offset = self.log_start_offset;
        let records = self.records.iter();
        response.record_errors = records
            .map(|(batch_index, own)| RecordError {
                batch_index: *batch_index,
                message: own.as_deref(),
            })
            .collect();
        response
    }
}

/// As Kafka: where all records have the same fault the message says it, a timestamp is each record's own.
fn told(rejected: &RejectedRecord) -> (i32, Option<String>) {
    let own = match rejected.fault {
        RecordFault::NoKey => None,
        RecordFault::Timestamp(_) => Some(rejected.fault.to_string()),
    };
    (rejected.index, own)
}

/// The error for everything that a request carries.
pub(super) fn refuse_acks(acks: i16) -> Option<ErrorCode> {
    (!(-1..=1).contains(&acks)).then_some(ErrorCode::INVALID_REQUIRED_ACKS)
}

/// The error for a topic that is the broker's own.
pub(super) fn refuse_internal(
    resolved: &ResolvedTopic<'_>,
    client_id: Option<&str>,
) -> Option<ErrorCode> {
    let name = &*resolved.hosted?.name;
    (is_internal(name) && client_id != Some(ADMIN_CLIENT_ID))
        .then_some(ErrorCode::INVALID_TOPIC_EXCEPTION)
}
