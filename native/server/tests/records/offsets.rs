//! ListOffsets and OffsetForLeaderEpoch.

use pybroker_model::Codec;
use pybroker_protocol::hot::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse,
};
use pybroker_protocol::hot::of_topic::{OfTopic, TopicRef};
use pybroker_protocol::hot::offset_for_leader_epoch::{
    EpochPartition, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_storage::FlushMode;

use crate::support::records::{Fetch, batch};
use crate::support::{self, Client, TestServer, topic_id};
use crate::{A, server_with_a};

fn list(client: &mut Client, version: i16, timestamp: i64) -> (i16, i64, i64, Vec<i64>) {
    let partition = ListOffsetsPartition {
        partition: 0,
        current_leader_epoch: -1,
        timestamp,
        max_num_offsets: 5,
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 0,
        topics: vec![OfTopic {
            topic: TopicRef::Name("a"),
            partitions: vec![partition],
        }],
        timeout_ms: 1000,
    };
    let mut body = Vec::new();
    request.encode(version, &mut body);
    let answer = client.call(ApiKey::ListOffsets, version, &body);
    let response = ListOffsetsResponse::decode(&answer, version).expect("a ListOffsets response");
    let partition = response.topics[0].partitions[0].clone();
    (
        partition.error_code,
        partition.offset,
        partition.timestamp,
        partition.old_style_offsets,
    )
}

#[test]
fn offsets_by_time_and_by_meaning() {
    let server = server_with_a(1);
    let mut client = server.connect();
    let base = support::now_ms();
    for after in [10, 30, 20] {
        let mut builder = pybroker_model::BatchBuilder::new(Codec::None);
        builder.push(base + after, None, Some(b"x"));
        client.produce(9, A(), 0, &builder.build().expect("a batch"));
    }
    for version in 1..=11 {
        let mut find = |timestamp| {
            let (error, offset, time, _) = list(&mut client, version, timestamp);
            (error, offset, time)
        };
        assert_eq!(find(-1), (0, 3, -1), "v{version}");
        assert_eq!(find(-2), (0, 0, -1), "v{version}");
        assert_eq!(find(base + 11), (0, 1, base + 30), "v{version}");
        assert_eq!(find(base + 31), (0, -1, -1), "v{version}");
        let since = |first: i16, found: (i16, i64, i64)| {
            if version >= first {
                found
            } else {
                (35, -1, -1)
            }
        };
        assert_eq!(find(-3), since(7, (0, 1, base + 30)), "v{version}");
        assert_eq!(find(-4), since(8, (0, 0, -1)), "v{version}");
        assert_eq!(find(-5), since(9, (0, -1, -1)), "v{version}");
        assert_eq!(find(-6), since(11, (0, -1, -1)), "v{version}");
        assert_eq!(find(-7), (35, -1, -1), "v{version}");
    }
    assert_eq!(list(&mut client, 0, -1), (0, -1, -1, vec![3, 0]));
    assert_eq!(list(&mut client, 0, -2), (0, -1, -1, vec![0]));
}

#[test]
fn ends_of_epochs() {
    let server = server_with_a(1);
    let mut client = server.connect();
    client.produce(9, A(), 0, &batch(&[b"x", b"y"]));
    for version in 0..=4 {
        let mut end = |leader_epoch, current_leader_epoch| {
            let partition = EpochPartition {
                partition: 0,
                current_leader_epoch,
                leader_epoch,
            };
            let topics = vec![OfTopic {
                topic: TopicRef::Name("a"),
                partitions: vec![partition],
            }];
            let mut body = Vec::new();
            OffsetForLeaderEpochRequest {
                replica_id: -1,
                topics,
            }
            .encode(version, &mut body);
            let answer = client.call(ApiKey::OffsetForLeaderEpoch, version, &body);
            let response =
                OffsetForLeaderEpochResponse::decode(&answer, version).expect("a response");
            let partition = response.topics[0].partitions[0];
            (partition.error_code, partition.end_offset)
        };
        assert_eq!(end(5, -1), (0, 2), "v{version}");
        assert_eq!(end(9, -1), (0, -1), "v{version}");
        if version >= 2 {
            assert_eq!(end(5, 4), (ErrorCode::FENCED_LEADER_EPOCH.0, -1));
            assert_eq!(end(5, 6), (ErrorCode::UNKNOWN_LEADER_EPOCH.0, -1));
        }
    }
}

#[test]
fn what_the_leader_has_acknowledged_is_found_before_its_flush_is_over() {
    let server = TestServer::with_flush(FlushMode::Commit);
    server.create_topic(topic_id(1), "a", 1, 5);
    let mut client = server.connect();
    let before = support::now_ms();
    for number in 0..100 {
        let produced = client.produce_with(9, 1, A(), 0, &batch(&[b"x"]));
        assert_eq!((produced.error, produced.offset), (0, number));
        let next = number + 1;
        let ask = [-1, -3, before][number as usize % 3];
        // A fetch at the log end is no error, even if the end is not committed.
        let fetched = client.fetch(12, &Fetch::of(A(), 0, next));
        assert_eq!(fetched.one().head.error_code, 0);
        assert!(fetched.one().records.is_empty());
        let (error, offset, ..) = list(&mut client, 7, ask);
        assert_eq!(error, 0);
        match ask {
            -1 => assert_eq!(offset, next),
            _ => assert!((0..next).contains(&offset), "{ask} finds {offset}"),
        }
    }
}
