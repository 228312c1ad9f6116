//! Round trips of every message and version with random contents, and mutated bytes, which must only cause errors.
//! Other tests compare the layouts with the schema interpreter and with Kafka's classes.

use pybroker_model::Uuid;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use super::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use super::fetch_response::*;
use super::list_offsets::*;
use super::list_topics::{ListTopicsRequest, ListTopicsResponse, ListedTopic};
use super::metadata::*;
use super::of_topic::{OfTopic, TopicRef};
use super::offset_commit::{OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic};
use super::offset_for_leader_epoch::*;
use super::produce_request::{ProducePartition, ProduceRequest, ProduceTopic};
use super::produce_response::*;
use super::*;
use crate::primitives::Span;

const ROUNDS: u64 = 60;
const NAMES: [&str; 5] = [
    "",
    "a",
    "topic",
    "ünïcode",
    "a-much-longer-name.with_every-legal.character",
];

/// A function that returns the bytes of a random message in a version, and the bytes after decoding and encoding it
/// again.
type RoundTrip = fn(&mut StdRng, i16) -> (Vec<u8>, Vec<u8>);
/// A function that returns whether bytes are a message of a version.
type Accepts = fn(&[u8], i16) -> bool;

const MESSAGES: &[(&str, core::ops::RangeInclusive<i16>, RoundTrip, Accepts)] = &[
    (
        "ApiVersionsRequest",
        api_versions::VERSIONS,
        api_versions_request,
        |b, v| ApiVersionsRequest::decode(b, v).is_ok(),
    ),
    (
        "ApiVersionsResponse",
        api_versions::VERSIONS,
        api_versions_response,
        |b, v| ApiVersionsResponse::decode(b, v).is_ok(),
    ),
    (
        "ProduceRequest",
        produce_request::VERSIONS,
        produce_request,
        |b, v| ProduceRequest::default().decode(b, v).is_ok(),
    ),
    (
        "ProduceResponse",
        produce_request::VERSIONS,
        produce_response,
        |b, v| ProduceResponse::decode(b, v).is_ok(),
    ),
    (
        "FetchRequest",
        fetch_request::VERSIONS,
        fetch_request,
        |b, v| FetchRequest::default().decode(b, v).is_ok(),
    ),
    (
        "FetchResponse",
        fetch_request::VERSIONS,
        fetch_response,
        |b, v| FetchResponse::decode(b, v).is_ok(),
    ),
    (
        "ListOffsetsRequest",
        list_offsets::VERSIONS,
        list_offsets_request,
        |b, v| ListOffsetsRequest::decode(b, v).is_ok(),
    ),
    (
        "ListOffsetsResponse",
        list_offsets::VERSIONS,
        list_offsets_response,
        |b, v| ListOffsetsResponse::decode(b, v).is_ok(),
    ),
    (
        "OffsetCommitRequest",
        offset_commit::VERSIONS,
        offset_commit_request,
        |b, v| OffsetCommitRequest::decode(b, v).is_ok(),
    ),
    (
        "OffsetForLeaderEpochRequest",
        offset_for_leader_epoch::VERSIONS,
        epoch_request,
        |b, v| OffsetForLeaderEpochRequest::decode(b, v).is_ok(),
    ),
    (
        "OffsetForLeaderEpochResponse",
        offset_for_leader_epoch::VERSIONS,
        epoch_response,
        |b, v| OffsetForLeaderEpochResponse::decode(b, v).is_ok(),
    ),
    (
        "MetadataRequest",
        metadata::VERSIONS,
        metadata_request,
        |b, v| MetadataRequest::decode(b, v).is_ok(),
    ),
    (
        "MetadataResponse",
        metadata::VERSIONS,
        metadata_response,
        |b, v| MetadataResponse::decode(b, v).is_ok(),
    ),
    (
        "ListTopicsRequest",
        list_topics::VERSIONS,
        list_topics_request,
        |b, v| ListTopicsRequest::decode(b, v).is_ok(),
    ),
    (
        "ListTopicsResponse",
        list_topics::VERSIONS,
        list_topics_response,
        |b, v| ListTopicsResponse::decode(b, v).is_ok(),
    ),
];

#[test]
fn every_message_in_every_version_there_and_back() {
    for (name, versions, round_trip, accepts) in MESSAGES {
        for version in versions.clone() {
            for seed in 0..ROUNDS {
                let (first, second) = round_trip(&mut StdRng::seed_from_u64(seed), version);
                assert_eq!(first, second, "{name} v{version} seed {seed}");
                assert!(
                    !accepts(&first[..first.len().saturating_sub(1)], version) || first.is_empty()
                );
                let longer = [&first[..], &[0]].concat();
                assert!(
                    !accepts(&longer, version),
                    "{name} v{version} seed {seed}: a byte left over"
                );
            }
            assert!(
                !accepts(&[0; 64], *versions.end() + 1),
                "{name}: unknown version"
            );
            assert!(!accepts(&[0; 64], -1), "{name}: negative version");
        }
    }
}

