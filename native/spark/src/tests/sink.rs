//! Batches that brokers refuse or lose. Each batch must be in its partition once and in order, or the sink must return
//! an error.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pybroker_model::BatchHeader;
use pybroker_protocol::{ApiKey, ErrorCode};

use super::read;
use crate::error::Result;
use crate::sink::Sink;
use pybroker_client::test_broker::{
    Broker, NO_LEADER, NODES, Reply, Request, produced, producer_id,
};

/// With this setting, each row is a batch of its own.
const ONE_ROW: (&str, &str) = ("batch.size", "1");

/// Content of the partitions, and the number of Produce requests.
#[derive(Default)]
struct Log {
    partitions: [Vec<String>; 2],
    requests: usize,
}

type SharedLog = Arc<Mutex<Log>>;

impl Log {
    /// Append a batch as a broker does for an idempotent producer.
    fn append(&mut self, partition: i32, batch: &[u8]) -> (ErrorCode, i64) {
        let header = BatchHeader::parse(batch).expect("a batch");
        let log = &mut self.partitions[partition as usize];
        let end = log.len() as i64;
        match i64::from(header.base_sequence) - end {
            0 => {
                let values = read(batch).into_iter().map(|(_, value, ..)| value);
                log.extend(values.map(|value| {
                    String::from_utf8(value.expect("a value")).expect("text of a test")
                }));
                (ErrorCode::NONE, end)
            }
            ..0 => (ErrorCode::DUPLICATE_SEQUENCE_NUMBER, -1),
            1.. => (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        }
    }
}

/// Start a broker that appends to the log. `refuse` gets the number of earlier Produce requests and may return another
/// response.
fn start(
    log: &SharedLog,
    leaders: impl Fn(usize) -> Vec<i32> + Send + Sync + 'static,
    refuse: impl Fn(usize, &Request) -> Option<Reply> + Send + Sync + 'static,
) -> Broker {
    let log = log.clone();
    Broker::start_led(leaders, move |request| {
        if request.key == ApiKey::InitProducerId as i16 {
            return producer_id();
        }
        let mut log = log.lock().expect("the log");
        log.requests += 1;
        if let Some(reply) = refuse(log.requests - 1, request) {
            return reply;
        }
        let (partition, batch) = request.produced();
        let (code, base_offset) = log.append(partition, batch);
        produced(partition, code, base_offset)
    })
}

fn open(broker: &Broker, settings: &[(&str, &str)]) -> Result<Sink> {
    let settings: Vec<_> = settings.iter().copied().chain([ONE_ROW]).collect();
    let plan = super::plan(broker, None);
    Sink::open(&super::settings(broker, &settings), plan, 1)
}

/// Write rows of (partition, value). Return the number of written records by partition.
fn write(sink: &mut Sink, rows: &[(i32, &str)]) -> Result<Vec<(i32, u64)>> {
    sink.write(&super::rows_of(rows))?;
    let written = sink.finish()?.into_iter();
    let written = written.map(|(.., partition, written)| (partition, written.records));
    Ok(written.collect())
}

fn assert_holds(log: &SharedLog, expected: [&[&str]; 2]) {
    assert_eq!(log.lock().expect("the log").partitions, expected);
}

#[test]
fn a_batch_does_not_overtake_one_that_the_leader_before_has_still_to_answer() {
    let log = SharedLog::default();
    // The leadership of partition 0 moves to the second node. The sink only notices when the broker refuses the first
    // row of partition 1.
    let leaders = |before| match before {
        0 => vec![NODES[0], NODES[1]],
        _ => vec![NODES[1], NODES[1]],
    };
    let refused = Mutex::new(BTreeSet::new());
    let broker = start(&log, leaders, move |_, request| {
        let (partition, _) = request.produced();
        let first = refused.lock().expect("the set").insert(partition);
        first.then(|| produced(partition, ErrorCode::NOT_LEADER_OR_FOLLOWER, -1))
    });
    let mut sink = open(&broker, &[("max.in.flight.requests.per.connection", "2")]).expect("opens");
    // The sink sends a row when the next row of its partition arrives. So "a" is in flight when "k" is refused, and "b"
    // is sent then.
    let one = ["a", "b"].map(|value| (0, value));
    let other = ["k", "l", "m", "n"].map(|value| (1, value));
    let rows = [&one[..], &other[..], &[(0, "c")]].concat();
    let written = write(&mut sink, &rows).expect("written");
    assert_eq!(written, [(0, 3), (1, 4)]);
    assert_holds(&log, [&["a", "b", "c"], &["k", "l", "m", "n"]]);
}

#[test]
fn a_connection_to_the_next_leader_that_is_lost_is_opened_again() {
    let log = SharedLog::default();
    let leaders = |before| vec![NODES[usize::from(before > 0)], NODES[0]];
    // The node disconnects before it answers, and so does the next node.
    let broker = start(&log, leaders, |before, _| (before < 2).then_some(None));
    let mut sink = open(&broker, &[("delivery.timeout.ms", "2000")]).expect("opens");
    let written = write(&mut sink, &[(0, "a"), (0, "b")]).expect("written");
    assert_eq!(written, [(0, 2)]);
    assert_holds(&log, [&["a", "b"], &[]]);
}

#[test]
fn a_partition_without_leader_keeps_nobody_from_writing_to_another() {
    let log = SharedLog::default();
    let broker = start(&log, |_| vec![NODES[0], NO_LEADER], |_, _| None);
    let mut sink = open(&broker, &[("delivery.timeout.ms", "300")]).expect("opens");
    let written = write(&mut sink, &[(0, "a"), (0, "b")]).expect("written");
    assert_eq!(written, [(0, 2)]);
    assert_holds(&log, [&["a", "b"], &[]]);
}

#[test]
fn batches_for_a_partition_without_leader_wait_for_it_in_order() {
    let log = SharedLog::default();
    // In each Metadata response one partition has no leader; this alternates every three responses.
    let leaders = |before| match before % 6 {
        0..3 => vec![NODES[0], NO_LEADER],
        _ => vec![NO_LEADER, NODES[1]],
    };
    // "b" is lost with its connection, and the sink retries it together with "k".
    let broker = start(&log, leaders, |before, _| (before == 1).then_some(None));
    let mut sink = open(&broker, &[("delivery.timeout.ms", "2000")]).expect("opens");
    let one = ["a", "b", "c"].map(|value| (0, value));
    let other = ["k", "l", "m"].map(|value| (1, value));
    let rows = [&one[..], &other, &[(0, "d"), (1, "n")]].concat();
    let written = write(&mut sink, &rows).expect("written");
    assert_eq!(written, [(0, 4), (1, 4)]);
    assert_holds(&log, [&["a", "b", "c", "d"], &["k", "l", "m", "n"]]);
}

#[test]
fn a_partition_that_gets_no_leader_ends_the_job_and_is_named() {
    let log = SharedLog::default();
    let broker = start(&log, |_| vec![NODES[0], NO_LEADER], |_, _| None);
    let mut sink = open(&broker, &[("delivery.timeout.ms", "300")]).expect("opens");
    let rows = [(0, "a"), (0, "b"), (1, "k"), (1, "l")];
    let problem = write(&mut sink, &rows).expect_err("nobody takes it");
    let expected = format!(
        "Produce to t ({}) partition 1: {}",
        broker.topic_id(),
        ErrorCode::LEADER_NOT_AVAILABLE
    );
    assert_eq!(problem.to_string(), expected);
    // The sink has read the responses of the batches in flight, and has sent no further batch.
    assert_holds(&log, [&["a"], &[]]);
}
