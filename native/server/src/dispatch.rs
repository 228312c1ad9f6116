//! From a frame to its answer: one match on the API key.

use std::sync::Arc;
use std::task::Context;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pybroker_protocol::header::{RequestHeader, RequestPrefix};
use pybroker_protocol::primitives::Reader;
use pybroker_protocol::{Api, ApiKey, Plane};

use crate::api::{
    Answer, Call, k00_produce, k01_fetch, k02_list_offsets, k03_metadata, k18_api_versions,
    k23_offset_for_leader_epoch, k32142_list_topics, k32151_ingest_append, to_control_plane,
};
use crate::close::CloseReason;
use crate::frame::Frame;
use crate::outgoing::Outgoing;
use crate::sasl;
use crate::shared::{ConnectionInfo, Shared, ThreadState};
use crate::slots::Slot;

/// Where a reply goes that is written at once.
pub(crate) enum Output<'o> {
    /// The request is at the head: straight to the connection's output.
    Head(&'o mut Outgoing),
    /// Others are before it: only Produce runs, unless one before it is still to be appended, and its reply waits in
    /// a slot.
    Behind { unappended: bool },
}

/// What became of a request.
pub(crate) enum Dispatched {
    /// Answered (or, for acks=0, done).
    Done,
    /// Takes the next slot.
    Slot(Slot),
}

/// The environment of one turn of a connection.
pub(crate) struct Turn<'a, 'c> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) thread: &'a mut ThreadState,
    pub(crate) connection: &'a ConnectionInfo,
    pub(crate) context: &'a mut Context<'c>,
}

/// Runs one request. `frame` is its content without the length prefix; Produce changes it in place.
pub(crate) fn dispatch(
    turn: &mut Turn<'_, '_>,
    mut frame: Frame<'_>,
    received: Instant,
    mut output: Output<'_>,
) -> Result<Dispatched, CloseReason> {
    if turn.connection.expects_raw_token() {
        return sasl::submit_raw_token(turn, frame.bytes(), received, &output);
    }
    let content = frame.bytes();
    let mut reader = Reader::new(content);
    let bad = |error| CloseReason::BadRequest {
        api_key: -1,
        api_version: -1,
        error,
    };
    let prefix = RequestPrefix::read(&mut reader).map_err(bad)?;
    let RequestPrefix {
        api_key,
        api_version,
        correlation_id,
    } = prefix;
    let not_served = CloseReason::NotServed {
        api_key,
        api_version,
    };
    let Some(api) = Api::find(api_key).filter(|api| api.served) else {
        return Err(not_served);
    };
    let newest = api.newest(turn.thread.settings.topic_ids);
    let supported = api_version >= api.min_version && api_version <= newest;
    if !turn.connection.authenticated && !may_come_first(api.key) {
        return Err(CloseReason::Unauthenticated { api_key });
    }
    // Kafka, too, lets an idle client begin again after its session has ended, and nothing else (KIP-368).
    if !may_come_first(api.key)
        && turn
            .connection
            .session_ends
            .is_some_and(|ends| ends <= received)
    {
        return Err(CloseReason::SessionExpired);
    }
    if !supported && api.key != ApiKey::ApiVersions {
        return Err(not_served);
    }
    // Only a Produce may run while others wait before it (R3).
    let produce = api.key == ApiKey::Produce;
    if let Output::Behind { unappended } = output
        && (unappended || !produce)
    {
        return Ok(Dispatched::Slot(Slot::Deferred {
            frame: frame.into_own(),
            received,
            produce,
        }));
    }
    let flexible = supported && api.is_flexible(api_version);
    let (client_span, body_at) = if supported {
        let header = RequestHeader::read_rest(prefix, &mut reader, flexible).map_err(|error| {
            CloseReason::BadRequest {
                api_key,
                api_version,
                error,
            }
        })?;
        // The client id is a borrow of the frame, which Produce changes: keep where it is.
        (
            header.client_id.map(|id| 10..10 + id.len()),
            reader.position(),
        )
    } else {
        (None, content.len())
    };
    let mut call = Call {
        shared: turn.shared,
        thread: &mut *turn.thread,
        connection: turn.connection,
        context: &mut *turn.context,
        api_key,
        version: api_version,
        correlation_id,
        flexible,
        client_id: None,
        received,
        now_ms: now_ms(),
    };
    if let (ApiKey::IngestAppend, Output::Head(outgoing)) = (api.key, &mut output) {
        let body = frame.into_own().after(body_at);
        let out = outgoing.tail(&mut call.thread.pool);
        let answer = k32151_ingest_append::run(&mut call, body, out)?;
        return Ok(finished(turn, api_key, received, answer));
    }
    let (head, body) = frame.bytes().split_at_mut(body_at);
    call.client_id = client_span.and_then(|span| core::str::from_utf8(head.get(span)?).ok());
    let answer = match output {
        Output::Head(outgoing) => run_at_head(&mut call, api, supported, body, outgoing)?,
        Output::Behind { .. } => {
            let mut reply = Vec::new();
            match k00_produce::run(&mut call, body, &mut reply)? {
                Answer::Written => {
                    call.thread.metrics.request(api_key, received);
                    return Ok(Dispatched::Slot(Slot::Ready(reply)));
                }
                other => other,
            }
        }
    };
    Ok(finished(turn, api_key, received, answer))
}

