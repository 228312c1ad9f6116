//! Why an ingest's request was refused.

use pybroker_model::BatchError;
use pybroker_storage::StorageError;

use crate::PartitionError;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// No such ingest is open.
    #[error("the ingest is not open: it was never begun, is committed, aborted or expired")]
    Unknown,
    /// It began anew since.
    #[error("epoch {requested} of the ingest is over, {current} has begun")]
    Fenced {
        /// In the request.
        requested: i32,
        /// Here.
        current: i32,
    },
    /// It is being committed.
    #[error("the ingest is being committed")]
    Committing,
    /// Too much, for now.
    #[error("{reason}")]
    Throttled {
        /// Which setting says so.
        reason: &'static str,
        /// When to come again.
        wait_ms: i32,
    },
    /// Records are missing before these.
    #[error("records from {got} on, but {next} are staged")]
    Gap {
        /// Sequence of the first record.
        got: i64,
        /// Records staged.
        next: i64,
    },
    /// Another replica in sync does not have it staged; it can be tried again.
    #[error("broker {broker}, which is in sync, has not staged it: {reason}")]
    NotCopied {
        /// Which.
        broker: i32,
        /// For people.
        reason: String,
    },
    /// What a commit lists is not what is staged.
    #[error("{0}")]
    Mismatch(String),
    /// The partition says no.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}

impl From<StorageError> for IngestError {
    fn from(error: StorageError) -> Self {
        Self::Partition(error.into())
    }
}

impl From<BatchError> for IngestError {
    fn from(error: BatchError) -> Self {
        Self::Partition(PartitionError::Batch(error))
    }
}
