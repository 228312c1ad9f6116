//! Resolution of a Fetch request and its session into the partitions to read.

use std::sync::Arc;
use std::time::Duration;

use pybroker_model::Uuid;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_request::{BY_ID, FetchRequest, SESSIONS, WITH_RACK};
use pybroker_protocol::primitives::Span;
use pybroker_replica::{Follower, Isolation};

use super::parameters::{FetchParameters, Source};
use crate::api::Call;
use crate::fetch_sessions::{EPOCH_FINAL, EPOCH_INITIAL, FetchTarget, TopicKey};
use crate::shared::ThreadState;

/// Return the parameters and partitions of the fetch, after applying or creating its session, or the error for the
/// whole response.
pub(super) fn plan(
    call: &Call<'_>,
    thread: &mut ThreadState,
    request: &FetchRequest,
    body: &[u8],
) -> Result<(FetchParameters, Source), ErrorCode> {
    let follower = (request.replica_id >= 0).then_some(Follower {
        broker: request.replica_id,
        broker_epoch: request.replica_epoch,
        received: call.received,
    });
    if follower.is_some() && !call.is_brokers() {
        // Refuse clients, because a follower reads above the high watermark and its fetch offset commits records.
        return Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    }
    let (source, session_id, incremental) = source(call, thread, request, body)?;
    let isolation = match (follower, request.isolation_level) {
        (Some(_), _) => Isolation::LogEnd,
        (None, 1) => Isolation::ReadCommitted,
        (None, _) => Isolation::ReadUncommitted,
    };
    let limit = thread
        .settings
        .limits
        .fetch_bytes_max
        .min(request.max_bytes);
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let rack_aware = thread.settings.rack_aware;
    let rack = text(request.rack_id, body);
    let parameters = FetchParameters {
        version: call.wire_version(),
        reply: call.reply,
        isolation,
        follower,
        throttle: Arc::clone(&call.shared.replicas.throttles().leader),
        any_replica: follower.is_none() && call.version >= WITH_RACK,
        rack: (rack_aware && follower.is_none() && !rack.is_empty()).then(|| rack.into()),
        tells_watermark: rack_aware && follower.is_some(),
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(limit).unwrap_or(0),
        deadline: call.received + wait,
        session_id,
        incremental,
        listener: Arc::clone(&call.connection.peer.listener),
    };
    Ok((parameters, source))
}

/// Apply the request to its session, or create one. Return the partitions, the session id for the response, and whether
/// the response is incremental.
fn source(
    call: &Call<'_>,
    thread: &mut ThreadState,
    request: &FetchRequest,
    body: &[u8],
) -> Result<(Source, i32, bool), ErrorCode> {
    let by_id = call.version >= BY_ID;
    let targets = targets(call, request, body, by_id);
    let sessions = &mut thread.sessions;
    if request.session_epoch == EPOCH_FINAL || request.session_epoch == EPOCH_INITIAL {
        if request.session_id != 0 {
            sessions.remove(request.session_id);
        }
        if request.session_epoch == EPOCH_INITIAL && call.version >= SESSIONS {
            let (created, evicted) = sessions.create(&targets, by_id, call.received);
            let metrics = &thread.metrics;
            metrics.fetch_sessions_evicted.add(u64::from(evicted));
            if let Some(session) = created {
                metrics.fetch_sessions_created.add(1);
                let session_id = session.0;
                return Ok((Source::Session(Box::new(session)), session_id, false));
            }
        }
        return Ok((Source::Request(targets), 0, false));
    }
    let mut taken = sessions.take(
        request.session_id,
        request.session_epoch,
        by_id,
        call.received,
    )?;
    for target in targets {
        taken.1.update(target);
    }
    taken.1.forget(request.forgotten.iter().flat_map(|topic| {
        let key = key(by_id, topic.name, topic.topic_id, body);
        let partitions = &request.forgotten_partitions[topic.partitions()];
        partitions.iter().map(move |index| (key.clone(), *index))
    }));
    // A session without partitions ends; session id 0 in the response says so.
    let session_id = if taken.1.len() > 0 { taken.0 } else { 0 };
    Ok((Source::Session(Box::new(taken)), session_id, true))
}

fn targets(call: &Call<'_>, request: &FetchRequest, body: &[u8], by_id: bool) -> Vec<FetchTarget> {
    // Without a session, the connection remembers which incarnation of a topic name the client read.
    let remembers = request.session_epoch == EPOCH_FINAL;
    let mut targets = Vec::with_capacity(request.partitions.len());
    let map = call.shared.replicas.snapshot();
    for topic in &request.topics {
        let key = if by_id {
            TopicKey::Id(topic.topic_id)
        } else {
            // Reuse the name from the metadata, which avoids a copy.
            let name = text(topic.name, body);
            match map.topic_id(name).and_then(|id| map.topic(id)) {
                Some(hosted) => TopicKey::Name(Arc::clone(&hosted.name)),
                None => TopicKey::Name(name.into()),
            }
        };
        for partition in &request.partitions[topic.partitions()] {
            let resolved = match &key {
                TopicKey::Name(name) if remembers => {
                    call.connection.read_before(name, partition.partition)
                }
                _ => None,
            };
            targets.push(FetchTarget {
                topic: key.clone(),
                partition: partition.partition,
                fetch_offset: partition.fetch_offset,
                current_leader_epoch: partition.current_leader_epoch,
                last_fetched_epoch: partition.last_fetched_epoch,
                max_bytes: partition.partition_max_bytes,
                resolved,
            });
        }
    }
    targets
}

fn key(by_id: bool, name: Span, topic_id: Uuid, body: &[u8]) -> TopicKey {
    if by_id {
        TopicKey::Id(topic_id)
    } else {
        TopicKey::Name(text(name, body).into())
    }
}

fn text(span: Span, body: &[u8]) -> &str {
    // Decoding verified that the bytes are UTF-8.
    core::str::from_utf8(span.of(body)).unwrap_or_default()
}
