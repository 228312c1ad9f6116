//! Produce: all versions, acks, order, errors.

use pybroker_model::{Codec, Uuid};
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_storage::FlushMode;

use crate::support::records::{
    Fetch, TestTopic, batch, batch_with, produce_body, read_fetched, read_produced,
};
use crate::support::{self, TestServer, topic_id, wait_until};
use crate::{A, server_with_a, topic};

const FETCH_VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;
const PRODUCE_VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;

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

// checklist: R2, R3
#[test]
fn commit_mode_answers_after_the_flush_and_in_order() {
    let server = TestServer::with_flush(FlushMode::Commit);
    server.create_topic(topic_id(1), "a", 4, 5);
    let mut client = server.connect();
    // With many requests in flight, all are appended at once, and the responses wait for the flushes, in order.
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

// checklist: R3
#[test]
fn produces_of_a_connection_do_not_wait_for_each_other_but_others_do() {
    let server = TestServer::with_flush(FlushMode::Commit);
    server.create_topic(topic_id(1), "a", 1, 5);
    let mut client = server.connect();
    // Behind a request in the control plane, a Produce is appended at once and only its response waits, but a Fetch
    // does not run.
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
    // acks=0 has no response, so the next response belongs to the next request.
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
        |version: i16, named: TestTopic<'_>, index: i32, records: &[u8], expected: ErrorCode| {
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
        TestTopic {
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

    // An error of one partition does not affect the other.
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

// checklist: R8
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

// checklist: R20
#[test]
fn transactional_records_need_a_transactional_id() {
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
fn each_record_that_a_topic_rejects_is_named() {
    let server = TestServer::with_flush(FlushMode::Os);
    let compacted = [("cleanup.policy", "compact")];
    server.create_topic_with(topic_id(1), "a", 1, 5, &compacted);
    let mut client = server.connect();
    let batch = |has_key: fn(i32) -> bool, codec| {
        let mut builder = pybroker_model::BatchBuilder::new(codec);
        for number in 0..100 {
            let key = has_key(number).then_some(&b"k"[..]);
            builder.push(support::now_ms(), key, Some(b"v"));
        }
        builder.build().expect("a batch")
    };
    for codec in [Codec::None, Codec::Lz4] {
        let keyless = batch(|number| number % 10 != 3, codec);
        for version in [7, 8, 13] {
            let refused = client.produce(version, A(), 0, &keyless);
            assert_eq!(refused.error, ErrorCode::INVALID_RECORD.0);
            let told: &[i32] = if version < 8 {
                &[]
            } else {
                &[3, 13, 23, 33, 43, 53, 63, 73, 83, 93]
            };
            assert_eq!(refused.bad_records, told);
            let message = refused.message.unwrap_or_default();
            assert_eq!(message.contains("10 records are rejected"), version >= 8);
        }
    }
    let taken = client.produce(13, A(), 0, &batch(|_| true, Codec::None));
    assert_eq!((taken.error, taken.offset), (0, 0), "nothing was written");
}
