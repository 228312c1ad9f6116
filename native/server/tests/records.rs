//! Produce, Fetch and offsets over real sockets and real logs.

mod support;

use std::time::{Duration, Instant};

use pybroker_model::{Codec, Uuid};
use pybroker_protocol::hot::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use pybroker_protocol::hot::offset_for_leader_epoch::{
    EpochPartition, EpochTopic, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_storage::FlushMode;
use support::records::{
    Fetch, Fetched, Named, batch, batch_with, produce_body, read_fetched, read_produced,
};
use support::{Client, TestServer, topic_id, wait_until};

const FETCH_VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;
const PRODUCE_VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;

fn topic<'n>(name: &'n str, number: u128) -> Named<'n> {
    Named {
        name,
        id: topic_id(number).uuid(),
    }
}

const A: fn() -> Named<'static> = || topic("a", 1);

fn server_with_a(partitions: i32) -> TestServer {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", partitions, 5);
    server
}

#[test]
fn every_version_produces_and_fetches() {
    let server = server_with_a(1);
    let mut client = server.connect();
    let mut next = 0;
    for version in PRODUCE_VERSIONS {
        let produced = client.produce(version, A(), 0, &batch(&[b"x", b"y"]));
        assert_eq!((produced.error, produced.offset), (0, next), "v{version}");
        next += 2;
    }
    for version in FETCH_VERSIONS {
        let fetched = client.fetch(version, &Fetch::of(A(), 0, 0));
        let partition = fetched.one();
        let head = &partition.head;
        assert_eq!(
            (head.error_code, head.high_watermark),
            (0, next),
            "v{version}"
        );
        assert_eq!(
            partition.offsets(),
            (0..next).step_by(2).collect::<Vec<_>>(),
            "v{version}"
        );
        assert_eq!(head.aborted_transactions, None);
        let expected = if version >= 13 {
            ("", A().id)
        } else {
            ("a", Uuid::ZERO)
        };
        assert_eq!((&*partition.topic, partition.id), expected);
    }
    assert_eq!(
        server.metric("pybroker_requests_total{api=\"Produce\"}"),
        11.0
    );
}

#[test]
fn commit_mode_answers_after_the_flush_and_in_order() {
    let server = TestServer::with_flush(FlushMode::Commit);
    server.create_topic(topic_id(1), "a", 4, 5);
    let mut client = server.connect();
    // Many in flight: all are appended at once, the answers wait for their flushes, in order.
    let sent: Vec<i32> = (0..100)
        .map(|number| {
            let records = batch(&[b"durable"]);
            let body = produce_body(9, -1, 30_000, A(), &[(number % 4, Some(&records))]);
            client.send(ApiKey::Produce, 9, &body)
        })
        .collect();
    for (number, correlation) in sent.into_iter().enumerate() {
        let produced = read_produced(&client.receive(ApiKey::Produce, 9, correlation), 9).remove(0);
        assert_eq!((produced.error, produced.offset), (0, number as i64 / 4));
    }
    let fetched = client.fetch(12, &Fetch::of(A(), 3, 0));
    assert_eq!(fetched.one().head.high_watermark, 25);
}

#[test]
fn produces_of_a_connection_do_not_wait_for_each_other_but_others_do() {
    let server = TestServer::with_flush(FlushMode::Commit);
    server.create_topic(topic_id(1), "a", 1, 5);
    let mut client = server.connect();
    // Behind a request that the control plane holds, a Produce takes effect and its answer waits; a Fetch waits.
    let held = client.send(ApiKey::DescribeCluster, 0, &[]);
    let request = server.control.next();
    let body = produce_body(9, -1, 30_000, A(), &[(0, Some(&batch(&[b"x"])))]);
    let produce = client.send(ApiKey::Produce, 9, &body);
    let fetch = client.send(ApiKey::Fetch, 12, &Fetch::of(A(), 0, 0).body(12));
    let mut other = server.connect();
    wait_until("the append", || {
        let partition = server.disk.replicas.snapshot();
        partition
            .partition(topic_id(1), 0)
            .is_some_and(|partition| partition.high_watermark() == 1)
    });
    assert_eq!(other.fetch(12, &Fetch::of(A(), 0, 0)).one().offsets(), [0]);
    request.reply.send(bytes::Bytes::new());
    client.receive(ApiKey::DescribeCluster, 0, held);
    assert_eq!(
        read_produced(&client.receive(ApiKey::Produce, 9, produce), 9)[0].error,
        0
    );
    assert_eq!(
        read_fetched(&client.receive(ApiKey::Fetch, 12, fetch), 12)
            .one()
            .offsets(),
        [0]
    );
}

