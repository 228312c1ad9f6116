//! Dispatch of a frame: check whether the request may be answered and whether it is its turn, and call the handler of
//! its API key.

pub(crate) mod sasl;
pub(crate) mod slots;

use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use pybroker_protocol::header::{RequestPrefix, read_client_id};
use pybroker_protocol::primitives::{DecodeError, Reader};
use pybroker_protocol::{Api, ApiKey, Plane};

use self::slots::{ReadyReply, Slot};
use crate::api::k01_fetch::FetchAnswer;
use crate::api::unauthenticated::{self, UnauthenticatedReply};
use crate::api::{
    Answer, Call, cached_response, k00_produce, k01_fetch, k02_list_offsets, k03_metadata,
    k08_offset_commit, k18_api_versions, k23_offset_for_leader_epoch, k32142_list_topics,
    k32151_ingest_append, large_request, to_control_plane,
};
use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;
use crate::clock::now_ms;
use crate::config::Registry;
use crate::metrics::Moments;
use crate::net::frame::Frame;
use crate::net::outgoing::Outgoing;
use crate::net::reply::ReplyHeader;
use crate::shared::{ServerState, ThreadState};

/// Where an immediate reply goes.
pub(crate) enum Output<'o> {
    /// The request is at the head, so its reply goes directly to the connection's output.
    Head(&'o mut Outgoing),
    /// Earlier requests are not answered. Only a Produce may run, and its reply waits in a slot. If `unappended` is
    /// set, an earlier Produce is not appended yet, and no request may run.
    Behind { unappended: bool },
}

/// Result of dispatching a request.
pub(crate) enum DispatchOutcome {
    /// The request has been answered, or needs no answer (acks=0).
    Done,
    /// The request takes the next slot.
    Slot(Slot),
    /// The output has the last reply, after which the connection closes for this reason.
    Last(CloseReason),
}

/// Context of one turn of a connection.
pub(crate) struct Turn<'a, 'c> {
    pub(crate) shared: &'a Arc<ServerState>,
    pub(crate) thread: &'a mut ThreadState,
    pub(crate) connection: &'a ConnectionInfo,
    pub(crate) context: &'a mut Context<'c>,
}

/// A request that may be answered over its connection.
struct AdmittedRequest {
    api: &'static Api,
    prefix: RequestPrefix,
    /// False only for ApiVersions, which answers unsupported versions too.
    supported: bool,
}

/// Run one request. `frame` is its content without the length prefix; Produce modifies it in place.
pub(crate) fn dispatch(
    turn: &mut Turn<'_, '_>,
    mut frame: Frame<'_>,
    received: Instant,
    output: Output<'_>,
) -> Result<DispatchOutcome, CloseReason> {
    if turn.connection.raw_tokens {
        return submit_raw_token(turn, frame.bytes(), received, &output);
    }
    let mut reader = Reader::new(frame.bytes());
    let admitted = match admit(turn, &mut reader, received) {
        Err(reason @ CloseReason::Unauthenticated { .. }) => {
            return refuse_login(turn, frame.bytes(), received, output, reason);
        }
        admitted => admitted?,
    };
    // Only a Produce may run while other requests are ahead of it.
    let produce = admitted.api.key == ApiKey::Produce;
    if let Output::Behind { unappended } = output
        && (unappended || !produce)
    {
        return Ok(DispatchOutcome::Slot(Slot::Deferred {
            frame: frame.into_own(),
            received,
            produce,
        }));
    }
    run(turn, &admitted, frame, received, output)
}

