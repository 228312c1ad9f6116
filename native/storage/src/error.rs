//! Errors of files and of log operations.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failed file or directory operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// The operating system refused an operation. If it concerns a log directory's data, the directory goes offline.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// The operation in words: "write", "sync", …
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause; shared, because several callers report one failure.
        source: Arc<io::Error>,
    },
    /// The disk or quota is full. The log is unchanged; a later retry can succeed.
    #[error("no space left for {}", .path.display())]
    Full {
        /// The file being written.
        path: PathBuf,
    },
    /// A file contradicts its format or neighboring files.
    #[error("{} is corrupt: {reason}", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The violated rule, with both values.
        reason: String,
    },
    /// The log directory failed earlier.
    #[error("log directory {} is offline: {reason}", .path.display())]
    Offline {
        /// The log directory.
        path: PathBuf,
        /// The first failure, final until a restart.
        reason: String,
    },
    /// The log was closed, deleted or moved.
    #[error("log {} is closed", .path.display())]
    Closed {
        /// The partition's directory.
        path: PathBuf,
    },
    /// Another process uses the data directory.
    #[error("data directory {} is in use by another broker", .path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// `meta.properties` or `partition.metadata` names another owner of the data.
    #[error("{} belongs to {found}, not to {expected}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The owner in the file.
        found: String,
        /// The expected owner.
        expected: String,
    },
    /// A path exists that must not exist.
    #[error("{} exists already", .path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
}

impl StorageError {
    /// Return a closure for `map_err` that adds the failed operation and the path to an IO error.
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| {
            if is_full(&source) {
                Self::Full { path }
            } else {
                Self::Io {
                    operation,
                    path,
                    source: Arc::new(source),
                }
            }
        }
    }

    /// Return whether the error means that the disk fails. Two errors do not. Too many open files, in the process or on
    /// the machine, is temporary. A file that is shorter than expected (not an error of the operating system) was
    /// replaced by compaction, or only this file is damaged.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        matches!(self, Self::Io { source, .. }
            if !matches!(source.raw_os_error(), None | Some(ENFILE | EMFILE)))
    }

    /// Return whether the error concerns a path in `directory`.
    #[must_use]
    pub fn is_below(&self, directory: &Path) -> bool {
        match self {
            Self::Io { path, .. }
            | Self::Full { path }
            | Self::Corrupt { path, .. }
            | Self::Offline { path, .. }
            | Self::Closed { path }
            | Self::Locked { path }
            | Self::Foreign { path, .. }
            | Self::Exists { path } => path.starts_with(directory),
        }
    }

    /// Return whether the file did not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Return whether the disk is full. A limit on file size (`ulimit -f`) counts as a full disk: the existing data is
/// intact.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Why an append was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// A disk failure (`KAFKA_STORAGE_ERROR`).
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A gap in a producer's sequence numbers (`OUT_OF_ORDER_SEQUENCE_NUMBER`).
    #[error("producer {producer_id}: sequence {got} does not follow {last}")]
    OutOfOrderSequence {
        /// Id of the producer.
        producer_id: i64,
        /// First sequence of the batch.
        got: i32,
        /// Last sequence in the log, or -1 if there is none.
        last: i32,
    },
    /// The producer's epoch is older than that in the log (`INVALID_PRODUCER_EPOCH`).
    #[error("producer {producer_id}: epoch {got} is older than {current}")]
    InvalidProducerEpoch {
        /// Id of the producer.
        producer_id: i64,
        /// Epoch of the batch.
        got: i16,
        /// Epoch in the log.
        current: i16,
    },
    /// A marker from a replaced transaction coordinator (`TRANSACTION_COORDINATOR_FENCED`).
    #[error("producer {producer_id}: coordinator epoch {got} is older than {current}")]
    CoordinatorFenced {
        /// Id of the producer.
        producer_id: i64,
        /// Coordinator epoch of the marker.
        got: i32,
        /// Coordinator epoch in the log.
        current: i32,
    },
    /// The batch does not fit the transaction's state, for example a non-transactional batch inside a transaction
    /// (`INVALID_TXN_STATE`).
    #[error("producer {producer_id}: {reason}")]
    InvalidTxnState {
        /// Id of the producer.
        producer_id: i64,
        /// The contradiction.
        reason: &'static str,
    },
    /// The log is at its limit of producers, and all of them have open transactions (`NOT_ENOUGH_REPLICAS`, which
    /// clients retry).
    #[error(
        "{limit} producers have open transactions in this partition, \
         producer.ids.per.partition.max and producer.ids.max allow no more"
    )]
    TooManyProducers {
        /// The limit of producers.
        limit: usize,
    },
    /// The batches are larger than a whole segment (`RECORD_LIST_TOO_LARGE`).
    #[error("{size} bytes exceed segment.bytes {max}")]
    LargerThanSegment {
        /// Bytes to append.
        size: usize,
        /// `segment.bytes`.
        max: u32,
    },
    /// The leader epoch is older than the log's latest (`NOT_LEADER_OR_FOLLOWER`).
    #[error("leader epoch {got} is older than {latest}")]
    StaleLeaderEpoch {
        /// Leader epoch of the append.
        got: i32,
        /// Latest leader epoch of the log.
        latest: i32,
    },
    /// Replicated batches do not continue the log; the follower must truncate or start over.
    #[error("batch at {got}, the log ends at {end}")]
    UnexpectedOffset {
        /// First offset of the batches.
        got: i64,
        /// Log end offset.
        end: i64,
    },
    /// The log has no offsets left.
    #[error("no offsets are left after {end}")]
    OffsetsExhausted {
        /// Log end offset.
        end: i64,
    },
    /// Replicated bytes are not valid batches (`CORRUPT_MESSAGE`).
    #[error(transparent)]
    Batch(#[from] pybroker_model::BatchError),
}

/// Why a read was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// A disk failure (`KAFKA_STORAGE_ERROR`).
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The offset does not exist (`OFFSET_OUT_OF_RANGE`).
    #[error("offset {offset} is outside {start}..{end}")]
    OutOfRange {
        /// The requested offset.
        offset: i64,
        /// Log start offset.
        start: i64,
        /// Log end offset, or the bound of the read if that is lower.
        end: i64,
    },
}
