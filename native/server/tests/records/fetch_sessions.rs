//! Fetch sessions, and clients that read an earlier incarnation of a topic name.

use pybroker_protocol::hot::of_topic::{OfTopic, TopicRef};
use pybroker_protocol::hot::offset_for_leader_epoch::{
    EpochPartition, OffsetForLeaderEpochRequest,
};
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::support::records::{Fetch, FetchResult, batch};
use crate::support::{topic_id, wait_until};
use crate::{A, server_with_a};

fn offsets(fetched: &FetchResult) -> Vec<(i32, Vec<i64>)> {
    fetched
        .partitions
        .iter()
        .map(|partition| (partition.head.partition, partition.offsets()))
        .collect()
}

#[test]
fn sessions_tell_only_news() {
    for version in [7, 11, 12, 13, 18] {
        let server = server_with_a(3);
        let mut client = server.connect();
        client.produce(9, A(), 0, &batch(&[b"x"]));
        let mut create = Fetch {
            session: (0, 0),
            ..Fetch::of(A(), 0, 0)
        };
        create.partitions.push((A(), 1, 0, -1));
        let created = client.fetch(version, &create);
        assert_ne!(created.session, 0);
        assert_eq!(offsets(&created), [(0, vec![0]), (1, vec![])]);
        let id = created.session;
        // The client advances in partition 0. Unchanged partitions are not in the response.
        let next = |epoch, partitions, forgotten| Fetch {
            session: (id, epoch),
            partitions,
            forgotten,
            ..Fetch::default()
        };
        let quiet = client.fetch(version, &next(1, vec![(A(), 0, 1, -1)], vec![]));
        assert_eq!((quiet.session, offsets(&quiet)), (id, vec![]));
        client.produce(9, A(), 1, &batch(&[b"y"]));
        let news = client.fetch(version, &next(2, vec![], vec![]));
        assert_eq!(offsets(&news), [(1, vec![0])]);
        // The client adds partition 2 to the session and removes partition 1.
        let joined = client.fetch(version, &next(3, vec![(A(), 2, 0, -1)], vec![(A(), 1)]));
        assert_eq!(offsets(&joined), [(2, vec![])]);
        let error =
            |fetched: FetchResult| (fetched.error, fetched.session, fetched.partitions.len());
        assert_eq!(
            error(client.fetch(version, &next(3, vec![], vec![]))),
            (71, 0, 0)
        );
        let unknown = Fetch {
            session: (id ^ 1, 4),
            ..Fetch::default()
        };
        assert_eq!(error(client.fetch(version, &unknown)), (70, 0, 0));
        let other_kind = if version >= 13 { 12 } else { 13 };
        assert_eq!(
            error(client.fetch(other_kind, &next(4, vec![], vec![]))),
            (106, 0, 0)
        );
        // These errors do not end the session; epoch −1 does.
        assert_eq!(
            error(client.fetch(version, &next(4, vec![], vec![]))),
            (0, id, 0)
        );
        let last = Fetch {
            session: (id, -1),
            ..Fetch::default()
        };
        assert_eq!(error(client.fetch(version, &last)), (0, 0, 0));
        assert_eq!(
            error(client.fetch(version, &next(5, vec![], vec![]))),
            (70, 0, 0)
        );
    }
}

#[test]
fn a_session_survives_its_connection_when_it_waited() {
    let server = server_with_a(1);
    let mut first = server.connect();
    let created = first.fetch(
        12,
        &Fetch {
            session: (0, 0),
            ..Fetch::of(A(), 0, 0)
        },
    );
    first.send(
        ApiKey::Fetch,
        12,
        &Fetch {
            session: (created.session, 1),
            max_wait_ms: 60_000,
            ..Fetch::default()
        }
        .body(12),
    );
    first.close();
    wait_until("the connection to end", || server.server.connections() == 0);
    // Connections alternate between two threads: one of the next two is on the session's thread.
    let codes: Vec<i16> = (0..2)
        .map(|_| {
            server
                .connect()
                .fetch(
                    12,
                    &Fetch {
                        session: (created.session, 2),
                        ..Fetch::default()
                    },
                )
                .error
        })
        .collect();
    assert!(codes.contains(&0) && codes.contains(&70), "{codes:?}");
}

