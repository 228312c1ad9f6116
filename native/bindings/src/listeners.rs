//! Listeners as settings name them: a host to resolve, a security protocol, and what to say when one cannot be opened.

use std::net::{SocketAddr, ToSocketAddrs};

use pybroker_protocol::ErrorCode;
use pybroker_server::StartError;
use pybroker_server::config::{ListenerConfig, Registry, SecurityProtocol};

/// Why a listener cannot be opened: what `ListenerError` is made of.
pub(crate) struct ListenerProblem {
    pub(crate) code: i16,
    pub(crate) text: String,
}

impl ListenerProblem {
    /// The server did not start.
    pub(crate) fn of_start(error: &StartError) -> Self {
        ListenerProblem {
            code: ErrorCode::UNKNOWN_SERVER_ERROR.0,
            text: text_of(error),
        }
    }
}

fn text_of(error: &StartError) -> String {
    match error {
        StartError::Bind {
            name,
            address,
            error,
        } if error.kind() == std::io::ErrorKind::AddrInUse => {
            format!("listener {name}: {address} is in use by another process")
        }
        other => other.to_string(),
    }
}

/// A listener as Python names it: name, host, port, security protocol.
pub(crate) fn listener_config(
    (name, host, port, protocol): (String, String, u16, String),
) -> Result<ListenerConfig, ListenerProblem> {
    let invalid = |text| ListenerProblem {
        code: ErrorCode::INVALID_CONFIG.0,
        text,
    };
    let security = match protocol.as_str() {
        "PLAINTEXT" => SecurityProtocol::Plaintext,
        "SASL_PLAINTEXT" => SecurityProtocol::SaslPlaintext,
        other => {
            return Err(invalid(format!(
                "listener {name}: security protocol {other} is not known here"
            )));
        }
    };
    let address = resolve(&host, port)
        .map_err(|error| invalid(format!("listener {name}: {host}: {error}")))?;
    Ok(ListenerConfig {
        name: name.into(),
        address,
        security,
        registry: Registry::Client,
    })
}

/// The first address of a host; all addresses for an empty one.
fn resolve(host: &str, port: u16) -> std::io::Result<SocketAddr> {
    let host = if host.is_empty() {
        "0.0.0.0"
    } else {
        host.trim_matches(['[', ']'])
    };
    (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, "has no address"))
}