#[test]
fn mutated_bytes_are_refused_or_read_but_never_more() {
    let mut rng = StdRng::seed_from_u64(7);
    for (_, versions, round_trip, accepts) in MESSAGES {
        for version in versions.clone() {
            for seed in 0..ROUNDS {
                let (mut bytes, _) = round_trip(&mut StdRng::seed_from_u64(seed), version);
                for _ in 0..20 {
                    mutate(&mut rng, &mut bytes);
                    accepts(&bytes, version);
                }
            }
        }
    }
}

#[test]
fn five_hostile_bytes_reserve_nothing() {
    for hostile in [
        &[0xff, 0xff, 0xff, 0xff, 0x0f][..],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff; 64],
        &[0xfe; 64],
    ] {
        for (name, versions, _, accepts) in MESSAGES {
            for version in versions.clone() {
                // Null topics and a boolean: in legacy Metadata, a prefix of this body is also a valid request.
                if *name == "MetadataRequest"
                    && accepts(&[0xff, 0xff, 0xff, 0xff, 1], version)
                    && hostile.len() == 5
                {
                    continue;
                }
                assert!(!accepts(hostile, version), "{name} v{version} {hostile:x?}");
            }
        }
    }
}

fn mutate(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(rng.random());
    }
    let at = rng.random_range(0..bytes.len());
    match rng.random_range(0..4) {
        0 => bytes[at] = rng.random(),
        1 => bytes.truncate(at),
        2 => bytes[at] = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4)],
        _ => bytes.insert(at, rng.random()),
    }
}

fn name(rng: &mut StdRng) -> &'static str {
    NAMES[rng.random_range(0..NAMES.len())]
}

fn maybe_name(rng: &mut StdRng) -> Option<&'static str> {
    rng.random_bool(0.7).then(|| name(rng))
}

fn uuid(rng: &mut StdRng) -> Uuid {
    Uuid::from_bytes(rng.random())
}

fn many<T>(rng: &mut StdRng, mut one: impl FnMut(&mut StdRng) -> T) -> Vec<T> {
    (0..rng.random_range(0..5)).map(|_| one(rng)).collect()
}

fn api_versions_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let request = ApiVersionsRequest {
        client_software_name: name(rng),
        client_software_version: name(rng),
        cluster_id: maybe_name(rng),
        node_id: rng.random(),
    };
    request.encode(version, &mut first);
    ApiVersionsRequest::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn list_topics_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let request = ListTopicsRequest {
        list_internal: rng.random(),
        prefix: name(rng),
        after: maybe_name(rng),
        limit: rng.random(),
    };
    request.encode(version, &mut first);
    ListTopicsRequest::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn list_topics_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let response = ListTopicsResponse {
        error_code: rng.random(),
        topics: many(rng, |rng| ListedTopic {
            name: name(rng),
            topic_id: Uuid::from_u128(rng.random()),
            internal: rng.random(),
        }),
        next: maybe_name(rng),
        throttle_time_ms: rng.random(),
    };
    response.encode(version, &mut first);
    ListTopicsResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn api_versions_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let response = ApiVersionsResponse {
        features: Vec::new(),
        features_epoch: 0,
        error_code: rng.random(),
        api_keys: many(rng, |rng| ApiVersion {
            api_key: rng.random(),
            min_version: rng.random(),
            max_version: rng.random(),
        }),
        throttle_time_ms: rng.random(),
    };
    response.encode(version, &mut first);
    ApiVersionsResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

/// Append bytes to the buffer to which spans refer.
fn put(buffer: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = buffer.len() as u32;
    buffer.extend_from_slice(bytes);
    Span {
        start,
        end: buffer.len() as u32,
    }
}

fn produce_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let mut buffer = Vec::new();
    let mut request = ProduceRequest {
        transactional_id: maybe_name(rng).map(|name| put(&mut buffer, name.as_bytes())),
        acks: rng.random(),
        timeout_ms: rng.random(),
        ..ProduceRequest::default()
    };
    for _ in 0..rng.random_range(0..4) {
        let partitions_start = request.partitions.len() as u32;
        for _ in 0..rng.random_range(0..4) {
            let records = rng.random_bool(0.8).then(|| {
                let size = rng.random_range(0..300);
                put(&mut buffer, &vec![rng.random(); size])
            });
            request.partitions.push(ProducePartition {
                index: rng.random(),
                records,
            });
        }
        request.topics.push(ProduceTopic {
            name: put(&mut buffer, name(rng).as_bytes()),
            topic_id: uuid(rng),
            partitions_start,
            partitions_end: request.partitions.len() as u32,
        });
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    request.encode(&buffer, version, &mut first);
    let mut decoded = ProduceRequest::default();
    decoded.decode(&first, version).unwrap();
    decoded.encode(&first, version, &mut second);
    (first, second)
}

