//! Errors of the Spark data source, with their Kafka error codes.

use pybroker_client as client;
use pybroker_protocol::ErrorCode;
use thiserror::Error as ThisError;

/// `Result` with this crate's error.
pub type Result<T> = core::result::Result<T, Error>;

/// Errors of rows, records, or the connection. Their texts contain terms that a user can look up.
#[derive(Debug, ThisError)]
pub enum Error {
    /// Settings, the network, or a broker's error.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// A row or a column cannot be converted to a record.
    #[error("{0}")]
    Rows(String),
    /// Invalid record bytes.
    #[error("{what}: {broker} sent damaged records or no records: {problem}")]
    Damaged {
        /// The request, the topic, the partition and the offset.
        what: String,
        /// Host and port.
        broker: String,
        /// The fault in the records.
        problem: String,
    },
}

impl Error {
    /// Return the equivalent Kafka error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Client(error) => error.code(),
            Error::Rows(_) => ErrorCode::INVALID_RECORD,
            Error::Damaged { .. } => ErrorCode::CORRUPT_MESSAGE,
        }
    }

    /// Return whether a retry may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Error::Client(error) => error.may_pass(),
            Error::Rows(_) | Error::Damaged { .. } => false,
        }
    }

    pub(crate) fn refused(code: ErrorCode, what: impl Into<String>, detail: Option<&str>) -> Self {
        client::Error::refused(code, what, detail).into()
    }
}