#[test]
fn a_new_incarnation_is_not_read_by_those_who_read_the_old_one() {
    let server = server_with_a(1);
    let mut client = server.connect();
    client.produce(9, A(), 0, &batch(&[b"old"]));
    let old = Fetch {
        session: (0, 0),
        ..Fetch::of(A(), 0, 0)
    };
    let by_name = client.fetch(8, &old).session;
    let by_id = client.fetch(13, &old).session;
    let sessionless = Fetch::of(A(), 0, 0);
    assert_eq!(client.fetch(4, &sessionless).one().offsets(), [0]);
    server.delete_topic(topic_id(1), 1);
    server.create_topic(topic_id(2), "a", 1, 6);
    client.produce(9, A(), 0, &batch(&[b"new"]));
    // A fetch by id gets an unknown id, and one by name with an epoch is fenced. One by name without an epoch is out of
    // range once, then reads from the new start.
    assert_eq!(
        client.produce(13, A(), 0, &batch(&[b"x"])).error,
        ErrorCode::UNKNOWN_TOPIC_ID.0
    );
    let fetched = client.fetch(
        13,
        &Fetch {
            session: (by_id, 1),
            ..Fetch::default()
        },
    );
    assert_eq!(fetched.one().head.error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
    let mut fenced = Fetch::of(A(), 0, 0);
    fenced.partitions[0].3 = 5;
    assert_eq!(
        client.fetch(12, &fenced).one().head.error_code,
        ErrorCode::FENCED_LEADER_EPOCH.0
    );
    let next = |epoch| Fetch {
        session: (by_name, epoch),
        ..Fetch::default()
    };
    assert_eq!(
        client.fetch(8, &next(1)).one().head.error_code,
        ErrorCode::OFFSET_OUT_OF_RANGE.0
    );
    assert_eq!(client.fetch(8, &next(2)).one().head.error_code, 0);
    let out_of_range = ErrorCode::OFFSET_OUT_OF_RANGE.0;
    assert_eq!(
        client.fetch(4, &sessionless).one().head.error_code,
        out_of_range
    );
    assert_eq!(client.fetch(4, &sessionless).one().offsets(), [0]);
    // The client sends the new epoch with an offset of the old log. Reading there would skip the records before that
    // offset.
    client.produce(9, A(), 0, &batch(&[b"newer"]));
    let mut behind = Fetch::of(A(), 0, 1);
    behind.partitions[0].3 = 6;
    let mut careless = server.connect();
    let mut careful = server.connect();
    for each in [&mut careless, &mut careful] {
        assert_eq!(each.fetch(12, &behind).one().offsets(), [1]);
    }
    server.delete_topic(topic_id(2), 1);
    server.create_topic(topic_id(3), "a", 1, 7);
    client.produce(9, A(), 0, &batch(&[b"1", b"2", b"3"]));
    for each in [&mut careless, &mut careful] {
        let fenced = each.fetch(12, &behind).one().head.error_code;
        assert_eq!(fenced, ErrorCode::FENCED_LEADER_EPOCH.0);
    }
    behind.partitions[0].3 = 7;
    // After OffsetForLeaderEpoch, the server assumes that the client has chosen its position itself.
    let mut question = Vec::new();
    OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![OfTopic {
            topic: TopicRef::Name("a"),
            partitions: vec![EpochPartition {
                partition: 0,
                current_leader_epoch: 7,
                leader_epoch: 6,
            }],
        }],
    }
    .encode(3, &mut question);
    careful.call(ApiKey::OffsetForLeaderEpoch, 3, &question);
    assert_eq!(careful.fetch(12, &behind).one().head.error_code, 0);
    let told = careless.fetch(12, &behind).one().head.error_code;
    assert_eq!(told, out_of_range);
    let start = Fetch::of(A(), 0, 0);
    assert_eq!(careless.fetch(12, &start).one().head.error_code, 0);
    assert_eq!(careless.fetch(12, &behind).one().head.error_code, 0);
    // Another connection has never read the old incarnation.
    assert_eq!(server.connect().fetch(4, &sessionless).one().offsets(), [0]);
}
