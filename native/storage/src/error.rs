//! What can go wrong with files, and with what clients ask of a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Trouble with files or directories.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// The operating system refused an operation. If a log directory's data is concerned, the
    /// directory is offline from now on.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// In words: "write", "sync", …
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause; shared, because one failure is reported to many.
        source: Arc<io::Error>,
    },
    /// The disk or quota is full. The log is as it was before; trying again later can succeed.
    #[error("no space left for {}", .path.display())]
    Full {
        /// What was being written.
        path: PathBuf,
    },
    /// A file contradicts its format or its neighbours.
    #[error("{} is corrupt: {reason}", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which rule it breaks, with both values.
        reason: String,
    },
    /// The log directory failed earlier, or this log was closed.
    #[error("log directory {} is offline: {reason}", .path.display())]
    Offline {
        /// The log directory.
        path: PathBuf,
        /// The first failure, which is final until a restart.
        reason: String,
    },
    /// The log was closed, deleted or moved away.
    #[error("log {} is closed", .path.display())]
    Closed {
        /// The partition's directory.
        path: PathBuf,
    },
    /// Another process holds the data directory.
    #[error("data directory {} is in use by another broker", .path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// `meta.properties` or `partition.metadata` says the data belongs to something else.
    #[error("{} belongs to {found}, not to {expected}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What the file says.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// Something that must not exist does.
    #[error("{} exists already", .path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
}

impl StorageError {
    /// For `map_err`: an operation on a path failed.
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

    /// Whether it says something about the disk. Too many open files, in the process or on the
    /// machine, is a passing trouble of ours; a file that is shorter than expected (no error of the
    /// operating system) was replaced by compaction, or is damaged by itself.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        matches!(self, Self::Io { source, .. }
            if !matches!(source.raw_os_error(), None | Some(ENFILE | EMFILE)))
    }

    /// Whether it is about something in `directory`.
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

    /// Whether a file was simply not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// A limit on the size of files (`ulimit -f`) is met as a full disk is: nothing is wrong with what lies there.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Why an append was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The disk (`KAFKA_STORAGE_ERROR`).
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A gap in a producer's sequence numbers (`OUT_OF_ORDER_SEQUENCE_NUMBER`).
    #[error("producer {producer_id}: sequence {got} does not follow {last}")]
    OutOfOrderSequence {
        /// The producer.
        producer_id: i64,
        /// First sequence of the batch.
        got: i32,
        /// Last sequence in the log, -1 for none.
        last: i32,
    },
    /// A producer with an older epoch than the log knows (`INVALID_PRODUCER_EPOCH`).
    #[error("producer {producer_id}: epoch {got} is older than {current}")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: i64,
        /// Epoch of the batch.
        got: i16,
        /// Epoch in the log.
        current: i16,
    },
    /// A marker of a coordinator that was replaced (`TRANSACTION_COORDINATOR_FENCED`).
    #[error("producer {producer_id}: coordinator epoch {got} is older than {current}")]
    CoordinatorFenced {
        /// The producer.
        producer_id: i64,
        /// Epoch of the marker.
        got: i32,
        /// Epoch in the log.
        current: i32,
    },
    /// A non-transactional batch inside a transaction or the like (`INVALID_TXN_STATE`).
    #[error("producer {producer_id}: {reason}")]
    InvalidTxnState {
        /// The producer.
        producer_id: i64,
        /// What contradicts.
        reason: &'static str,
    },
    /// Larger than a whole segment (`RECORD_LIST_TOO_LARGE`).
    #[error("{size} bytes exceed segment.bytes {max}")]
    LargerThanSegment {
        /// Bytes to append.
        size: usize,
        /// The limit.
        max: u32,
    },
    /// The leader epoch is older than the log's latest (`NOT_LEADER_OR_FOLLOWER`).
    #[error("leader epoch {got} is older than {latest}")]
    StaleLeaderEpoch {
        /// The epoch to append with.
        got: i32,
        /// The log's latest.
        latest: i32,
    },
    /// Replicated batches do not continue the log; the follower must truncate or start anew.
    #[error("batch at {got}, the log ends at {end}")]
    UnexpectedOffset {
        /// First offset that came.
        got: i64,
        /// Log end.
        end: i64,
    },
    /// The offsets of the log are used up.
    #[error("no offsets are left after {end}")]
    OffsetsExhausted {
        /// Log end.
        end: i64,
    },
    /// Replicated bytes are no batches (`CORRUPT_MESSAGE`).
    #[error(transparent)]
    Batch(#[from] pybroker_model::BatchError),
}

/// Why a read was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The disk (`KAFKA_STORAGE_ERROR`).
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No such offset (`OFFSET_OUT_OF_RANGE`).
    #[error("offset {offset} is outside {start}..{end}")]
    OutOfRange {
        /// The offset asked for.
        offset: i64,
        /// Log start.
        start: i64,
        /// Log end, or the bound of the read if that is lower.
        end: i64,
    },
}