fn finished(turn: &Turn<'_, '_>, api_key: i16, received: Instant, answer: Answer) -> Dispatched {
    match answer {
        Answer::Later(slot) => Dispatched::Slot(slot),
        Answer::Written | Answer::Silent => {
            turn.thread.metrics.request(api_key, received);
            Dispatched::Done
        }
    }
}

fn run_at_head(
    call: &mut Call<'_, '_>,
    api: &Api,
    supported: bool,
    body: &mut [u8],
    outgoing: &mut Outgoing,
) -> Result<Answer, CloseReason> {
    if api.plane == Plane::Python {
        return Ok(to_control_plane::submit(call, body));
    }
    if api.key == ApiKey::Fetch {
        return k01_fetch::run(call, body, outgoing);
    }
    let out = outgoing.tail(&mut call.thread.pool);
    match api.key {
        ApiKey::Produce => k00_produce::run(call, body, out),
        ApiKey::ListOffsets => k02_list_offsets::run(call, body, out),
        ApiKey::Metadata => k03_metadata::run(call, body, out),
        ApiKey::ApiVersions if !supported => Ok(k18_api_versions::run_unsupported(call, out)),
        ApiKey::ApiVersions => k18_api_versions::run(call, body, out),
        ApiKey::OffsetForLeaderEpoch => k23_offset_for_leader_epoch::run(call, body, out),
        ApiKey::ListTopics => k32142_list_topics::run(call, body, out),
        // The table says native for a key without a file here: a test of the table finds it before any client.
        _ => Err(CloseReason::NotServed {
            api_key: call.api_key,
            api_version: call.version,
        }),
    }
}

/// What a client may send before it has authenticated.
fn may_come_first(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate
    )
}

/// The wall clock, milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_protocol::api_key::APIS;

    #[test]
    fn every_native_key_of_the_table_has_its_file() {
        let native: Vec<ApiKey> = APIS
            .iter()
            .filter(|api| api.plane == Plane::Native)
            .map(|api| api.key)
            .collect();
        let here = [
            ApiKey::Produce,
            ApiKey::Fetch,
            ApiKey::ListOffsets,
            ApiKey::Metadata,
            ApiKey::ApiVersions,
            ApiKey::OffsetForLeaderEpoch,
            ApiKey::ListTopics,
            ApiKey::IngestAppend,
        ];
        assert_eq!(native, here);
    }
}