fn leader(rng: &mut StdRng) -> Option<LeaderIdAndEpoch> {
    rng.random_bool(0.5).then(|| LeaderIdAndEpoch {
        leader_id: rng.random(),
        leader_epoch: rng.random(),
    })
}

fn endpoint(rng: &mut StdRng) -> NodeEndpoint<'static> {
    NodeEndpoint {
        node_id: rng.random(),
        host: name(rng),
        port: rng.random(),
        rack: maybe_name(rng),
    }
}

fn produce_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let partition = |rng: &mut StdRng| PartitionProduceResponse {
        index: rng.random(),
        error_code: rng.random(),
        base_offset: rng.random(),
        log_append_time_ms: rng.random(),
        log_start_offset: rng.random(),
        record_errors: many(rng, |rng| RecordError {
            batch_index: rng.random(),
            message: maybe_name(rng),
        }),
        error_message: maybe_name(rng),
        current_leader: leader(rng),
    };
    let response = ProduceResponse {
        topics: many(rng, |rng| TopicProduceResponse {
            name: name(rng),
            topic_id: uuid(rng),
            partitions: many(rng, partition),
        }),
        throttle_time_ms: rng.random(),
        node_endpoints: many(rng, endpoint),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    response.encode(version, &mut first);
    ProduceResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn fetch_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let mut buffer = Vec::new();
    let mut request = FetchRequest {
        cluster_id: maybe_name(rng).map(|name| put(&mut buffer, name.as_bytes())),
        replica_id: rng.random_range(-1..3),
        replica_epoch: rng.random_range(-1..3),
        max_wait_ms: rng.random(),
        min_bytes: rng.random(),
        max_bytes: rng.random(),
        isolation_level: rng.random(),
        session_id: rng.random(),
        session_epoch: rng.random(),
        rack_id: put(&mut buffer, name(rng).as_bytes()),
        ..FetchRequest::default()
    };
    for _ in 0..rng.random_range(0..4) {
        let partitions_start = request.partitions.len() as u32;
        let partitions = many(rng, |rng| FetchPartition {
            partition: rng.random(),
            current_leader_epoch: rng.random(),
            fetch_offset: rng.random(),
            last_fetched_epoch: rng.random(),
            log_start_offset: rng.random(),
            partition_max_bytes: rng.random(),
            replica_directory_id: if rng.random() { uuid(rng) } else { Uuid::ZERO },
            high_watermark: if rng.random() { rng.random() } else { i64::MAX },
        });
        request.partitions.extend(partitions);
        let name = put(&mut buffer, name(rng).as_bytes());
        let partitions_end = request.partitions.len() as u32;
        request.topics.push(FetchTopic {
            name,
            topic_id: uuid(rng),
            partitions_start,
            partitions_end,
        });
        let partitions_start = request.forgotten_partitions.len() as u32;
        request
            .forgotten_partitions
            .extend(many(rng, |rng| rng.random::<i32>()));
        let partitions_end = request.forgotten_partitions.len() as u32;
        request.forgotten.push(ForgottenTopic {
            name,
            topic_id: uuid(rng),
            partitions_start,
            partitions_end,
        });
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    request.encode(&buffer, version, &mut first);
    let mut decoded = FetchRequest::default();
    decoded.decode(&first, version).unwrap();
    decoded.encode(&first, version, &mut second);
    (first, second)
}

fn fetch_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    const RECORDS: &[u8] = &[3; 400];
    let epoch_end = |rng: &mut StdRng| {
        rng.random_bool(0.3).then(|| EpochEndOffset {
            epoch: rng.random(),
            end_offset: rng.random(),
        })
    };
    let partition = |rng: &mut StdRng| FetchPartitionResponse {
        head: FetchPartitionHead {
            partition: rng.random(),
            error_code: rng.random(),
            high_watermark: rng.random(),
            last_stable_offset: rng.random(),
            log_start_offset: rng.random(),
            diverging_epoch: epoch_end(rng),
            current_leader: leader(rng),
            snapshot_id: epoch_end(rng),
            aborted_transactions: rng.random_bool(0.5).then(|| {
                many(rng, |rng| AbortedTransaction {
                    producer_id: rng.random(),
                    first_offset: rng.random(),
                })
            }),
            preferred_read_replica: rng.random(),
            attach: None,
        },
        records: rng
            .random_bool(0.9)
            .then(|| &RECORDS[..rng.random_range(0..400)]),
    };
    let response = FetchResponse {
        throttle_time_ms: rng.random(),
        error_code: rng.random(),
        session_id: rng.random(),
        topics: many(rng, |rng| FetchableTopicResponse {
            name: name(rng),
            topic_id: uuid(rng),
            partitions: many(rng, partition),
        }),
        node_endpoints: many(rng, endpoint),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    response.encode(version, &mut first);
    FetchResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn topic(rng: &mut StdRng) -> TopicRef<'static> {
    if rng.random() {
        TopicRef::Both(name(rng), Uuid::from_u128(rng.random()))
    } else {
        TopicRef::Name(name(rng))
    }
}

fn list_offsets_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let request = ListOffsetsRequest {
        replica_id: rng.random(),
        isolation_level: rng.random(),
        topics: many(rng, |rng| OfTopic {
            topic: topic(rng),
            partitions: many(rng, |rng| ListOffsetsPartition {
                partition: rng.random(),
                current_leader_epoch: rng.random(),
                timestamp: rng.random(),
                max_num_offsets: rng.random(),
            }),
        }),
        timeout_ms: rng.random(),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    request.encode(version, &mut first);
    ListOffsetsRequest::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn list_offsets_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let response = ListOffsetsResponse {
        throttle_time_ms: rng.random(),
        topics: many(rng, |rng| OfTopic {
            topic: topic(rng),
            partitions: many(rng, |rng| ListOffsetsPartitionResponse {
                partition: rng.random(),
                error_code: rng.random(),
                old_style_offsets: many(rng, |rng| rng.random()),
                timestamp: rng.random(),
                offset: rng.random(),
                leader_epoch: rng.random(),
            }),
        }),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    response.encode(version, &mut first);
    ListOffsetsResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn offset_commit_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let request = OffsetCommitRequest {
        group_id: name(rng),
        generation_id_or_member_epoch: rng.random(),
        member_id: name(rng),
        group_instance_id: maybe_name(rng),
        topics: many(rng, |rng| OffsetCommitTopic {
            name: name(rng),
            topic_id: uuid(rng),
            partitions: many(rng, |rng| OffsetCommitPartition {
                partition_index: rng.random(),
                committed_offset: rng.random(),
                committed_leader_epoch: rng.random(),
                committed_metadata: maybe_name(rng),
            }),
        }),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    request.encode(version, &mut first);
    OffsetCommitRequest::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn epoch_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let request = OffsetForLeaderEpochRequest {
        replica_id: rng.random(),
        topics: many(rng, |rng| OfTopic {
            topic: topic(rng),
            partitions: many(rng, |rng| EpochPartition {
                partition: rng.random(),
                current_leader_epoch: rng.random(),
                leader_epoch: rng.random(),
            }),
        }),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    request.encode(version, &mut first);
    OffsetForLeaderEpochRequest::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn epoch_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let response = OffsetForLeaderEpochResponse {
        throttle_time_ms: rng.random(),
        topics: many(rng, |rng| OfTopic {
            topic: topic(rng),
            partitions: many(rng, |rng| EpochPartitionResponse {
                error_code: rng.random(),
                partition: rng.random(),
                leader_epoch: rng.random(),
                end_offset: rng.random(),
            }),
        }),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    response.encode(version, &mut first);
    OffsetForLeaderEpochResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn metadata_request(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let request = MetadataRequest {
        topics: rng.random_bool(0.8).then(|| {
            many(rng, |rng| MetadataRequestTopic {
                topic_id: uuid(rng),
                name: maybe_name(rng),
            })
        }),
        allow_auto_topic_creation: rng.random(),
        include_cluster_authorized_operations: rng.random(),
        include_topic_authorized_operations: rng.random(),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    request.encode(version, &mut first);
    MetadataRequest::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}

fn metadata_response(rng: &mut StdRng, version: i16) -> (Vec<u8>, Vec<u8>) {
    let response = MetadataResponse {
        head: MetadataHead {
            throttle_time_ms: rng.random(),
            brokers: many(rng, endpoint),
            cluster_id: maybe_name(rng),
            controller_id: rng.random(),
        },
        topics: many(rng, |rng| MetadataTopic {
            error_code: rng.random(),
            name: maybe_name(rng),
            topic_id: uuid(rng),
            internal: rng.random(),
            partitions: many(rng, |rng| MetadataPartition {
                error_code: rng.random(),
                partition: rng.random(),
                leader: rng.random(),
                leader_epoch: rng.random(),
                replicas: many(rng, |rng| rng.random()).into(),
                isr: many(rng, |rng| rng.random()).into(),
                offline: many(rng, |rng| rng.random()).into(),
            }),
            authorized_operations: rng.random(),
        }),
        cluster_authorized_operations: rng.random(),
        error_code: rng.random(),
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    response.encode(version, &mut first);
    MetadataResponse::decode(&first, version)
        .unwrap()
        .encode(version, &mut second);
    (first, second)
}
