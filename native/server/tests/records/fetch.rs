//! Fetch: contents, limits, long polling, errors.

use std::time::{Duration, Instant};

use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_storage::FlushMode;

use crate::support::records::{Fetch, batch, read_fetched};
use crate::support::{self, TestServer, topic_id};
use crate::{A, server_with_a, topic};

#[test]
fn bytes_come_by_sendfile_and_by_copy() {
    let server = server_with_a(2);
    let mut client = server.connect();
    // Batches of 10 kB make slices below and above the sendfile threshold, also in one response.
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
    // The response also has a total limit. It names the second partition even if none of that partition's records fit.
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
fn one_reply_mixes_copies_and_file_slices() {
    // Slices of 20, 100 and 200 kB: the first megabyte of the smaller two is copied, the rest goes by sendfile.
    const SIZES: [usize; 3] = [20_000, 100_000, 200_000];
    let partitions = 30;
    let server = server_with_a(partitions);
    let mut client = server.connect();
    let mut fetch = Fetch::of(A(), 0, 0);
    for partition in 0..partitions {
        let value = vec![partition as u8; SIZES[partition as usize % SIZES.len()]];
        assert_eq!(
            client.produce(9, A(), partition, &batch(&[&value])).error,
            0
        );
        if partition > 0 {
            fetch.partitions.push((A(), partition, 0, -1));
        }
    }
    for version in [4, 12, 18] {
        let fetched = client.fetch(version, &fetch);
        for (number, partition) in fetched.partitions.iter().enumerate() {
            let size = SIZES[number % SIZES.len()];
            let part =
                &partition.records[partition.records.len() - size..partition.records.len() - 1];
            assert_eq!(partition.offsets(), [0], "v{version} partition {number}");
            assert!(
                part.iter().all(|byte| *byte == number as u8),
                "v{version} partition {number}"
            );
        }
    }
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
    // If the file system supports the page cache check, the pool has read the slices.
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
    // The server has either sent an empty response or stopped reading.
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
