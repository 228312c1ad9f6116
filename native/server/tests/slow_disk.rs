//! An append that blocks on a slow disk delays only its own log, because data threads never wait for it.

mod support;

use std::path::Path;

use pybroker_model::ValidBatches;
use pybroker_protocol::ApiKey;
use pybroker_storage::FlushMode;
use support::records::{Fetch, TestTopic, batch, produce_body, read_produced};
use support::staged::{append_body, appended, open_ingest};
use support::{Client, TestServer, now_ms, topic_id, wait_until};

fn topic(name: &'static str, number: u128) -> TestTopic<'static> {
    TestTopic {
        name,
        id: topic_id(number).uuid(),
    }
}

fn send(client: &mut Client, topic: TestTopic<'static>, acks: i16, value: &[u8]) -> i32 {
    let body = produce_body(9, acks, 60_000, topic, &[(0, Some(&batch(&[value])))]);
    client.send(ApiKey::Produce, 9, &body)
}

fn answer(client: &mut Client, correlation: i32) -> (i16, i64) {
    let produced = read_produced(&client.receive(ApiKey::Produce, 9, correlation), 9).remove(0);
    (produced.error, produced.offset)
}

/// Block the next append of a log: the first record of a leader epoch writes the epoch file first, and this function
/// makes that file a named pipe, which cannot be opened until it has a reader.
fn hold_up(server: &TestServer, partition: &Path) -> std::thread::JoinHandle<()> {
    let pipe = partition.join("leader-epoch-checkpoint.tmp");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.expect("mkfifo runs").success());
    server.create_topic(topic_id(1), "slow", 1, 6);
    let map = server.disk.replicas.snapshot();
    let slow = map.partition(topic_id(1), 0).cloned().expect("hosted");
    let held = std::sync::Arc::clone(&slow);
    let writer = std::thread::spawn(move || {
        let batches = ValidBatches::checked_owned(batch(&[b"held"])).expect("a batch");
        held.append(batches, 1, now_ms()).expect("appended");
    });
    wait_until("the writer", || slow.is_busy(std::time::Duration::ZERO));
    writer
}

#[test]
fn a_log_that_is_held_up_keeps_its_own_producers_only() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "slow", 1, 5);
    server.create_topic(topic_id(2), "fast", 1, 5);
    let partition = server.disk.path().join("slow-0");
    // More connections than data threads: each thread has blocked and free logs.
    let mut slow: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let mut fast: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    assert_eq!(
        fast[0]
            .produce(9, topic("fast", 2), 0, &batch(&[b"0"]))
            .error,
        0
    );
    let writer = hold_up(&server, &partition);

    let mut waiting = Vec::new();
    for client in &mut slow {
        let first = send(client, topic("slow", 1), -1, b"1");
        // Pipelined behind the blocked append: a Produce to another log, one with acks=0, and one to the same log.
        let second = send(client, topic("fast", 2), -1, b"2");
        send(client, topic("slow", 1), 0, b"3");
        let third = send(client, topic("slow", 1), -1, b"4");
        waiting.push([first, second, third]);
    }
    wait_until("the requests", || {
        server.metric("pybroker_slow_appends_total") == 4.0
    });
    // The log stays blocked until these requests are answered. A thread that waited for the log would hang.
    for _ in 0..100 {
        for client in &mut fast {
            let produced = client.produce(9, topic("fast", 2), 0, &batch(&[b"x"]));
            assert_eq!(produced.error, 0);
            let fetched = client.fetch(12, &Fetch::of(topic("fast", 2), 0, produced.offset));
            assert_eq!(fetched.one().offsets(), [produced.offset]);
        }
    }
    assert!(!writer.is_finished(), "it was held up meanwhile");

    let pipe = std::fs::File::options()
        .read(true)
        .write(true)
        .open(partition.join("leader-epoch-checkpoint.tmp"))
        .expect("opens the pipe");
    writer.join().expect("goes on");
    for (client, sent) in slow.iter_mut().zip(waiting) {
        let offsets = sent.map(|correlation| answer(client, correlation));
        assert!(offsets.iter().all(|(error, _)| *error == 0), "{offsets:?}");
        let [first, _, third] = offsets;
        assert!(first.1 < third.1, "in the order of the connection");
        assert!(third.1 - first.1 >= 2, "with the one between them");
    }
    let mut reader = server.connect();
    let end = server.disk.replicas.snapshot();
    let end = end
        .partition(topic_id(1), 0)
        .expect("hosted")
        .high_watermark();
    assert_eq!(end, 13, "each record once");
    assert_eq!(
        reader
            .fetch(12, &Fetch::of(topic("slow", 1), 0, 0))
            .one()
            .head
            .high_watermark,
        13
    );
    drop(pipe);
}

#[test]
fn any_number_of_staged_appends_may_wait_and_no_data_thread_stages() {
    /// Number of requests, more than any queue takes.
    const WRITERS: i64 = 1_100;
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "slow", 1, 5);
    server.create_topic(topic_id(2), "fast", 1, 5);
    let replicas = &server.disk.replicas;
    let name = open_ingest(replicas, topic_id(1));
    let mut fast: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let mut writers: Vec<Client> = (0..WRITERS).map(|_| server.connect()).collect();

    let writer = hold_up(&server, &server.disk.path().join("slow-0"));
    // Fencing waits for the blocked append, and later appends to the partition wait for the fencing.
    let slow = replicas.snapshot();
    let slow = slow.partition(topic_id(1), 0).cloned().expect("hosted");
    let fencing = std::thread::spawn(move || slow.set_fenced(false));
    let mut sent = Vec::new();
    for (client, attempt) in writers.iter_mut().zip(0..) {
        let append = client.send(ApiKey::IngestAppend, 0, &append_body(&name, attempt));
        // A second append of the same client, pipelined behind the first.
        let behind = client.send(ApiKey::IngestAppend, 0, &append_body(&name, attempt));
        sent.push([append, behind]);
    }
    // Some clients disconnect, and waiting requests take their places in the queue.
    for client in writers.drain(WRITERS as usize - 100..) {
        client.close();
    }
    for _ in 0..100 {
        for client in &mut fast {
            let produced = client.produce(9, topic("fast", 2), 0, &batch(&[b"x"]));
            assert_eq!(produced.error, 0);
        }
    }
    assert!(!writer.is_finished(), "it was held up meanwhile");

    let pipe = std::fs::File::options()
        .read(true)
        .write(true)
        .open(
            server
                .disk
                .path()
                .join("slow-0/leader-epoch-checkpoint.tmp"),
        )
        .expect("opens the pipe");
    writer.join().expect("goes on");
    fencing.join().expect("goes on");
    for (client, sent) in writers.iter_mut().zip(sent) {
        for correlation in sent {
            assert_eq!(appended(client, correlation), (0, 0, 1));
        }
    }
    drop(pipe);
}
