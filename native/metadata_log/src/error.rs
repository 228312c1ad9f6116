//! Errors of the log.

use std::io;
use std::path::Path;
use std::sync::Arc;

/// A failed operation of the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// An operation on a file failed. The content of the disk is unknown.
    #[error("cannot {operation} {path}: {source}")]
    Io {
        /// The operation, for example "write".
        operation: &'static str,
        /// The file or directory.
        path: String,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// A file is damaged in a part that was flushed, or contradicts another file.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong, where, and what to do.
        reason: String,
    },
    /// The directory has no snapshot: it was not formatted.
    #[error("{path} is not formatted: it has no snapshot")]
    NotFormatted {
        /// The directory.
        path: String,
    },
    /// The leader's log lacks committed records that this replica has: it was restored from an older copy.
    #[error("{0}")]
    Older(String),
    /// Bytes from another replica are invalid.
    #[error("invalid batch: {0}")]
    Batch(String),
}

impl LogError {
    /// Return a closure for `map_err` that adds the failed operation and the path to an IO error.
    pub(crate) fn io(operation: &'static str, path: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            operation,
            path,
            source: Arc::new(source),
        }
    }

    /// Return the error of a directory that cannot be opened.
    #[must_use]
    pub fn opening(directory: &Path, source: io::Error) -> Self {
        Self::io("open", directory.display().to_string())(source)
    }

    /// Return whether the disk is full or a file size limit is reached. The data written before is then intact. A
    /// failed sync always counts as a failing disk, even if its error says that the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let Self::Io {
            operation, source, ..
        } = self
        else {
            return false;
        };
        !operation.starts_with("sync")
            && matches!(
                source.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            )
    }

    /// Return whether the cause is damaged data, not a failing disk.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}