/// Parse the request header. Refuse requests that the listener does not serve, and requests that must not come before
/// authentication.
#[inline]
fn admit(
    turn: &Turn<'_, '_>,
    reader: &mut Reader<'_>,
    received: Instant,
) -> Result<AdmittedRequest, CloseReason> {
    let prefix = RequestPrefix::read(reader).map_err(|error| CloseReason::BadRequest {
        api_key: -1,
        api_version: -1,
        error,
    })?;
    let (api_key, api_version) = (prefix.api_key, prefix.api_version);
    let not_served = CloseReason::NotServed {
        api_key,
        api_version,
    };
    let (registry, cluster) = (turn.connection.peer.registry, turn.thread.settings.cluster);
    let Some((api, (lowest, newest))) =
        Api::find(api_key).and_then(|api| Some((api, api.versions_on(registry, cluster)?)))
    else {
        return Err(not_served);
    };
    let supported = (lowest..=newest).contains(&api_version);
    if !supported && api.key != ApiKey::ApiVersions {
        return Err(not_served);
    }
    if !sasl::may_come_first(turn.connection, api.key) {
        if !turn.connection.authenticated {
            return Err(CloseReason::Unauthenticated { api_key });
        }
        // After the session has expired, refuse everything except re-authentication (KIP-368). Kafka also lets an idle
        // client re-authenticate then.
        let ends = turn.connection.session_ends;
        if ends.is_some_and(|ends| ends <= received) {
            return Err(CloseReason::SessionExpired);
        }
    }
    Ok(AdmittedRequest {
        api,
        prefix,
        supported,
    })
}

/// Run a request that is at the head.
fn run(
    turn: &mut Turn<'_, '_>,
    admitted: &AdmittedRequest,
    mut frame: Frame<'_>,
    received: Instant,
    mut output: Output<'_>,
) -> Result<DispatchOutcome, CloseReason> {
    let AdmittedRequest {
        api,
        prefix,
        supported,
    } = *admitted;
    let flexible = supported && api.is_flexible(prefix.api_version);
    let (client_span, body_at) = if supported {
        rest_of_header(prefix, frame.bytes(), flexible)?
    } else {
        (None, frame.bytes().len())
    };
    let bytes = frame.bytes().len() as u64;
    let metrics = turn.thread.metrics.of_key(prefix.api_key);
    metrics.bytes.record(bytes);
    let mut call = call(turn, prefix, flexible, received);
    if turn.shared.metadata.quotas().is_active() {
        call.throttle_time_ms = throttle_time_ms(turn, api, client_span.clone(), &mut frame);
    }
    if let (ApiKey::IngestAppend, Output::Head(outgoing)) = (api.key, &mut output) {
        let body = frame.into_own().after(body_at);
        let out = outgoing.tail(&mut turn.thread.pool);
        let answer = k32151_ingest_append::run(&call, turn.thread, body, out)?;
        return Ok(finished(turn, &call, answer, Slot::Pool));
    }
    let (head, body) = frame.bytes().split_at_mut(body_at);
    let client_id = client_span.and_then(|span| head.get(span));
    let client_id = client_id.map(String::from_utf8_lossy);
    call.client_id = client_id.as_deref();
    call.connection.set_client_id(call.client_id);
    let answered = answer(turn, &call, admitted, body, &mut output);
    let is_not_utf8 = matches!(
        answered,
        Err(CloseReason::BadRequest {
            error: DecodeError::NotUtf8,
            ..
        })
    );
    match is_not_utf8.then(|| call.with_replaced_text(body)) {
        Some(Some(mut mended)) => answer(turn, &call, admitted, &mut mended, &mut output),
        _ => answered,
    }
}

/// Answer a request. Nothing is written if its body cannot be decoded.
fn answer(
    turn: &mut Turn<'_, '_>,
    call: &Call<'_>,
    admitted: &AdmittedRequest,
    body: &mut [u8],
    output: &mut Output<'_>,
) -> Result<DispatchOutcome, CloseReason> {
    match output {
        Output::Head(outgoing) => {
            run_at_head(turn, call, admitted.api, admitted.supported, body, outgoing)
        }
        Output::Behind { .. } => {
            let mut reply = Vec::new();
            let answer = k00_produce::run(call, turn.thread, body, &mut reply)?;
            if let Answer::Written = answer {
                let now = Instant::now();
                turn.thread.clock = now;
                return Ok(DispatchOutcome::Slot(Slot::Ready(Box::new(ReadyReply {
                    reply,
                    version: call.version,
                    moments: Moments {
                        ready: Some(now),
                        ..call.moments()
                    },
                }))));
            }
            Ok(finished(turn, call, answer, Slot::Produce))
        }
    }
}

