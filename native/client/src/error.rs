//! What can go wrong, and the Kafka error code that tells it.

use pybroker_protocol::ErrorCode;
use pybroker_protocol::primitives::DecodeError;
use thiserror::Error as ThisError;

/// `Result` with this crate's error.
pub type Result<T> = core::result::Result<T, Error>;

/// Trouble with settings, the network or a broker's answer; the texts name what a user can look up.
#[derive(Debug, ThisError)]
pub enum Error {
    /// A setting that is missing or cannot be used.
    #[error("{0}")]
    Setting(String),
    /// A request that the protocol cannot carry.
    #[error("a request of more than 2 GiB cannot be sent")]
    TooLarge,
    /// The connection failed: the request may or may not have been carried out.
    #[error("{broker}: {problem}")]
    Network {
        /// Host and port.
        broker: String,
        /// What the system said.
        problem: std::io::Error,
    },
    /// The host name of an address has no address here, so far.
    #[error("{broker}: the host name does not resolve: {problem}")]
    UnknownHost {
        /// Host and port.
        broker: String,
        /// What the system said.
        problem: std::io::Error,
    },
    /// The brokers of the cluster name an address whose host name has none here: trying again does not help.
    #[error(
        "the broker's advertised address {broker} has a host name that does not resolve on this machine ({problem}): set \
         advertised.listeners of the broker to a name that clients know, or add the name to DNS or /etc/hosts here"
    )]
    UnknownAdvertisedHost {
        /// Host and port.
        broker: String,
        /// What the system said.
        problem: std::io::Error,
    },
    /// The broker refused.
    #[error("{what}: {code}{}", .detail.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// Kafka's error code.
        code: ErrorCode,
        /// The request, the topic and the partition.
        what: String,
        /// The broker's own words.
        detail: Option<String>,
    },
    /// Bytes from the broker that are not what the protocol says.
    #[error("{broker} sent bytes that are no answer: {problem}")]
    Protocol {
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
            Error::Setting(_) | Error::UnknownAdvertisedHost { .. } => ErrorCode::INVALID_CONFIG,
            Error::TooLarge => ErrorCode::MESSAGE_TOO_LARGE,
            Error::Network { .. } | Error::UnknownHost { .. } => ErrorCode::NETWORK_EXCEPTION,
            Error::Refused { code, .. } => *code,
            Error::Protocol { .. } => ErrorCode::CORRUPT_MESSAGE,
        }
    }

    /// Whether the same request may succeed a moment later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        let code = self.code();
        match self {
            Error::Protocol { .. } => false,
            // Kafka's clients give up on it; here it also says that Metadata named a leader without its address, which
            // happens while brokers start and stop.
            _ => code.is_retriable() || code == ErrorCode::BROKER_NOT_AVAILABLE,
        }
    }

    /// A refusal with that code.
    pub fn refused(code: ErrorCode, what: impl Into<String>, detail: Option<&str>) -> Self {
        Error::Refused {
            code,
            what: what.into(),
            detail: detail.map(str::to_owned),
        }
    }

    /// Bytes that cannot be decoded.
    #[must_use]
    pub fn decode(broker: &str, error: DecodeError) -> Self {
        Error::Protocol {
            broker: broker.to_owned(),
            problem: error.to_string(),
        }
    }
}
