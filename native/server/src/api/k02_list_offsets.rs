//! ListOffsets, versions 0–11, by name in all of them; among brokers version 6, by topic id, for followers up to the
//! log end.
//!
//! Negative timestamps, as in Kafka 4 without tiered storage: −1 the end that the isolation level sees, −2 the log
//! start, −3 the record with the largest timestamp (v7+, KIP-734), −4 the start of the local log, here the log start
//! (v8+, KIP-405), −5 the last tiered offset (v9+, KIP-1005) and −6 the earliest offset that is not uploaded (v11+). −5
//! and −6 return −1, no offset. Other values, or these below their version: UNSUPPORTED_VERSION. v0 answers with a
//! list, highest offset first.
//!
//! A new leader whose high watermark has not reached the start of its epoch does not know the end that clients were
//! told before (KIP-207). Until then answers that depend on that end are OFFSET_NOT_AVAILABLE (v5+), below v5
//! LEADER_NOT_AVAILABLE: this concerns the end, and timestamps for which no record below the high watermark matches.
//! Clients retry both errors.
//!
//! Answers that depend on the log end wait for a flush in progress, so that a client whose acks=1 write was
//! acknowledged finds its record.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::hot::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
};
use pybroker_protocol::hot::of_topic::TopicRef;
use pybroker_replica::{Commit, Isolation, ListedOffset, OffsetSpec, Partition, PartitionError};

use super::each_partition::{answer_each, naming, refusals};
use super::pool_answer::{PendingPoolAnswer, PoolResponse};
use super::{Answer, Call};
use crate::api::topic_lookup::ResolvedTopic;
use crate::clients::close_reason::CloseReason;
use crate::error_codes::{Naming, of_partition};
use crate::limits::FLUSH_WAIT_MAX;
use crate::shared::ServerState;

/// The meaning of a requested timestamp.
enum TimestampMeaning {
    Offset(OffsetSpec),
    /// An offset that exists only with tiered storage.
    Nothing,
}

/// Answer the request. `errors` gets the error codes of an immediate answer. Look-ups by time read index and log
/// files, so a pool of threads runs them.
pub(crate) fn run(
    call: &Call<'_>,
    body: &[u8],
    out: &mut Vec<u8>,
    errors: &mut Vec<i16>,
) -> Result<Answer<PendingPoolAnswer>, CloseReason> {
    let wire = call.wire_version();
    let request =
        ListOffsetsRequest::decode(body, wire).map_err(|error| call.bad_request(error))?;
    let isolation = isolation(call, &request);
    let refused = refusals(call, &request.topics);
    let mut partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let reads_files = partitions.any(|partition| reads_files(partition.timestamp));
    let flushes = if isolation == Isolation::LogEnd {
        Vec::new()
    } else {
        flushes_under_way(call.shared, &request, &refused)
    };
    if flushes.is_empty() && !reads_files {
        let answered = answer(call.shared, wire, &request, isolation, &refused);
        answered.write_now(call, out, errors);
        return Ok(Answer::Written);
    }
    let (shared, body) = (Arc::clone(call.shared), Box::<[u8]>::from(body));
    let bytes = body.len();
    let look_up = move |shared: &ServerState| {
        // Decoding again is cheaper than copying each field; it succeeded above.
        let request = ListOffsetsRequest::decode(&body, wire).ok()?;
        Some(answer(shared, wire, &request, isolation, &refused))
    };
    let on_pool = move || {
        let pool = Arc::clone(&shared);
        pool.cold_reads.run(move || look_up(&shared))
    };
    let found = if flushes.is_empty() {
        on_pool()
    } else {
        Box::pin(async move {
            wait_for(flushes, FLUSH_WAIT_MAX).await;
            on_pool().await
        })
    };
    let pending = PendingPoolAnswer::new(call, found, bytes);
    Ok(Answer::Later(Box::new(pending)))
}

/// Return the isolation that limits the visible offsets.
///
/// Clients get the offsets that consumers see, regardless of the replica id in the request (kafka-python 3.0.0 to
/// 3.0.11 sends 0). Offsets beyond the high watermark may be lost with a new leader.
fn isolation(call: &Call<'_>, request: &ListOffsetsRequest<'_>) -> Isolation {
    match (request.replica_id, request.isolation_level) {
        (0.., _) if call.is_brokers() => Isolation::LogEnd,
        (_, 1) => Isolation::ReadCommitted,
        _ => Isolation::ReadUncommitted,
    }
}

fn reads_files(timestamp: i64) -> bool {
    timestamp >= 0 || timestamp == -3
}

/// Return whether the answer to this timestamp depends on the committed end of the partition.
fn asks_for_the_end(timestamp: i64) -> bool {
    timestamp == -1 || reads_files(timestamp)
}

/// Return the flushes in progress after which consumers see records that were acknowledged with acks=1 but are not
/// committed yet.
fn flushes_under_way(
    shared: &ServerState,
    request: &ListOffsetsRequest<'_>,
    refused: &[Option<ErrorCode>],
) -> Vec<Commit> {
    let mut flushes = Vec::new();
    let map = shared.replicas.snapshot();
    let view = shared.metadata.load();
    for (topic, refused) in request.topics.iter().zip(refused) {
        if refused.is_some() {
            continue;
        }
        let resolved = ResolvedTopic::of(&map, &view, topic.topic);
        for wanted in &topic.partitions {
            if asks_for_the_end(wanted.timestamp)
                && let Ok(partition) = resolved.partition(&view, wanted.partition)
            {
                flushes.extend(partition.flush_under_way());
            }
        }
    }
    flushes
}

