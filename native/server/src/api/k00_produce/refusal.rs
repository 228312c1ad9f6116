//! Errors for partitions whose records are refused, and the responses that report them.

use pybroker_model::{BatchError, RecordFault, RejectedRecord, is_internal};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::produce_response::{PartitionProduceResponse, RecordError};
use pybroker_replica::PartitionError;

use crate::api::topic_lookup::ResolvedTopic;
use crate::error_codes::{Naming, of_batch, of_partition};

const ADMIN_CLIENT_ID: &str = "__admin_client";

/// A refused partition.
pub(super) struct Refusal {
    pub(super) error: ErrorCode,
    message: Option<String>,
    /// Rejected records: index in the batch, and a message if the error message does not cover it.
    records: Vec<(i32, Option<String>)>,
    /// Log start offset; −1 if the response does not carry it.
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

    /// Build the refusal for records that a log does not append.
    ///
    /// A producer whose sequence does not fit gets the log start offset, as in Kafka: clients use it to detect that
    /// retention removed the earlier records.
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

    /// Return whether the partition lacks in-sync replicas. An operator must fix this, because most clients retry
    /// without reporting the error.
    pub(super) fn is_for_want_of_replicas(&self) -> bool {
        self.error == ErrorCode::NOT_ENOUGH_REPLICAS
    }

    /// Return the refusal as a log line.
    pub(super) fn line(&self, topic: &str, index: i32) -> String {
        format!(
            "{topic}-{index}: a produce with acks=all was refused (NOT_ENOUGH_REPLICAS): {}; at most one such line a \
             minute and topic",
            self.message.as_deref().unwrap_or_default(),
        )
    }

    /// Return the response for the partition with this index.
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

/// Return the record error as Kafka does: if all records have the same fault, only the error message names it;
/// timestamp errors are reported for each record.
fn told(rejected: &RejectedRecord) -> (i32, Option<String>) {
    let own = match rejected.fault {
        RecordFault::NoKey => None,
        RecordFault::Timestamp(_) => Some(rejected.fault.to_string()),
    };
    (rejected.index, own)
}

/// Return the error for the whole request if acks has an invalid value.
pub(super) fn refuse_acks(acks: i16) -> Option<ErrorCode> {
    (!(-1..=1).contains(&acks)).then_some(ErrorCode::INVALID_REQUIRED_ACKS)
}

/// Return the error if the topic is internal.
pub(super) fn refuse_internal(
    resolved: &ResolvedTopic<'_>,
    client_id: Option<&str>,
) -> Option<ErrorCode> {
    let name = &*resolved.hosted?.name;
    (is_internal(name) && client_id != Some(ADMIN_CLIENT_ID))
        .then_some(ErrorCode::INVALID_TOPIC_EXCEPTION)
}
