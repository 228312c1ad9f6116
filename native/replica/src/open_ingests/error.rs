//! Errors of ingest requests.

use pybroker_model::BatchError;
use pybroker_storage::StorageError;

use crate::PartitionError;

/// Why an ingest request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// No such ingest is open.
    #[error("the ingest is not open: it never began, or is committed, aborted or expired")]
    Unknown,
    /// The ingest has begun again with a newer epoch.
    #[error("epoch {requested} of the ingest is obsolete: epoch {current} has begun")]
    Fenced {
        /// Epoch in the request.
        requested: i32,
        /// Current epoch.
        current: i32,
    },
    /// A commit is under way.
    #[error("the ingest is being committed")]
    Committing,
    /// A quota or limit is used up.
    #[error("{reason}")]
    Throttled {
        /// The setting whose limit is reached.
        reason: &'static str,
        /// Milliseconds after which the client may retry.
        wait_ms: i32,
    },
    /// Records before those of the request are missing.
    #[error("the records begin at {got}, but {next} are staged")]
    Gap {
        /// Sequence of the first record in the request.
        got: i64,
        /// Records staged so far.
        next: i64,
    },
    /// Another in-sync replica has not staged the records; the client can retry.
    #[error("in-sync broker {broker} has not staged the records: {reason}")]
    NotCopied {
        /// Id of that broker.
        broker: i32,
        /// The reason, as readable text.
        reason: String,
    },
    /// The commit lists records that differ from the staged ones.
    #[error("{0}")]
    Mismatch(String),
    /// The partition refused the request.
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