fn call<'a>(
    turn: &Turn<'a, '_>,
    prefix: RequestPrefix,
    flexible: bool,
    received: Instant,
) -> Call<'a> {
    Call {
        shared: turn.shared,
        connection: turn.connection,
        api_key: prefix.api_key,
        version: prefix.api_version,
        reply: ReplyHeader {
            correlation_id: prefix.correlation_id,
            flexible,
        },
        client_id: None,
        received,
        began: turn.thread.clock,
        now_ms: now_ms(),
        throttle_time_ms: 0,
    }
}

/// Return the throttle time of the request by the client's quotas. Brokers and unauthenticated clients have no quotas.
#[cold]
fn throttle_time_ms(
    turn: &Turn<'_, '_>,
    api: &Api,
    client_id: Option<core::ops::Range<usize>>,
    frame: &mut Frame<'_>,
) -> i32 {
    let connection = turn.connection;
    if connection.peer.registry == Registry::InterBroker || !connection.authenticated {
        return 0;
    }
    let frame = frame.bytes();
    let client_id = client_id.and_then(|span| frame.get(span));
    let client_id = String::from_utf8_lossy(client_id.unwrap_or_default());
    let quotas = turn.shared.metadata.quotas();
    let who = (&*connection.principal, &*client_id);
    // Use the end of the previous request as the start of this one, not the start of the turn.
    let now = turn.thread.clock;
    connection
        .quotas
        .arrived(quotas, who, (api.key, frame.len()), now)
}

/// Answer a client that must authenticate or use TLS with an error, if its request has a response that can carry one.
/// Then close the connection.
fn refuse_login(
    turn: &mut Turn<'_, '_>,
    frame: &[u8],
    received: Instant,
    output: Output<'_>,
    reason: CloseReason,
) -> Result<DispatchOutcome, CloseReason> {
    let (prefix, api) = match RequestPrefix::read(&mut Reader::new(frame)) {
        Ok(prefix) => (prefix, Api::find(prefix.api_key)),
        Err(_) => return Err(reason),
    };
    let (Some(api), Output::Head(outgoing)) = (api, output) else {
        return Err(reason);
    };
    let flexible = api.is_flexible(prefix.api_version);
    let (_, body_at) = rest_of_header(prefix, frame, flexible)?;
    let call = call(turn, prefix, flexible, received);
    let out = outgoing.tail(&mut turn.thread.pool);
    let dispatched = match unauthenticated::answer(&call, &frame[body_at..], out) {
        UnauthenticatedReply::Nothing => return Err(reason),
        UnauthenticatedReply::Brokers => DispatchOutcome::Done,
        UnauthenticatedReply::Refusal => DispatchOutcome::Last(reason),
    };
    turn.thread
        .answered(call.api_key, call.version, call.moments());
    Ok(dispatched)
}

/// Return the position of the client id in a request and the start of its body. It does not return the client id
/// itself, because Produce modifies the frame that the client id would borrow.
fn rest_of_header(
    prefix: RequestPrefix,
    frame: &[u8],
    flexible: bool,
) -> Result<(Option<core::ops::Range<usize>>, usize), CloseReason> {
    let bad = |error| CloseReason::BadRequest {
        api_key: prefix.api_key,
        api_version: prefix.api_version,
        error,
    };
    const CLIENT_ID_AT: usize = RequestPrefix::BYTES + 2;
    let mut reader = Reader::new(&frame[RequestPrefix::BYTES..]);
    let client_id = read_client_id(&mut reader, flexible).map_err(bad)?;
    Ok((
        client_id.map(|id| CLIENT_ID_AT..CLIENT_ID_AT + id.len()),
        RequestPrefix::BYTES + reader.position(),
    ))
}

