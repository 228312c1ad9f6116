//! Reasons to close a connection, and their log lines.

use std::io;

use pybroker_protocol::frame::Guess;
use pybroker_protocol::primitives::DecodeError;

use crate::config::{LogLevel, SecurityProtocol};
use crate::net::tls::{TlsProblem, refusal};

/// Reason to close a connection.
#[derive(Debug)]
pub(crate) enum CloseReason {
    /// The peer or the network closed the connection.
    PeerClosed,
    /// The connection was idle for `connections.max.idle.ms`.
    Idle,
    /// The server stops and every request is answered.
    Draining,
    /// The control plane requested the close.
    ControlPlane,
    /// The control plane dropped a request unanswered, which is a bug of the broker.
    ReplyLost { api_key: i16 },
    /// A produce with acks=0 failed: closing is the only way to report it (as in Kafka).
    AcksZeroFailed { error_code: i16 },
    /// The rest of an incomplete frame did not arrive in time.
    FrameStalled,
    /// The peer does not read its replies.
    WriteStalled,
    /// The length prefix is invalid.
    RefusedLength {
        length: i32,
        guess: Guess,
        max: usize,
    },
    /// The first bytes are not those of a TLS client.
    NotTls { guess: Guess },
    /// TLS failed: one side rejected the other's message or certificate.
    Tls {
        handshaking: bool,
        error: rustls::Error,
        /// Subject of the rejected certificate, for the log.
        subject: Option<String>,
    },
    /// No rule of `ssl.principal.mapping.rules` matches the subject of the certificate.
    Nameless { subject: String },
    /// The client did not complete the TLS handshake within `connection.authentication.timeout.ms`.
    HandshakeTimedOut,
    /// A request that cannot be decoded.
    BadRequest {
        api_key: i16,
        api_version: i16,
        error: DecodeError,
    },
    /// The listener does not serve this key or version.
    NotServed { api_key: i16, api_version: i16 },
    /// A request arrived before authentication.
    Unauthenticated { api_key: i16 },
    /// Authentication failed, and the client has received the error.
    AuthenticationFailed,
    /// The client did not authenticate within `connection.authentication.timeout.ms`.
    AuthenticationTimedOut,
    /// The client did not re-authenticate before its session expired (KIP-368).
    SessionExpired,
    /// A log file was shorter than the reply announced, or the socket failed and the peer is not the cause.
    SendFailed(io::Error),
}

impl CloseReason {
    /// Classify an error of reading from or writing to the socket.
    pub(crate) fn of_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::OutOfMemory => {
                CloseReason::SendFailed(error)
            }
            _ => CloseReason::PeerClosed,
        }
    }

    /// Convert an error of TLS.
    pub(crate) fn of_tls(problem: TlsProblem) -> Self {
        match problem {
            TlsProblem::Io(error) => CloseReason::of_io(error),
            TlsProblem::NotTls(guess) => CloseReason::NotTls { guess },
            TlsProblem::Plaintext { .. } => CloseReason::NotTls {
                guess: Guess::Garbage,
            },
            TlsProblem::Failed {
                handshaking,
                error,
                subject,
            } => CloseReason::Tls {
                handshaking,
                error,
                subject,
            },
        }
    }

    /// Return whether the peer violated the protocol.
    pub(crate) fn is_protocol_error(&self) -> bool {
        matches!(
            self,
            CloseReason::RefusedLength { .. }
                | CloseReason::NotTls { .. }
                | CloseReason::Tls { .. }
                | CloseReason::BadRequest { .. }
                | CloseReason::NotServed { .. }
                | CloseReason::Unauthenticated { .. }
        )
    }

    /// Return the client's mistake if its settings do not match the listener's. Such a client keeps reconnecting.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        match self {
            CloseReason::RefusedLength {
                guess: Guess::Tls, ..
            } => Some("TLS"),
            CloseReason::RefusedLength {
                guess: Guess::Http, ..
            } => Some("HTTP"),
            CloseReason::NotTls { guess: Guess::Http } => Some("HTTP"),
            CloseReason::NotTls { .. } => Some("no TLS"),
            CloseReason::Tls {
                handshaking: true, ..
            } => Some("TLS handshake"),
            CloseReason::Tls { .. } => Some("TLS records"),
            CloseReason::Nameless { .. } => Some("no name"),
            CloseReason::HandshakeTimedOut => Some("no TLS handshake in time"),
            CloseReason::Unauthenticated { .. } => Some("no login"),
            CloseReason::AuthenticationTimedOut => Some("no login in time"),
            _ => None,
        }
    }

    /// Return the log line, without the connection's address; `None` for normal closes. `security` is the security
    /// protocol of the listener.
    pub(crate) fn log_line(&self, security: SecurityProtocol) -> Option<(LogLevel, String)> {
        let protocol = security.name();
        let line = match self {
            CloseReason::PeerClosed
            | CloseReason::Idle
            | CloseReason::Draining
            | CloseReason::ControlPlane
            | CloseReason::AuthenticationFailed
            | CloseReason::SessionExpired => return None,
            CloseReason::ReplyLost { api_key } => {
                return Some((
                    LogLevel::Error,
                    format!("the answer to a request with api key {api_key} was lost"),
                ));
            }
            CloseReason::SendFailed(error) => {
                return Some((
                    LogLevel::Error,
                    format!("a reply could not be sent: {error}"),
                ));
            }
            CloseReason::AcksZeroFailed { error_code } => {
                format!("a produce with acks=0 failed with error {error_code}")
            }
            CloseReason::AuthenticationTimedOut => "it did not authenticate in time".into(),
            CloseReason::Nameless { subject } => format!(
                "its certificate's subject {subject:?} fits none of ssl.principal.mapping.rules"
            ),
            CloseReason::HandshakeTimedOut => "its TLS handshake did not end in time".into(),
            CloseReason::NotTls { guess: Guess::Http } => {
                "it speaks HTTP, not Kafka's protocol over TLS".into()
            }
            CloseReason::NotTls { .. } => {
                format!(
                    "it does not speak TLS, but this listener does; set security.protocol={protocol} in its settings"
                )
            }
            CloseReason::Tls {
                handshaking: true,
                error,
                subject,
            } => {
                let subject = subject.as_deref();
                let why = subject.and_then(|subject| refusal(error, subject));
                let why = why.unwrap_or_else(|| error.to_string());
                format!("the TLS handshake failed: {why}")
            }
            CloseReason::Tls { error, .. } => format!("TLS failed: {error}"),
            CloseReason::FrameStalled => "an incomplete request got no more bytes".into(),
            CloseReason::WriteStalled => "it does not read its replies".into(),
            CloseReason::RefusedLength {
                guess: Guess::Tls, ..
            } => format!(
                "it speaks TLS, but this listener is plaintext; set security.protocol={protocol} in its settings"
            ),
            CloseReason::RefusedLength {
                guess: Guess::Http, ..
            } => "it speaks HTTP, not Kafka's protocol".into(),
            CloseReason::RefusedLength { length, max, .. } => {
                format!("a request of {length} bytes, allowed are 8 to {max}")
            }
            CloseReason::BadRequest {
                api_key,
                api_version,
                error,
            } => {
                format!(
                    "a request that cannot be decoded: api key {api_key} version {api_version}: {error}"
                )
            }
            CloseReason::NotServed {
                api_key,
                api_version,
            } => {
                format!("api key {api_key} version {api_version} is not served here")
            }
            CloseReason::Unauthenticated { api_key } => {
                format!(
                    "api key {api_key} before authentication; set security.protocol={protocol} in its settings"
                )
            }
        };
        Some((LogLevel::Warning, line))
    }
}
