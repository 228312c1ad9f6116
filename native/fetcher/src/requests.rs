//! Fetch and ListOffsets requests of a follower: with topic ids in the versions of KIP-516; with names in earlier
//! versions, for a leader that does not know ids.

use pybroker_model::{IdMap, TopicIdPartition, Uuid};
use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::hot::fetch_request::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic,
};
use pybroker_protocol::hot::list_offsets::{
    self, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse,
};
use pybroker_protocol::hot::of_topic::OfTopic;
use pybroker_protocol::hot::{fetch_response, list_offsets::ListOffsetsPartitionResponse};
use pybroker_protocol::primitives::DecodeError;
use pybroker_replica::FetchFrom;

use crate::names::Names;

/// Return the version of Fetch.
pub(crate) const fn fetch_version(by_id: bool) -> WireVersion {
    WireVersion::inter_broker(if by_id {
        fetch_response::INTER_BROKER
    } else {
        fetch_response::INTER_BROKER_BY_NAME
    })
}

/// Return the version of ListOffsets.
const fn list_offsets_version(by_id: bool) -> WireVersion {
    WireVersion::inter_broker(if by_id {
        list_offsets::INTER_BROKER
    } else {
        list_offsets::INTER_BROKER_BY_NAME
    })
}

/// Timestamp in ListOffsets for the log start.
pub(crate) const EARLIEST: i64 = -2;
/// Timestamp in ListOffsets for the log end.
pub(crate) const LATEST: i64 = -1;

/// Put these partitions, sorted by topic, into the request.
pub(crate) fn name(
    request: &mut FetchRequest,
    named: &[(TopicIdPartition, FetchFrom)],
    names: &mut Names,
    partition_bytes_max: i32,
) {
    request.topics.clear();
    request.partitions.clear();
    for run in named.chunk_by(|one, other| one.0.topic_id == other.0.topic_id) {
        let partitions_start = request.partitions.len() as u32;
        let partitions = run.iter().map(|(tip, from)| FetchPartition {
            partition: tip.partition,
            current_leader_epoch: from.leader_epoch,
            fetch_offset: from.offset,
            last_fetched_epoch: from.last_epoch,
            log_start_offset: from.log_start,
            partition_max_bytes: partition_bytes_max,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        });
        request.partitions.extend(partitions);
        request.topics.push(FetchTopic {
            name: names.span(run[0].0.topic_id),
            topic_id: run[0].0.topic_id.uuid(),
            partitions_start,
            partitions_end: request.partitions.len() as u32,
        });
    }
}

/// Put these partitions, sorted by topic, into the request's forgotten list.
pub(crate) fn leave_out(
    request: &mut FetchRequest,
    forgotten: &[TopicIdPartition],
    names: &mut Names,
) {
    request.forgotten.clear();
    request.forgotten_partitions.clear();
    for run in forgotten.chunk_by(|one, other| one.topic_id == other.topic_id) {
        let partitions_start = request.forgotten_partitions.len() as u32;
        let partitions = run.iter().map(|tip| tip.partition);
        request.forgotten_partitions.extend(partitions);
        request.forgotten.push(ForgottenTopic {
            name: names.span(run[0].topic_id),
            topic_id: run[0].topic_id.uuid(),
            partitions_start,
            partitions_end: request.forgotten_partitions.len() as u32,
        });
    }
}

/// Return version and body of a ListOffsets request for these partitions, sorted by topic.
pub(crate) fn list_offsets(
    broker: i32,
    partitions: &[(TopicIdPartition, FetchFrom)],
    names: &Names,
    timestamp: i64,
) -> (i16, Vec<u8>) {
    let topics = partitions.chunk_by(|one, other| one.0.topic_id == other.0.topic_id);
    let request = ListOffsetsRequest {
        replica_id: broker,
        isolation_level: 0,
        topics: topics
            .map(|run| OfTopic {
                topic: names.topic(run[0].0.topic_id),
                partitions: run
                    .iter()
                    .map(|(tip, from)| ListOffsetsPartition {
                        partition: tip.partition,
                        current_leader_epoch: from.leader_epoch,
                        timestamp,
                        max_num_offsets: 1,
                    })
                    .collect(),
            })
            .collect(),
        timeout_ms: 0,
    };
    let version = list_offsets_version(names.by_id);
    let mut body = Vec::new();
    request.encode(version, &mut body);
    (version.number, body)
}

/// Listed offsets, or the error of each.
pub(crate) type OffsetLookups = IdMap<TopicIdPartition, Result<i64, ErrorCode>>;

/// Decode the response to [`list_offsets`].
pub(crate) fn decode_list_offsets(
    body: &[u8],
    names: &Names,
) -> Result<OffsetLookups, DecodeError> {
    let response = ListOffsetsResponse::decode(body, list_offsets_version(names.by_id))?;
    let told = |partition: &ListOffsetsPartitionResponse| match ErrorCode(partition.error_code) {
        ErrorCode::NONE => Ok(partition.offset),
        error => Err(error),
    };
    let mut all = OffsetLookups::default();
    for topic in &response.topics {
        let Some(topic_id) = names.id(topic.topic) else {
            continue;
        };
        let partitions = topic.partitions.iter();
        all.extend(partitions.map(|one| {
            let tip = TopicIdPartition {
                topic_id,
                partition: one.partition,
            };
            (tip, told(one))
        }));
    }
    Ok(all)
}