fn run_at_head(
    turn: &mut Turn<'_, '_>,
    call: &Call<'_>,
    api: &Api,
    supported: bool,
    body: &mut [u8],
    outgoing: &mut Outgoing,
) -> Result<DispatchOutcome, CloseReason> {
    if api.plane == Plane::Python {
        if cached_response::write(call, turn.thread, body, outgoing) {
            turn.thread
                .answered(call.api_key, call.version, call.moments());
            return Ok(DispatchOutcome::Done);
        }
        if api.key == ApiKey::OffsetCommit
            && let Some(answer) = k08_offset_commit::run(call, turn.thread, body, outgoing)
        {
            return Ok(finished(turn, call, answer, Slot::OffsetCommit));
        }
        let pending = to_control_plane::submit(call, body);
        return Ok(DispatchOutcome::Slot(Slot::Control(pending)));
    }
    let thread = &mut *turn.thread;
    if api.key == ApiKey::Fetch {
        return Ok(
            match k01_fetch::run(call, thread, turn.context, body, outgoing)? {
                FetchAnswer::Later(pending) => DispatchOutcome::Slot(Slot::Fetch(pending)),
                FetchAnswer::Quorum(pending) => DispatchOutcome::Slot(Slot::Control(pending)),
                FetchAnswer::Written => {
                    thread.answered(call.api_key, call.version, call.moments());
                    DispatchOutcome::Done
                }
            },
        );
    }
    if large_request::is_large(call, api.key, body) {
        let pending = large_request::submit(call, thread, body);
        return Ok(DispatchOutcome::Slot(Slot::Large(pending)));
    }
    let out = outgoing.tail(&mut thread.pool);
    let mut errors = Vec::new();
    match api.key {
        ApiKey::Produce => {
            let answer = k00_produce::run(call, thread, body, out)?;
            return Ok(finished(turn, call, answer, Slot::Produce));
        }
        ApiKey::ListOffsets => {
            let answer = k02_list_offsets::run(call, body, out, &mut errors)?;
            thread.count_errors(call.api_key, &errors);
            return Ok(finished(turn, call, answer, Slot::Pool));
        }
        ApiKey::Metadata => {
            let creates = thread.settings.auto_create_topics;
            let answer = k03_metadata::run(call, creates, body, out, &mut errors)?;
            thread.count_errors(call.api_key, &errors);
            return Ok(finished(turn, call, answer, Slot::Control));
        }
        ApiKey::ApiVersions if !supported => k18_api_versions::run_unsupported(call, thread, out),
        ApiKey::ApiVersions => k18_api_versions::run(call, thread, body, out)?,
        ApiKey::OffsetForLeaderEpoch => {
            k23_offset_for_leader_epoch::run(call, body, out, &mut errors)?;
            thread.count_errors(call.api_key, &errors);
        }
        ApiKey::ListTopics => k32142_list_topics::run(call, body, out)?,
        // The table marks the key as native but no handler exists; a test of the table detects this.
        _ => {
            return Err(CloseReason::NotServed {
                api_key: call.api_key,
                api_version: call.version,
            });
        }
    }
    thread.answered(call.api_key, call.version, call.moments());
    Ok(DispatchOutcome::Done)
}

fn finished<P>(
    turn: &mut Turn<'_, '_>,
    call: &Call<'_>,
    answer: Answer<P>,
    slot: fn(Box<P>) -> Slot,
) -> DispatchOutcome {
    match answer {
        Answer::Later(pending) => DispatchOutcome::Slot(slot(pending)),
        Answer::Written | Answer::Silent => {
            turn.thread
                .answered(call.api_key, call.version, call.moments());
            DispatchOutcome::Done
        }
    }
}

/// Forward a SASL token that has no Kafka header as a SaslAuthenticate.
fn submit_raw_token(
    turn: &Turn<'_, '_>,
    token: &[u8],
    received: Instant,
    output: &Output<'_>,
) -> Result<DispatchOutcome, CloseReason> {
    let api_key = ApiKey::SaslAuthenticate.code();
    if matches!(output, Output::Behind { .. }) {
        // The client did not wait for the challenge, so it does not speak SASL.
        return Err(CloseReason::Unauthenticated { api_key });
    }
    let prefix = RequestPrefix {
        api_key,
        api_version: 0,
        correlation_id: 0,
    };
    let call = call(turn, prefix, false, received);
    let pending = to_control_plane::submit(&call, &sasl::authenticate_body(token));
    Ok(DispatchOutcome::Slot(Slot::Control(pending)))
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