#[test]
fn acks_0_has_no_reply_and_its_failure_closes() {
    let server = server_with_a(1);
    let mut client = server.connect();
    client.send(
        ApiKey::Produce,
        9,
        &produce_body(9, 0, 1000, A(), &[(0, Some(&batch(&[b"x"])))]),
    );
    // The next reply is the next request's.
    assert_eq!(client.produce(9, A(), 0, &batch(&[b"y"])).offset, 1);
    client.send(
        ApiKey::Produce,
        9,
        &produce_body(9, 0, 1000, A(), &[(7, Some(&batch(&[b"x"])))]),
    );
    client.expect_closed();
    server.wait_for_line("a produce with acks=0 failed with error 3");
}

#[test]
fn refusals_of_produce() {
    let server = server_with_a(2);
    server.create_topic(topic_id(9), "__consumer_offsets", 1, 0);
    let mut client = server.connect();
    let good = batch(&[b"x"]);
    let mut wrong_crc = good.clone();
    *wrong_crc.last_mut().expect("bytes") ^= 1;
    let two = [&good[..], &good[..]].concat();
    let mut old_format = good.clone();
    old_format[16] = 1;
    let zstd = batch_with(Codec::Zstd, &[b"x"]);
    let big = batch(&[&vec![7; 1_100_000]]);
    let mut check =
        |version: i16, named: Named<'_>, index: i32, records: &[u8], expected: ErrorCode| {
            let produced = client.produce(version, named, index, records);
            assert_eq!(
                produced.error, expected.0,
                "v{version} {named:?}-{index} {:?}",
                produced.message
            );
            assert_eq!(
                produced.offset,
                if expected == ErrorCode::NONE {
                    produced.offset
                } else {
                    -1
                }
            );
            produced
        };
    check(
        12,
        topic("nope", 1),
        0,
        &good,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    );
    check(13, topic("a", 77), 0, &good, ErrorCode::UNKNOWN_TOPIC_ID);
    check(
        13,
        Named {
            name: "a",
            id: Uuid::ZERO,
        },
        0,
        &good,
        ErrorCode::UNKNOWN_TOPIC_ID,
    );
    check(9, A(), 2, &good, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    check(13, A(), -1, &good, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    check(
        9,
        topic("__consumer_offsets", 9),
        0,
        &good,
        ErrorCode::INVALID_TOPIC_EXCEPTION,
    );
    check(9, A(), 0, &wrong_crc, ErrorCode::CORRUPT_MESSAGE);
    check(9, A(), 0, &good[..40], ErrorCode::CORRUPT_MESSAGE);
    check(9, A(), 0, &two, ErrorCode::INVALID_RECORD);
    check(9, A(), 0, &[], ErrorCode::INVALID_RECORD);
    check(9, A(), 0, &old_format, ErrorCode::INVALID_RECORD);
    check(6, A(), 0, &zstd, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
    check(7, A(), 0, &zstd, ErrorCode::NONE);
    let refused = check(9, A(), 0, &big, ErrorCode::MESSAGE_TOO_LARGE);
    assert!(
        refused
            .message
            .is_some_and(|message| message.contains("max.message.bytes"))
    );

    // One refused partition does not hold up another.
    let body = produce_body(
        9,
        -1,
        30_000,
        A(),
        &[(0, Some(&wrong_crc)), (1, Some(&good)), (0, None)],
    );
    let produced = read_produced(&client.call(ApiKey::Produce, 9, &body), 9);
    let codes: Vec<i16> = produced.iter().map(|partition| partition.error).collect();
    assert_eq!(codes, [2, 0, 87]);
    let body = produce_body(9, 2, 30_000, A(), &[(0, Some(&good))]);
    assert_eq!(
        read_produced(&client.call(ApiKey::Produce, 9, &body), 9)[0].error,
        21
    );
    assert!(server.metric("pybroker_response_errors_total{error=\"CORRUPT_MESSAGE\"}") >= 3.0);
}

#[test]
fn versions_0_to_2_of_produce_are_told_so() {
    let server = server_with_a(1);
    let mut client = server.connect();
    for version in 0..=2 {
        let mut body = Vec::new();
        body.extend_from_slice(&[0, 1, 0, 0, 0, 9]);
        body.extend_from_slice(&[
            0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 7, 7,
        ]);
        let answer = client.call(ApiKey::Produce, version, &body);
        let partition_at = 4 + 3 + 4;
        assert_eq!(
            &answer[..partition_at],
            [0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1]
        );
        assert_eq!(&answer[partition_at..partition_at + 6], [0, 0, 0, 0, 0, 35]);
    }
}

#[test]
fn a_transactional_producer_is_refused_for_good() {
    let server = server_with_a(1);
    let mut client = server.connect();
    let mut builder = pybroker_model::BatchBuilder::new(Codec::None)
        .producer(1, 0, 0)
        .transactional();
    builder.push(support::now_ms(), None, Some(b"x"));
    let produced = client.produce(9, A(), 0, &builder.build().expect("a batch"));
    assert_eq!(
        produced.error,
        ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.0
    );
}

#[test]
fn an_idempotent_producer_is_answered_with_the_first_offset() {
    let server = server_with_a(1);
    let mut client = server.connect();
    let sequence = |base: i32| {
        let mut builder = pybroker_model::BatchBuilder::new(Codec::None).producer(7, 0, base);
        builder.push(support::now_ms(), None, Some(b"x"));
        builder.build().expect("a batch")
    };
    assert_eq!(client.produce(9, A(), 0, &sequence(0)).offset, 0);
    assert_eq!(client.produce(9, A(), 0, &sequence(1)).offset, 1);
    assert_eq!(
        client.produce(9, A(), 0, &sequence(0)).offset,
        0,
        "a duplicate"
    );
    let gap = client.produce(9, A(), 0, &sequence(5));
    assert_eq!(gap.error, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.0);
}

#[test]
fn bytes_come_by_sendfile_and_by_copy() {
    let server = server_with_a(2);
    let mut client = server.connect();
    // Batches of 10 kB: answers below and above the threshold, also mixed in one response.
    let value: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
    for _ in 0..100 {
        assert_eq!(client.produce(9, A(), 0, &batch(&[&value])).error, 0);
    }
    client.produce(9, A(), 1, &batch(&[b"small"]));
    for (max, batches) in [
        (1, 1),
        (12_000, 1),
        (25_000, 2),
        (200_000, 19),
        (i32::MAX, 100),
    ] {
        for version in [4, 11, 12, 18] {
            let fetch = Fetch {
                partition_max_bytes: max,
                ..Fetch::of(A(), 0, 0)
            };
            let fetched = client.fetch(version, &fetch);
            let records = &fetched.one().records;
            assert!(
                records.ends_with(&value[5000..9000])
                    || records.windows(4000).any(|part| part == &value[5000..9000])
            );
            assert_eq!(
                fetched.one().offsets(),
                (0..batches).collect::<Vec<_>>(),
                "v{version} max {max}"
            );
        }
    }
    for first in [0, 1] {
        let mut fetch = Fetch::of(A(), first, 0);
        fetch.partitions.push((A(), 1 - first, 0, -1));
        let fetched = client.fetch(12, &fetch);
        let sizes: Vec<usize> = fetched
            .partitions
            .iter()
            .map(|partition| partition.offsets().len())
            .collect();
        assert_eq!(sizes, if first == 0 { [100, 1] } else { [1, 100] });
    }
    // The whole response has a limit as well, and the second partition is told of even if nothing fits.
    let mut fetch = Fetch {
        max_bytes: 15_000,
        ..Fetch::of(A(), 0, 0)
    };
    fetch.partitions.push((A(), 1, 0, -1));
    let fetched = client.fetch(12, &fetch);
    assert_eq!(fetched.partitions[0].offsets(), [0]);
    assert_eq!(fetched.partitions[1].head.high_watermark, 1);
}

#[test]
fn records_that_left_the_page_cache_come_all_the_same() {
    let server = server_with_a(2);
    let mut client = server.connect();
    let value: Vec<u8> = (0..100_000u32).map(|number| (number / 7) as u8).collect();
    for _ in 0..20 {
        client.produce(9, A(), 0, &batch(&[&value]));
        client.produce(9, A(), 1, &batch(&[b"small"]));
    }
    let mut both = Fetch::of(A(), 0, 0);
    both.partitions.push((A(), 1, 0, -1));
    let warm = client.fetch(12, &both);
    server.disk.evict();
    let before = server.metric("pybroker_cold_reads_total");
    let cold = client.fetch(12, &both);
    for (warm, cold) in warm.partitions.iter().zip(&cold.partitions) {
        assert!(
            warm.records == cold.records,
            "partition {}",
            warm.head.partition
        );
    }
    // Where the file system can tell, the pool has read them.
    eprintln!(
        "cold reads: {}",
        server.metric("pybroker_cold_reads_total") - before
    );
}

#[test]
fn pipelined_large_fetches_keep_their_order() {
    let server = server_with_a(1);
    let mut client = server.connect();
    let value = vec![1; 500_000];
    for _ in 0..8 {
        client.produce(9, A(), 0, &batch(&[&value]));
    }
    let sent: Vec<i32> = (0..40)
        .map(|number| client.send(ApiKey::Fetch, 12, &Fetch::of(A(), 0, number % 8).body(12)))
        .collect();
    for (number, correlation) in sent.into_iter().enumerate() {
        let fetched = read_fetched(&client.receive(ApiKey::Fetch, 12, correlation), 12);
        assert_eq!(
            fetched.one().offsets(),
            (number as i64 % 8..8).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_fetch_waits_for_bytes_and_wakes() {
    for flush in [FlushMode::Os, FlushMode::Commit] {
        let server = TestServer::with_flush(flush);
        server.create_topic(topic_id(1), "a", 3, 5);
        let mut consumer = server.connect();
        let mut producer = server.connect();
        let mut fetch = Fetch {
            max_wait_ms: 60_000,
            ..Fetch::of(A(), 0, 0)
        };
        fetch.partitions.push((A(), 1, 0, -1));
        fetch.partitions.push((A(), 2, 0, -1));
        for round in 0..20 {
            let sent = consumer.send(ApiKey::Fetch, 12, &fetch.body(12));
            producer.produce(9, A(), round % 3, &batch(&[b"x"]));
            let fetched = read_fetched(&consumer.receive(ApiKey::Fetch, 12, sent), 12);
            let got: Vec<(i32, usize)> = fetched
                .partitions
                .iter()
                .map(|p| (p.head.partition, p.offsets().len()))
                .collect();
            assert_eq!(got[round as usize % 3].1, 1, "round {round}: {got:?}");
            fetch.partitions[round as usize % 3].2 += 1;
        }
    }
}

#[test]
fn a_fetch_waits_no_longer_than_it_asked_and_for_min_bytes() {
    let server = server_with_a(1);
    let mut consumer = server.connect();
    let start = Instant::now();
    let fetched = consumer.fetch(
        12,
        &Fetch {
            max_wait_ms: 150,
            ..Fetch::of(A(), 0, 0)
        },
    );
    assert!(fetched.one().records.is_empty());
    assert!(start.elapsed() >= Duration::from_millis(150));
    let mut producer = server.connect();
    let wants = Fetch {
        max_wait_ms: 60_000,
        min_bytes: 250,
        ..Fetch::of(A(), 0, 0)
    };
    let sent = consumer.send(ApiKey::Fetch, 12, &wants.body(12));
    let mut bytes = 0;
    while bytes < 250 {
        let records = batch(&[b"0123456789"]);
        bytes += records.len();
        producer.produce(9, A(), 0, &records);
    }
    let fetched = read_fetched(&consumer.receive(ApiKey::Fetch, 12, sent), 12);
    assert_eq!(fetched.one().records.len(), bytes);
}

#[test]
fn a_waiting_fetch_is_told_of_a_deletion_and_a_stop() {
    let server = server_with_a(1);
    let mut consumer = server.connect();
    let wait = Fetch {
        max_wait_ms: 60_000,
        ..Fetch::of(A(), 0, 0)
    };
    let sent = consumer.send(ApiKey::Fetch, 13, &wait.body(13));
    let hosted = |server: &TestServer| {
        let map = server.disk.replicas.snapshot();
        map.partition(topic_id(1), 0).is_some()
    };
    assert!(hosted(&server));
    server.delete_topic(topic_id(1), 1);
    let fetched = read_fetched(&consumer.receive(ApiKey::Fetch, 13, sent), 13);
    assert_eq!(fetched.one().head.error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);

    server.create_topic(topic_id(2), "b", 1, 0);
    let wait = Fetch {
        max_wait_ms: 60_000,
        ..Fetch::of(topic("b", 2), 0, 0)
    };
    let sent = consumer.send(ApiKey::Fetch, 13, &wait.body(13));
    server.server.shutdown(Instant::now() + support::PATIENCE);
    // Either answered with nothing, or not read any more.
    if let Some(frame) = consumer.receive_frame() {
        assert_eq!(
            i32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]),
            sent
        );
    }
}

#[test]
fn refusals_of_fetch() {
    let server = server_with_a(1);
    let mut client = server.connect();
    client.produce(9, A(), 0, &batch(&[b"x"]));
    let mut check = |version: i16, fetch: Fetch<'_>, expected: ErrorCode| {
        let fetched = client.fetch(version, &fetch);
        assert_eq!(
            fetched.one().head.error_code,
            expected.0,
            "v{version} {fetch:?}"
        );
    };
    let epoch = |epoch| {
        let mut fetch = Fetch::of(A(), 0, 0);
        fetch.partitions[0].3 = epoch;
        fetch
    };
    check(
        12,
        Fetch::of(topic("nope", 1), 0, 0),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    );
    check(
        13,
        Fetch::of(topic("a", 99), 0, 0),
        ErrorCode::UNKNOWN_TOPIC_ID,
    );
    check(
        12,
        Fetch::of(A(), 4, 0),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    );
    check(12, Fetch::of(A(), 0, 2), ErrorCode::OFFSET_OUT_OF_RANGE);
    check(12, Fetch::of(A(), 0, -1), ErrorCode::OFFSET_OUT_OF_RANGE);
    check(12, epoch(4), ErrorCode::FENCED_LEADER_EPOCH);
    check(12, epoch(6), ErrorCode::UNKNOWN_LEADER_EPOCH);
    check(12, epoch(5), ErrorCode::NONE);
    check(12, Fetch::of(A(), 0, 1), ErrorCode::NONE);
}

fn offsets(fetched: &Fetched) -> Vec<(i32, Vec<i64>)> {
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
        // The client moves on in partition 0 and hears nothing of what it knows.
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
        // Partition 1 still has what was not acknowledged by a new offset; partition 2 joins, 1 is forgotten.
        let joined = client.fetch(version, &next(3, vec![(A(), 2, 0, -1)], vec![(A(), 1)]));
        assert_eq!(offsets(&joined), [(2, vec![])]);
        let error = |fetched: Fetched| (fetched.error, fetched.session, fetched.partitions.len());
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
        // The session goes on after these, and ends with epoch −1.
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
    // Connections alternate between two threads: one of the next two lands on the session's.
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
    // By id: gone. By name with an epoch: fenced. By name without: once out of range, then the new start.
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
    // Another connection never read the old one.
    assert_eq!(server.connect().fetch(4, &sessionless).one().offsets(), [0]);
}

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
        topics: vec![ListOffsetsTopic {
            name: "a",
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
            let topics = vec![EpochTopic {
                name: "a",
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
