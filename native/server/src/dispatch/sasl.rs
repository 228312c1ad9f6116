//! SASL authentication of a connection: Python runs the exchange, this module applies its result.
//!
//! It also handles the old framing: after SaslHandshake v0 tokens have only a length prefix (KIP-43; Kafka 4 still
//! supports it). Such a token goes to Python as a SaslAuthenticate v0, and its answer loses the header again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_protocol::ApiKey;
use pybroker_protocol::frame::REQUEST_BYTES_MIN;
use pybroker_protocol::primitives::Reader;

use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;

/// Return the minimum frame size of the connection.
#[inline]
pub(crate) fn frame_bytes_min(connection: &ConnectionInfo) -> usize {
    if connection.raw_tokens {
        0
    } else {
        REQUEST_BYTES_MIN
    }
}

/// Return whether a client may send the request before it has authenticated. No client may authenticate without the TLS
/// that its listener requires, because passwords would be sent in plaintext.
pub(crate) fn may_come_first(connection: &ConnectionInfo, key: ApiKey) -> bool {
    match key {
        ApiKey::ApiVersions => true,
        ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => !connection.without_tls,
        _ => false,
    }
}

/// Return the body of a SaslAuthenticate v0 with this token.
pub(crate) fn authenticate_body(token: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + token.len());
    write_bare(token, &mut body);
    body
}

/// Write the answer to a token without Kafka header.
pub(crate) fn write_raw_answer(body: &[u8], out: &mut Vec<u8>) -> Result<(), CloseReason> {
    let refused = |_| CloseReason::AuthenticationFailed;
    let mut reader = Reader::new(body);
    let error_code = reader.i16().map_err(refused)?;
    reader.nullable_string(false).map_err(refused)?;
    let token = reader.nullable_bytes(false).map_err(refused)?;
    if error_code != 0 {
        return Err(CloseReason::AuthenticationFailed);
    }
    write_bare(token.unwrap_or_default(), out);
    Ok(())
}

fn write_bare(token: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(token.len() as u32).to_be_bytes());
    out.extend_from_slice(token);
}

/// Switch to tokens without headers after a successful SaslHandshake v0.
pub(crate) fn after_answer(
    connection: &mut ConnectionInfo,
    api_key: i16,
    api_version: i16,
    body: &[u8],
) {
    let accepted = body.starts_with(&[0, 0]);
    if api_key == ApiKey::SaslHandshake.code() && api_version == 0 && accepted {
        connection.raw_tokens = true;
    }
}

/// Apply a successful authentication or re-authentication.
pub(crate) fn authenticated(
    connection: &mut ConnectionInfo,
    principal: Arc<str>,
    by_token: bool,
    session_lifetime_ms: Option<u64>,
) {
    connection.principal = principal;
    connection.by_token = by_token;
    connection.authenticated = true;
    connection.raw_tokens = false;
    connection.decisions.get_mut().clear();
    connection.quotas.forget();
    connection.session_ends =
        session_lifetime_ms.map(|lifetime| Instant::now() + Duration::from_millis(lifetime));
}
