//! Why a connection ends, and what the log says about it.

use std::io;

use pybroker_protocol::frame::Guess;
use pybroker_protocol::primitives::DecodeError;

use crate::config::{LogLevel, SecurityProtocol};
use crate::tls::{TlsProblem, refusal};

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum CloseReason {
    /// The peer closed it, or the network did.
    PeerClosed,
    /// Nothing happened for `connections.max.idle.ms`.
    Idle,
    /// The server stops and everything is answered.
    Draining,
    /// The control plane asked for it.
    ControlPlane,
    /// The control plane dropped a request unanswered: our bug.
    ReplyLost { api_key: i16 },
    /// A produce with acks=0 failed: closing is the only answer (Kafka does the same).
    AcksZeroFailed { error_code: i16 },
    /// An incomplete frame got no more bytes.
    FrameStalled,
    /// The peer does not take its replies.
    WriteStalled,
    /// A length prefix that is none.
    RefusedLength {
        length: i32,
        guess: Guess,
        max: usize,
    },
    /// The first bytes are not those of a TLS client.
    NotTls { guess: Guess },
    /// TLS failed: what the peer sent or shows is not acceptable, or the peer says that of us.
    Tls {
        handshaking: bool,
        error: rustls::Error,
        /// Whose certificate it is that is not acceptable, for the log.
        subject: Option<String>,
    },
    /// No rule of `ssl.principal.mapping.rules` makes a name of its certificate's subject.
    Nameless { subject: String },
    /// No TLS handshake within `connection.authentication.timeout.ms`.
    HandshakeTimedOut,
    /// A request that cannot be decoded.
    BadRequest {
        api_key: i16,
        api_version: i16,
        error: DecodeError,
    },
    /// A key or version that is not served here.
    NotServed { api_key: i16, api_version: i16 },
    /// A request before authentication.
    Unauthenticated { api_key: i16 },
    /// Authentication failed; the client has been told.
    AuthenticationFailed,
    /// No authentication within `connection.authentication.timeout.ms`.
    AuthenticationTimedOut,
    /// Authentication was not renewed in time.
    SessionExpired,
    /// A log file gave fewer bytes than announced, or the socket failed in a way that is not the peer's doing.
    SendFailed(io::Error),
}

impl CloseReason {
    /// An error of reading or writing the socket.
    pub(crate) fn of_io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::OutOfMemory => {
                CloseReason::SendFailed(error)
            }
            _ => CloseReason::PeerClosed,
        }
    }

    /// An error of TLS.
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

    /// True if what the peer sent is to blame.
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

    /// What a client does that takes the listener for another kind: its settings are wrong, and it will come again and
    /// again.
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

    /// The line for the log, without the connection's address; `None` for what is normal life. `security`: the
    /// listener's.
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
