//! What can go wrong, and the Kafka error code that tells it.

use pybroker_client as client;
use pybroker_protocol::ErrorCode;
use thiserror::Error as ThisError;

/// `Result` with this crate's error.
pub type Result<T> = core::result::Result<T, Error>;

/// Trouble with rows, records, or the way to the brokers; the texts name what a user can look up.
#[derive(Debug, ThisError)]
pub enum Error {
    /// Settings, the network, a refusal.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// A row or a column that no record can be made of.
    #[error("{0}")]
    Rows(String),
    /// Bytes in place of records that are none.
    #[error("{what}: {broker} sent damaged records or no records: {problem}")]
    Damaged {
        /// The request, the topic, the partition and the offset.
        what: String,
        /// Host and port.
        broker: String,
        /// What is wrong with them.
        problem: String,
    },
}

impl Error {
    /// The Kafka error code that says the same.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Client(error) => error.code(),
            Error::Rows(_) => ErrorCode::INVALID_RECORD,
            Error::Damaged { .. } => ErrorCode::CORRUPT_MESSAGE,
        }
    }

    /// Whether the same request may succeed a moment later.
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
