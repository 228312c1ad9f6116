//! Errors of the client, with their Kafka error codes.

use pybroker_protocol::ErrorCode;
use pybroker_protocol::primitives::DecodeError;
use thiserror::Error as ThisError;

/// `Result` with this crate's error.
pub type Result<T> = core::result::Result<T, Error>;

/// Errors of settings, the network or a broker's response; the texts name terms that a user can look up.
#[derive(Debug, ThisError)]
pub enum Error {
    /// A setting that is missing or invalid.
    #[error("{0}")]
    Setting(String),
    /// A request that exceeds the protocol's limits.
    #[error("a request of more than 2 GiB cannot be sent")]
    TooLarge,
    /// The connection failed: the request may or may not have been executed.
    #[error("{broker}: {problem}")]
    Network {
        /// Host and port.
        broker: String,
        /// Error of the system.
        problem: std::io::Error,
    },
    /// At present, the host name does not resolve on this machine.
    #[error("{broker}: the host name does not resolve: {problem}")]
    UnknownHost {
        /// Host and port.
        broker: String,
        /// Error of the system.
        problem: std::io::Error,
    },
    /// An advertised address has a host name that does not resolve on this machine; retrying does not help.
    #[error(
        "the broker's advertised address {broker} has a host name that does not resolve on this machine ({problem}): set \
         advertised.listeners of the broker to a name that clients know, or add the name to DNS or /etc/hosts here"
    )]
    UnknownAdvertisedHost {
        /// Host and port.
        broker: String,
        /// Error of the system.
        problem: std::io::Error,
    },
    /// The broker returned an error.
    #[error("{what}: {code}{}", .detail.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// Kafka's error code.
        code: ErrorCode,
        /// The request, the topic and the partition.
        what: String,
        /// Error message of the broker.
        detail: Option<String>,
    },
    /// The broker's bytes violate the protocol.
    #[error("{broker} sent bytes that are no answer: {problem}")]
    Protocol {
        /// Host and port.
        broker: String,
        /// The violation.
        problem: String,
    },
}

impl Error {
    /// Return the equivalent Kafka error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Setting(_) | Error::UnknownAdvertisedHost { .. } => ErrorCode::INVALID_CONFIG,
            Error::TooLarge => ErrorCode::MESSAGE_TOO_LARGE,
            Error::Network { .. } | Error::UnknownHost { .. } => ErrorCode::NETWORK_EXCEPTION,
            Error::Refused { code, .. } => *code,
            Error::Protocol { .. } => ErrorCode::CORRUPT_MESSAGE,
        }
    }

    /// Return whether a retry may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        let code = self.code();
        match self {
            Error::Protocol { .. } => false,
            // Kafka's clients do not retry BROKER_NOT_AVAILABLE. Here it also means that Metadata named a leader
            // without its address, which happens while brokers start and stop.
            _ => code.is_retriable() || code == ErrorCode::BROKER_NOT_AVAILABLE,
        }
    }

    /// Create an error for that code.
    pub fn refused(code: ErrorCode, what: impl Into<String>, detail: Option<&str>) -> Self {
        Error::Refused {
            code,
            what: what.into(),
            detail: detail.map(str::to_owned),
        }
    }

    /// Create an error for undecodable bytes.
    #[must_use]
    pub fn decode(broker: &str, error: DecodeError) -> Self {
        Error::Protocol {
            broker: broker.to_owned(),
            problem: error.to_string(),
        }
    }
}
