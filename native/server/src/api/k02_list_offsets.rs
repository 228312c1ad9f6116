//! ListOffsets, versions 0–11, by name in all of them.
//!
//! Negative timestamps, as Kafka 4 treats them without tiered storage: −1 the end that the isolation level sees, −2
//! the log start, −3 the record with the largest timestamp (v7+, KIP-734), −4 the local log's start, here the log
//! start (v8+, KIP-405), −5 the last tiered offset (v9+, KIP-1005) and −6 the earliest not uploaded (v11+): nothing,
//! −1. Others, or below their version: UNSUPPORTED_VERSION. v0 answers with a list, highest offset first.

use std::sync::Arc;

use hashbrown::HashMap;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use pybroker_replica::{Isolation, ListedOffset, OffsetSpec, Partition};

use super::pool_answer::{Answered, PendingPoolAnswer};
use super::{Answer, Call};
use crate::authorizer::Operation;
use crate::close::CloseReason;
use crate::error_codes::{Naming, of_partition};
use crate::resolve::ResolvedTopic;
use crate::shared::{Shared, ThreadState};

/// What a timestamp asks for.
enum Wanted {
    Offset(OffsetSpec),
    /// Something that only tiered storage has.
    Nothing,
}

/// Answers the request; look-ups by time read index and log files, so they go to a pool.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &ThreadState,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<Answer<PendingPoolAnswer>, CloseReason> {
    let request =
        ListOffsetsRequest::decode(body, call.version).map_err(|error| call.bad_request(error))?;
    // Decided on the connection's thread, where its decisions are remembered.
    let access = call.access();
    let refused: Vec<bool> = request
        .topics
        .iter()
        .map(|topic| !access.permits(Operation::DESCRIBE, topic.name))
        .collect();
    drop(access);
    let mut partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    if !partitions.any(|partition| reads_files(partition.timestamp)) {
        let answered = answer(call.shared, call.version, &request, &refused);
        answered.write(call.reply, &thread.metrics, out);
        return Ok(Answer::Written);
    }
    let (shared, version, body) = (
        Arc::clone(call.shared),
        call.version,
        Box::<[u8]>::from(body),
    );
    let bytes = body.len();
    let found = call.shared.cold_reads.run(move || {
        // Decoded a second time rather than copied field by field; it was decoded without error above.
        let request = ListOffsetsRequest::decode(&body, version).ok()?;
        Some(answer(&shared, version, &request, &refused))
    });
    let pending = PendingPoolAnswer::new(call, found, bytes);
    Ok(Answer::Later(Box::new(pending)))
}

fn reads_files(timestamp: i64) -> bool {
    timestamp >= 0 || timestamp == -3
}

/// `refused`: for each topic of the request whether it is hidden from the client.
fn answer(
    shared: &Shared,
    version: i16,
    request: &ListOffsetsRequest<'_>,
    refused: &[bool],
) -> Answered {
    let map = shared.replicas.snapshot();
    let view = shared.metadata.load();
    let isolation = match request.isolation_level {
        1 => Isolation::ReadCommitted,
        _ => Isolation::ReadUncommitted,
    };
    let mut named: HashMap<(&str, i32), u32> = HashMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *named.entry((topic.name, partition.partition)).or_default() += 1;
        }
    }
    let mut errors = Vec::new();
    let topics = request.topics.iter().zip(refused).map(|(topic, refused)| {
        let resolved = ResolvedTopic::by_name(&map, &view, topic.name);
        let partitions = topic.partitions.iter().map(|wanted| {
            // Named twice: Kafka refuses both.
            let twice = named
                .get(&(topic.name, wanted.partition))
                .is_some_and(|count| *count > 1);
            let found = if *refused {
                Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            } else if twice {
                Err(ErrorCode::INVALID_REQUEST)
            } else {
                let partition = resolved.partition(&view, wanted.partition);
                partition.and_then(|partition| find(version, partition, wanted, isolation))
            };
            errors.extend(found.as_ref().err().map(|error| error.0));
            response(wanted.partition, found)
        });
        ListOffsetsTopicResponse {
            name: topic.name,
            partitions: partitions.collect(),
        }
    });
    let response = ListOffsetsResponse {
        throttle_time_ms: 0,
        topics: topics.collect(),
    };
    let mut body = Vec::new();
    response.encode(version, &mut body);
    Answered::new(body, errors)
}

/// The offset wanted, and for v0 all of them.
fn find(
    version: i16,
    partition: &Partition,
    wanted: &ListOffsetsPartition,
    isolation: Isolation,
) -> Result<(ListedOffset, Vec<i64>), ErrorCode> {
    let spec = match meaning(wanted.timestamp, version)? {
        Wanted::Nothing => return Ok((ListedOffset::NONE, Vec::new())),
        Wanted::Offset(spec) => spec,
    };
    let look_up = |spec| {
        partition
            .list_offset(spec, isolation, wanted.current_leader_epoch)
            .map_err(|error| of_partition(&error, Naming::Name))
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

fn meaning(timestamp: i64, version: i16) -> Result<Wanted, ErrorCode> {
    let (since, wanted) = match timestamp {
        -1 => (0, Wanted::Offset(OffsetSpec::Latest)),
        -2 => (0, Wanted::Offset(OffsetSpec::Earliest)),
        -3 => (7, Wanted::Offset(OffsetSpec::MaxTimestamp)),
        -4 => (8, Wanted::Offset(OffsetSpec::Earliest)),
        -5 => (9, Wanted::Nothing),
        -6 => (11, Wanted::Nothing),
        time if time >= 0 => (0, Wanted::Offset(OffsetSpec::Timestamp(time))),
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
