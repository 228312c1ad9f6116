//! Why a partition's records are not taken, and what the client is told of it.

use pybroker_model::BatchError;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::produce_response::{PartitionProduceResponse, RecordError};
use pybroker_replica::PartitionError;

use crate::error_codes::{Naming, of_batch, of_partition};
use crate::resolve::ResolvedTopic;

/// Topics that only the broker writes to.
const INTERNAL_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// A refused partition.
pub(super) struct Refusal {
    pub(super) error: ErrorCode,
    message: Option<String>,
    /// Index in the batch of the record to blame.
    record: Option<i32>,
}

impl Refusal {
    pub(super) fn code(error: ErrorCode) -> Self {
        Refusal {
            error,
            message: None,
            record: None,
        }
    }

    pub(super) fn batch(error: &BatchError) -> Self {
        let record = match error {
            BatchError::InvalidRecord { index, .. } => *index,
            BatchError::InvalidTimestamp { index, .. } => Some(*index),
            _ => None,
        };
        Refusal {
            error: of_batch(error),
            message: Some(error.to_string()),
            record,
        }
    }

    pub(super) fn partition(error: &PartitionError, naming: Naming) -> Self {
        match error {
            PartitionError::Batch(error) => Refusal::batch(error),
            other => Refusal {
                error: of_partition(other, naming),
                message: Some(other.to_string()),
                record: None,
            },
        }
    }

    /// What the partition with this index is told.
    pub(super) fn response(&self, index: i32) -> PartitionProduceResponse<'_> {
        let message = self.message.as_deref();
        let mut response = PartitionProduceResponse::refused(index, self.error.0, message);
        if let Some(batch_index) = self.record {
            response.record_errors.push(RecordError {
                batch_index,
                message,
            });
        }
        response
    }
}

/// The error for everything that a request carries.
pub(super) fn refuse_whole(transactional: bool, acks: i16) -> Option<ErrorCode> {
    if transactional {
        Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    } else if !(-1..=1).contains(&acks) {
        Some(ErrorCode::INVALID_REQUIRED_ACKS)
    } else {
        None
    }
}

/// The error for a topic that is the broker's own.
pub(super) fn refuse_internal(
    resolved: &ResolvedTopic<'_>,
    client_id: Option<&str>,
) -> Option<ErrorCode> {
    let name = &*resolved.hosted?.name;
    let internal = name.starts_with("__") && INTERNAL_TOPICS.contains(&name);
    (internal && client_id != Some(ADMIN_CLIENT_ID)).then_some(ErrorCode::INVALID_TOPIC_EXCEPTION)
}
