//! Authentication as a connection sees it: Python does the exchange, here is what it changes. Also the old framing of
//! tokens: after SaslHandshake v0 they come bare, with their length only (KIP-43; Kafka 4 serves it still). A bare
//! token goes to Python as a SaslAuthenticate v0, and its answer is made bare again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_protocol::ApiKey;
use pybroker_protocol::frame::REQUEST_BYTES_MIN;
use pybroker_protocol::primitives::Reader;

use crate::api::{Answer, Call, to_control_plane};
use crate::close::CloseReason;
use crate::dispatch::{Dispatched, Output, Turn, now_ms};
use crate::shared::ConnectionInfo;
use crate::slots::PendingControl;

impl ConnectionInfo {
    /// The next frame is a token.
    #[inline]
    pub(crate) fn expects_raw_token(&self) -> bool {
        self.raw_tokens
    }

    /// The shortest frame that can come.
    #[inline]
    pub(crate) fn frame_bytes_min(&self) -> usize {
        if self.raw_tokens {
            0
        } else {
            REQUEST_BYTES_MIN
        }
    }
}

/// Hands a bare token over.
pub(crate) fn submit_raw_token(
    turn: &mut Turn<'_, '_>,
    token: &[u8],
    received: Instant,
    output: &Output<'_>,
) -> Result<Dispatched, CloseReason> {
    let api_key = ApiKey::SaslAuthenticate.code();
    if matches!(output, Output::Behind { .. }) {
        // A client that does not wait for the challenge does not speak SASL.
        return Err(CloseReason::Unauthenticated { api_key });
    }
    let mut body = Vec::with_capacity(4 + token.len());
    body.extend_from_slice(&(token.len() as u32).to_be_bytes());
    body.extend_from_slice(token);
    let call = Call {
        shared: turn.shared,
        thread: &mut *turn.thread,
        connection: turn.connection,
        context: &mut *turn.context,
        api_key,
        version: 0,
        correlation_id: 0,
        flexible: false,
        client_id: None,
        received,
        now_ms: now_ms(),
    };
    Ok(match to_control_plane::submit(&call, &body) {
        Answer::Later(slot) => Dispatched::Slot(slot),
        Answer::Written | Answer::Silent => Dispatched::Done,
    })
}

/// Makes the answer to a bare token bare.
pub(crate) fn write_raw_answer(body: &[u8], out: &mut Vec<u8>) -> Result<(), CloseReason> {
    let refused = |_| CloseReason::AuthenticationFailed;
    let mut reader = Reader::new(body);
    let error_code = reader.i16().map_err(refused)?;
    reader.nullable_string(false).map_err(refused)?;
    let token = reader.nullable_bytes(false).map_err(refused)?;
    if error_code != 0 {
        return Err(CloseReason::AuthenticationFailed);
    }
    let token = token.unwrap_or_default();
    out.extend_from_slice(&(token.len() as u32).to_be_bytes());
    out.extend_from_slice(token);
    Ok(())
}

/// After a SaslHandshake v0 that found its mechanism, tokens come bare.
pub(crate) fn after_answer(connection: &mut ConnectionInfo, request: &PendingControl, body: &[u8]) {
    let accepted = body.starts_with(&[0, 0]);
    if request.api_key == ApiKey::SaslHandshake.code() && request.api_version == 0 && accepted {
        connection.raw_tokens = true;
    }
}

/// The client has proven who it is, for the first time or again.
pub(crate) fn authenticated(
    connection: &mut ConnectionInfo,
    principal: Arc<str>,
    session_lifetime_ms: Option<u64>,
) {
    connection.principal = principal;
    connection.authenticated = true;
    connection.raw_tokens = false;
    connection.decisions.get_mut().clear();
    connection.session_ends =
        session_lifetime_ms.map(|lifetime| Instant::now() + Duration::from_millis(lifetime));
}
