//! Fetch, versions 4–18: by name to v12, by topic id from v13, with sessions (KIP-227) from v7.
//!
//! The handler reads the available records. If they are fewer than `min_bytes` and no partition has an error, it
//! registers with the partitions and waits until one of them has more, `max_wait_ms` has passed, or the server stops;
//! it does not poll. Records stay in their files: the reply consists of header bytes and file slices. A pool of threads
//! first reads slices that are not in the page cache.
//!
//! Errors of the whole response concern the session: FETCH_SESSION_ID_NOT_FOUND (70), INVALID_FETCH_SESSION_EPOCH (71),
//! FETCH_SESSION_TOPIC_ID_ERROR (106). Unknown topics are reported per partition, by id UNKNOWN_TOPIC_ID, by name
//! UNKNOWN_TOPIC_OR_PARTITION, and do not end the wait for the others (as in Kafka). A client that fetches by name, and
//! read another incarnation of the topic before, gets OFFSET_OUT_OF_RANGE once. Versions that cannot carry an epoch (to
//! v8) always get it. Later versions without session get it only if their position is below the log start and the
//! client has not compared the position with the leader's epochs (OffsetForLeaderEpoch) since.
//!
//! A client over its quota gets a response without partitions at once, as in Kafka (KIP-219).
//!
//! Among brokers version 13 in the layout of the KIP-516 text, for followers: they read up to the log end, and their
//! fetch offset acknowledges replication. On client listeners fetches of followers are CLUSTER_AUTHORIZATION_FAILED.
//!
//! The node of the metadata quorum answers a broker's Fetch of partition 0 of the metadata topic, alone and outside a
//! session. Other fetches that name the topic get INVALID_REQUEST, as in Kafka.

mod parameters;
mod pending;
mod plan;
mod read;
mod respond;

use std::task::{Context, Poll};
use std::time::Instant;

pub(crate) use pending::PendingFetch;

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_request::FetchRequest;

use super::Call;
use super::to_control_plane::{self, PendingControl};
use crate::clients::close_reason::CloseReason;
use crate::net::outgoing::Outgoing;
use crate::shared::ThreadState;

/// The answer to a Fetch.
pub(crate) enum FetchAnswer {
    /// The reply is in the output.
    Written,
    /// The reply waits for records or for the disk.
    Later(Box<PendingFetch>),
    /// The node of the metadata quorum answers.
    Quorum(Box<PendingControl>),
}

/// Start a Fetch at the head of the slots. Its reply goes to `outgoing`, because it contains file slices.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &mut ThreadState,
    context: &mut Context<'_>,
    body: &[u8],
    outgoing: &mut Outgoing,
) -> Result<FetchAnswer, CloseReason> {
    // Take the request out of the thread's state, so that both can be borrowed. It is put back below with its capacity.
    let mut request = core::mem::take(&mut thread.fetch);
    let planned = match request.decode(body, call.version) {
        Err(error) => Err(call.bad_request(error)),
        Ok(()) if call.is_brokers() && names_metadata_topic(call, &request) => {
            if is_fetch_of_metadata(&request) {
                thread.fetch = request;
                return Ok(FetchAnswer::Quorum(to_control_plane::submit(call, body)));
            }
            Ok(Err(ErrorCode::INVALID_REQUEST))
        }
        Ok(()) => Ok(plan::plan(call, thread, &request, body)),
    };
    thread.fetch = request;
    let (mut parameters, source) = match planned? {
        Ok(plan) => plan,
        Err(error) => {
            thread.metrics.error(call.api_key, error.0);
            let out = outgoing.tail(&mut thread.pool);
            respond::write_error(call.reply, call.wire_version(), error, out);
            return Ok(FetchAnswer::Written);
        }
    };
    if call.throttle_time_ms > 0 {
        respond::write_throttled(&parameters, call.throttle_time_ms, thread, outgoing);
        source.give_up(parameters.incremental, thread);
        return Ok(FetchAnswer::Written);
    }
    if call.shared.metadata.quotas().is_active()
        && let Some(most) = call.connection.quotas.fetch_bytes_max()
    {
        parameters.max_bytes = parameters.max_bytes.min(most);
    }
    let mut pending = PendingFetch::new(parameters, source, call.moments());
    let (shared, connection, now) = (call.shared, call.connection, call.received);
    match pending.poll(shared, thread, connection, context, now, outgoing) {
        Poll::Ready(result) => result.map(|()| FetchAnswer::Written),
        Poll::Pending => {
            pending.moments.waits = Some(Instant::now());
            Ok(FetchAnswer::Later(Box::new(pending)))
        }
    }
}

/// Return whether a broker's request names the metadata topic. Incremental fetches of followers are not checked.
fn names_metadata_topic(call: &Call<'_>, request: &FetchRequest) -> bool {
    let metadata = &call.shared.metadata;
    request.session_epoch <= 0
        && (request.topics.iter()).any(|topic| metadata.is_metadata_topic(topic.topic_id))
}

/// Return whether the request asks for partition 0 of one topic only.
fn is_fetch_of_metadata(request: &FetchRequest) -> bool {
    matches!((&request.topics[..], &request.partitions[..]), ([_], [partition]) if partition.partition == 0)
}
