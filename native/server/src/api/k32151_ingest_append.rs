//! IngestAppend, version 0: stages records for a topic outside of its logs (docs/staged-ingest.md).
//!
//! Records are validated as in Produce, without the GIL, on a separate pool, so that bulk loads delay neither the data
//! threads' connections nor reads of cold data. Each connection runs one append at a time.
//!
//! Among brokers the leader of a partition sends its staged records to the replicas.

use std::sync::Arc;
use std::time::Instant;

use pybroker_model::{TopicId, Uuid};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::codec::Registry;
use pybroker_protocol::hot::ingest_append::{
    IngestAppendPartitionResponse, IngestAppendRequest, IngestAppendResponse,
};
use pybroker_replica::{IngestError, IngestName, PartitionError, Replicas};

use super::pool_answer::{PendingPoolAnswer, PoolResponse};
use super::{Answer, Call};
use crate::api::topic_lookup::ResolvedTopic;
use crate::authorizer::Operation;
use crate::clients::close_reason::CloseReason;
use crate::error_codes::of_ingest;
use crate::net::frame::OwnedFrame;
use crate::net::reply::ReplyFrame;
use crate::shared::{ServerState, ThreadState};

/// An error that refuses the whole request.
struct Refusal {
    error: ErrorCode,
    message: Option<String>,
    throttle_time_ms: i32,
}

impl Refusal {
    fn code(error: ErrorCode) -> Self {
        Refusal {
            error,
            message: None,
            throttle_time_ms: 0,
        }
    }
}

impl From<IngestError> for Refusal {
    fn from(error: IngestError) -> Self {
        let throttle_time_ms = match &error {
            IngestError::Throttled { wait_ms, .. } => *wait_ms,
            _ => 0,
        };
        Refusal {
            error: of_ingest(&error),
            message: Some(error.to_string()),
            throttle_time_ms,
        }
    }
}

/// Submit the request to the pool, now or when the pool has room; a data thread never stages records.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &ThreadState,
    mut body: OwnedFrame,
    out: &mut Vec<u8>,
) -> Result<Answer<PendingPoolAnswer>, CloseReason> {
    // Undecodable requests close the connection before they wait, and unauthorized clients are refused here.
    let request = IngestAppendRequest::decode(body.bytes(), call.version)
        .map_err(|error| call.bad_request(error))?;
    let copy = call.connection.peer.registry == Registry::InterBroker;
    if let Some(error) = refuse(call, request.topic_id).filter(|_| !copy) {
        let response = IngestAppendResponse {
            error_code: error.0,
            ..IngestAppendResponse::default()
        };
        thread.metrics.error(call.api_key, error.0);
        let frame = ReplyFrame::begin(out, call.reply);
        response.encode(out);
        frame.end(out);
        return Ok(Answer::Written);
    }
    let (shared, version, now_ms) = (Arc::clone(call.shared), call.version, call.now_ms);
    let bytes = body.capacity();
    let pool = if copy {
        &call.shared.ingest_copies
    } else {
        &call.shared.ingest_io
    };
    let staged = pool.run(move || {
        let answered = answer(&shared, version, body.bytes(), copy, now_ms);
        Some(answered.with_frame(body))
    });
    let pending = PendingPoolAnswer::new(call, staged, bytes);
    Ok(Answer::Later(Box::new(pending)))
}

fn refuse(call: &Call<'_>, topic_id: Uuid) -> Option<ErrorCode> {
    let map = call.shared.replicas.snapshot();
    let view = call.shared.metadata.load();
    let resolved = ResolvedTopic::by_id(&map, &view, topic_id);
    call.access()
        .refuse(Operation::WRITE, None, &resolved, &view)
}

fn answer(
    shared: &ServerState,
    version: i16,
    body: &mut [u8],
    copy: bool,
    now_ms: i64,
) -> PoolResponse {
    let response = match stage(shared, version, body, copy, now_ms) {
        Ok(response) => response,
        Err(refusal) => IngestAppendResponse {
            throttle_time_ms: refusal.throttle_time_ms,
            error_code: refusal.error.0,
            error_message: refusal.message,
            partitions: Vec::new(),
        },
    };
    let errors = response.partitions.iter().map(|one| one.error_code);
    let errors = errors
        .chain([response.error_code])
        .filter(|code| *code != 0)
        .collect();
    let mut out = Vec::new();
    response.encode(&mut out);
    PoolResponse::new(out, errors)
}

