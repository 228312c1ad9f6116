//! From a Fetch request and its session to the list of partitions to read.

use std::sync::Arc;

use pybroker_model::{TopicId, Uuid};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_request::{BY_ID, FetchRequest};
use pybroker_protocol::primitives::Span;

use super::super::Call;
use crate::fetch_sessions::{EPOCH_FINAL, EPOCH_INITIAL, FetchTarget, Taken, TopicKey};
use crate::shared::ThreadState;

/// Where the partitions to read are listed.
pub(super) enum Source {
    /// A session, taken out of the thread's for the duration of the fetch.
    Session(Box<Taken>),
    /// The request itself.
    Request(Vec<FetchTarget>),
}

/// What a Fetch is to do.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) session_id: i32,
    pub(super) incremental: bool,
}

impl Source {
    /// The partitions in reading order, each with its place.
    pub(super) fn targets(&self) -> Box<dyn Iterator<Item = (u32, &FetchTarget)> + '_> {
        match self {
            Source::Session(session) => Box::new(session.1.targets()),
            Source::Request(targets) => Box::new((0u32..).zip(targets)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Source::Session(session) => session.1.len(),
            Source::Request(targets) => targets.len(),
        }
    }

    pub(super) fn set_resolved(&mut self, place: u32, id: TopicId) {
        match self {
            Source::Session(session) => session.1.set_resolved(place, id),
            Source::Request(targets) => {
                if let Some(target) = targets.get_mut(place as usize) {
                    target.resolved = Some(id);
                }
            }
        }
    }

    /// Gives a session back.
    pub(super) fn release(self, thread: &mut ThreadState) {
        if let Source::Session(session) = self {
            thread.sessions.put_back(*session);
        }
    }
}

/// Applies the request to its session, or makes one.
pub(super) fn plan(
    call: &mut Call<'_, '_>,
    request: &FetchRequest,
    body: &[u8],
) -> Result<Plan, ErrorCode> {
    let by_id = call.version >= BY_ID;
    if request.replica_id >= 0 {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    let targets = targets(call, request, body, by_id);
    if request.session_epoch == EPOCH_FINAL || request.session_epoch == EPOCH_INITIAL {
        if request.session_id != 0 {
            call.thread.sessions.remove(request.session_id);
        }
        if request.session_epoch == EPOCH_INITIAL
            && call.version >= pybroker_protocol::hot::fetch_request::SESSIONS
        {
            let (created, evicted) = call.thread.sessions.create(&targets, by_id, call.received);
            call.thread
                .metrics
                .fetch_sessions_evicted
                .add(u64::from(evicted));
            if let Some(session) = created {
                call.thread.metrics.fetch_sessions_created.add(1);
                let session_id = session.0;
                return Ok(Plan {
                    source: Source::Session(Box::new(session)),
                    session_id,
                    incremental: false,
                });
            }
        }
        return Ok(Plan {
            source: Source::Request(targets),
            session_id: 0,
            incremental: false,
        });
    }
    let sessions = &mut call.thread.sessions;
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
    // A session that forgot everything ends; the client is told by session id 0.
    let session_id = if taken.1.len() > 0 { taken.0 } else { 0 };
    Ok(Plan {
        source: Source::Session(Box::new(taken)),
        session_id,
        incremental: true,
    })
}

fn targets(
    call: &Call<'_, '_>,
    request: &FetchRequest,
    body: &[u8],
    by_id: bool,
) -> Vec<FetchTarget> {
    // Without a session the connection remembers which incarnation was read (R4); from v9 on epochs tell.
    let remembers = call.version <= 8 && request.session_epoch == EPOCH_FINAL;
    let mut targets = Vec::with_capacity(request.partitions.len());
    let map = call.shared.replicas.snapshot();
    for topic in &request.topics {
        let key = if by_id {
            TopicKey::Id(topic.topic_id)
        } else {
            // The name that the map holds already, if it is known: no copy.
            let name = text(topic.name, body);
            match map.topic_id(name).and_then(|id| map.topic(id)) {
                Some(hosted) => TopicKey::Name(Arc::clone(&hosted.name)),
                None => TopicKey::Name(name.into()),
            }
        };
        let resolved = match &key {
            TopicKey::Name(name) if remembers => map
                .topic_id(name)
                .and_then(|id| call.connection.fetched(name, id)),
            _ => None,
        };
        for partition in &request.partitions[topic.partitions()] {
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
    // Checked to be UTF-8 when it was decoded.
    core::str::from_utf8(span.of(body)).unwrap_or_default()
}