/// Wait for all flushes, at most `limit`. The partition reports the error of a failed flush.
async fn wait_for(flushes: Vec<Commit>, limit: Duration) {
    let all = async {
        for flush in flushes {
            drop(flush.await);
        }
    };
    // A timeout is no error: the answer then shows the committed records.
    drop(tokio::time::timeout(limit, all).await);
}

/// Answer every partition. `refused` has, for each topic of the request, the error that refuses all of it.
fn answer(
    shared: &ServerState,
    wire: WireVersion,
    request: &ListOffsetsRequest<'_>,
    isolation: Isolation,
    refused: &[Option<ErrorCode>],
) -> PoolResponse {
    let mut named: HashMap<(TopicRef<'_>, i32), u32> = HashMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *named.entry((topic.topic, partition.partition)).or_default() += 1;
        }
    }
    let mut errors = Vec::new();
    let topics = answer_each(
        shared,
        &request.topics,
        refused,
        |wanted| wanted.partition,
        |topic, wanted, partition| {
            // Kafka refuses both entries of a partition that is named twice.
            let twice = named
                .get(&(topic, wanted.partition))
                .is_some_and(|count| *count > 1);
            let found = match partition {
                Err(error) if refuses_first(error) => Err(error),
                _ if twice => Err(ErrorCode::INVALID_REQUEST),
                Err(error) => Err(error),
                Ok(partition) => find(wire.number, partition, wanted, isolation, naming(topic)),
            };
            errors.extend(found.as_ref().err().map(|error| error.0));
            response(wanted.partition, found)
        },
    );
    let response = ListOffsetsResponse {
        throttle_time_ms: 0,
        topics,
    };
    let mut body = Vec::new();
    response.encode(wire, &mut body);
    PoolResponse::new(body, errors)
}

/// Return whether this error takes precedence over the error for a duplicate partition. Otherwise the latter would
/// reveal the topic to a client without access.
fn refuses_first(error: ErrorCode) -> bool {
    error == ErrorCode::TOPIC_AUTHORIZATION_FAILED
        || error == ErrorCode::CLUSTER_AUTHORIZATION_FAILED
}

/// Find the requested offset, and for v0 all offsets.
fn find(
    version: i16,
    partition: &Partition,
    wanted: &ListOffsetsPartition,
    isolation: Isolation,
    naming: Naming,
) -> Result<(ListedOffset, Vec<i64>), ErrorCode> {
    let spec = match meaning(wanted.timestamp, version)? {
        TimestampMeaning::Nothing => return Ok((ListedOffset::NONE, Vec::new())),
        TimestampMeaning::Offset(spec) => spec,
    };
    let look_up = |spec| {
        partition
            .list_offset(spec, isolation, wanted.current_leader_epoch)
            .map_err(|error| match error {
                PartitionError::OffsetNotAvailable { .. } if version < 5 => {
                    ErrorCode::LEADER_NOT_AVAILABLE
                }
                error => of_partition(&error, naming),
            })
    };
    let found = look_up(spec)?;
    let mut old_style = Vec::new();
    if version == 0 {
        old_style.extend((found.offset >= 0).then_some(found.offset));
        if spec == OffsetSpec::Latest {
            let earliest = look_up(OffsetSpec::Earliest)?.offset;
            old_style.extend((earliest != found.offset).then_some(earliest));
        }
        old_style.truncate(usize::try_from(wanted.max_num_offsets).unwrap_or(0));
    }
    Ok((found, old_style))
}

fn meaning(timestamp: i64, version: i16) -> Result<TimestampMeaning, ErrorCode> {
    let (since, wanted) = match timestamp {
        -1 => (0, TimestampMeaning::Offset(OffsetSpec::Latest)),
        -2 => (0, TimestampMeaning::Offset(OffsetSpec::Earliest)),
        -3 => (7, TimestampMeaning::Offset(OffsetSpec::MaxTimestamp)),
        -4 => (8, TimestampMeaning::Offset(OffsetSpec::Earliest)),
        -5 => (9, TimestampMeaning::Nothing),
        -6 => (11, TimestampMeaning::Nothing),
        time if time >= 0 => (0, TimestampMeaning::Offset(OffsetSpec::Timestamp(time))),
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    };
    if version >= since {
        Ok(wanted)
    } else {
        Err(ErrorCode::UNSUPPORTED_VERSION)
    }
}

fn response(
    partition: i32,
    found: Result<(ListedOffset, Vec<i64>), ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let (error, (listed, old_style_offsets)) = match found {
        Ok(found) => (ErrorCode::NONE, found),
        Err(error) => (error, (ListedOffset::NONE, Vec::new())),
    };
    ListOffsetsPartitionResponse {
        partition,
        error_code: error.0,
        old_style_offsets,
        timestamp: listed.timestamp,
        offset: listed.offset,
        leader_epoch: listed.leader_epoch,
    }
}