fn stage(
    shared: &ServerState,
    version: i16,
    body: &mut [u8],
    copy: bool,
    now_ms: i64,
) -> Result<IngestAppendResponse, Refusal> {
    // Decoding again is cheaper than copying each field; it succeeded before.
    let request = IngestAppendRequest::decode(body, version)
        .map_err(|_| Refusal::code(ErrorCode::INVALID_REQUEST))?;
    let unknown = || Refusal::code(ErrorCode::UNKNOWN_TOPIC_ID);
    let topic_id = TopicId::new(request.topic_id).ok_or_else(unknown)?;
    let map = shared.replicas.snapshot();
    let view = shared.metadata.load();
    let resolved = ResolvedTopic::by_id(&map, &view, request.topic_id);
    if resolved.id.is_none() {
        return Err(unknown());
    }
    let name = IngestName {
        topic_id,
        ingest_id: request.ingest_id.into(),
        batch_id: request.batch_id,
    };
    let bytes = request
        .partitions
        .iter()
        .map(|one| one.records.map_or(0, |records| records.len() as u64))
        .sum();
    let ingests = shared.replicas.ingests();
    let now = Instant::now();
    let shared_with_producers = shared.producers.are_served(now);
    // The leader was admitted when it staged the records, so copies are not throttled.
    let throttle_time_ms = if copy {
        0
    } else {
        ingests.admit(&name, request.epoch, bytes, shared_with_producers, now)?
    };
    let (epoch, writer, attempt) = (request.epoch, request.writer, request.attempt);
    let wanted = request.partitions;
    let mut partitions = Vec::with_capacity(wanted.len());
    for one in &wanted {
        let staged = resolved
            .partition(&view, one.partition)
            .map_err(|error| (error, None))
            .and_then(|partition| {
                let records = one.records.map_or(0..0, |records| records.range());
                let stage = if copy {
                    Replicas::stage_copy
                } else {
                    Replicas::stage_records
                };
                let records = &mut body[records];
                let (to, replicas) = (partition, &shared.replicas);
                let sequence = one.sequence;
                stage(
                    replicas, &name, epoch, writer, attempt, to, sequence, records, now_ms,
                )
                .map_err(|error| (of_ingest(&error), Some(error)))
            });
        partitions.push(match staged {
            Ok(next_sequence) => IngestAppendPartitionResponse {
                partition: one.partition,
                next_sequence,
                ..IngestAppendPartitionResponse::default()
            },
            // The replica was stopped during this request. If the cluster still has the topic, another broker hosts the
            // replica now.
            Err((_, Some(error))) if is_gone(&error) && shows(shared, topic_id) => {
                IngestAppendPartitionResponse {
                    partition: one.partition,
                    error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
                    next_sequence: -1,
                    error_message: Some("this broker no longer has the replica".into()),
                }
            }
            // The ingest was closed after the request was admitted; the error applies to all partitions.
            Err((_, Some(error))) if is_of_the_ingest(&error) => return Err(error.into()),
            Err((code, error)) => IngestAppendPartitionResponse {
                partition: one.partition,
                error_code: code.0,
                next_sequence: match &error {
                    Some(IngestError::Gap { next, .. }) => *next,
                    _ => -1,
                },
                error_message: error.map(|error| error.to_string()),
            },
        });
    }
    Ok(IngestAppendResponse {
        throttle_time_ms,
        partitions,
        ..IngestAppendResponse::default()
    })
}

fn is_of_the_ingest(error: &IngestError) -> bool {
    matches!(
        error,
        IngestError::Unknown | IngestError::Fenced { .. } | IngestError::Committing
    ) || is_gone(error)
}

fn is_gone(error: &IngestError) -> bool {
    matches!(error, IngestError::Partition(PartitionError::Deleted))
}

fn shows(shared: &ServerState, topic_id: TopicId) -> bool {
    shared.metadata.load().topic_by_id(topic_id).is_some()
}
