//! Tests of a sink that writes in a transaction which the driver begins and ends.

use std::sync::{Arc, Mutex};

use pybroker_client::test_broker::{Broker, NODES, Reply, Request, TOPIC, produced_in};
use pybroker_model::BatchHeader;
use pybroker_protocol::hot::produce_request::ProduceRequest;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::error::Result;
use crate::sink::{Sink, Transaction};

const ID: &str = "query-7";
/// Producer id and epoch from InitProducerId.
const PRODUCER: (i64, i16) = (41, 3);
/// The supported versions are flexible. `PRODUCE` is the last version in which the client must add partitions itself.
const FLEXIBLE: bool = true;
const PRODUCE: i16 = 11;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// The sink added a partition, and the broker answered with this error code.
    Added(i32, ErrorCode),
    /// The sink produced a batch to a partition, with this sequence.
    Produced(i32, i32),
}

/// Start a broker that records requests. `judge` gets the number of earlier AddPartitionsToTxn requests and returns the
/// response's error code.
fn start(
    events: &Arc<Mutex<Vec<Event>>>,
    judge: impl Fn(usize) -> ErrorCode + Send + Sync + 'static,
) -> Broker {
    let events = events.clone();
    Broker::start_led(
        |_| vec![NODES[0], NODES[0]],
        move |request| {
            let mut events = events.lock().expect("what came");
            if request.key == ApiKey::FindCoordinator as i16 {
                return coordinator(request);
            }
            if request.key == ApiKey::AddPartitionsToTxn as i16 {
                let partition = added(request);
                let is_added = |event: &&Event| matches!(event, Event::Added(..));
                let code = judge(events.iter().filter(is_added).count());
                events.push(Event::Added(partition, code));
                return adding(partition, code);
            }
            assert_eq!(request.key, ApiKey::Produce as i16, "nothing else is asked");
            let (partition, sequence) = batch_of_transaction(request);
            events.push(Event::Produced(partition, sequence));
            produced_in(PRODUCE, partition, ErrorCode::NONE, i64::from(sequence))
        },
    )
}

/// Return the partition and sequence of the batch in a Produce request, which must belong to the transaction.
fn batch_of_transaction(request: &Request) -> (i32, i32) {
    let mut produce = ProduceRequest::default();
    let decoded = produce.decode(&request.body, request.version);
    decoded.expect("a Produce");
    assert_eq!((request.version, produce.acks), (PRODUCE, -1));
    let id = produce.transactional_id.expect("a transactional id");
    assert_eq!(id.of(&request.body), ID.as_bytes());
    let (partition, batch) = request.produced();
    let header = BatchHeader::parse(batch).expect("a batch");
    assert!(header.is_transactional());
    assert_eq!((header.producer_id, header.producer_epoch), PRODUCER);
    (partition, header.base_sequence)
}

/// Return the partition that the transaction's producer adds.
fn added(request: &Request) -> i32 {
    let mut reader = Reader::new(&request.body);
    let mut read = || -> core::result::Result<i32, DecodeError> {
        assert_eq!(reader.string(FLEXIBLE)?, ID);
        assert_eq!((reader.i64()?, reader.i16()?), PRODUCER);
        assert_eq!(reader.array_len(FLEXIBLE, 1)?, 1);
        assert_eq!(reader.string(FLEXIBLE)?, TOPIC);
        assert_eq!(reader.array_len(FLEXIBLE, 4)?, 1);
        reader.i32()
    };
    read().expect("one partition of one topic")
}

fn coordinator(request: &Request) -> Reply {
    let mut reader = Reader::new(&request.body);
    assert_eq!(reader.string(FLEXIBLE).expect("an id"), ID);
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, FLEXIBLE);
    writer.i32(0);
    writer.i16(0);
    writer.nullable_string(None);
    writer.i32(NODES[1]);
    writer.string("127.0.0.1");
    writer.i32(0);
    writer.no_tags();
    Some(body)
}

fn adding(partition: i32, code: ErrorCode) -> Reply {
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body, FLEXIBLE);
    writer.i32(0);
    writer.array_len(1);
    writer.string(TOPIC);
    writer.array_len(1);
    writer.i32(partition);
    writer.i16(code.0);
    writer.no_tags();
    writer.no_tags();
    writer.no_tags();
    Some(body)
}

/// Write rows of (partition, value), each as its own batch, and wait for all responses.
fn write(broker: &Broker, rows: &[(i32, &str)]) -> Result<()> {
    let transaction = Transaction {
        id: ID.into(),
        producer_id: PRODUCER.0,
        producer_epoch: PRODUCER.1,
    };
    let plan = super::plan(broker, Some(transaction));
    let settings = super::settings(broker, &[("batch.size", "1"), ("acks", "1")]);
    let mut sink = Sink::open(&settings, plan, 1)?;
    sink.write(&super::rows_of(rows))?;
    sink.finish().map(drop)
}

fn of_partition(events: &[Event], wanted: i32) -> Vec<Event> {
    let of = |event: &&Event| match event {
        Event::Added(partition, _) | Event::Produced(partition, _) => *partition == wanted,
    };
    events.iter().filter(of).cloned().collect()
}

#[test]
fn a_partition_is_added_once_before_its_first_batch_and_again_while_the_coordinator_is_busy() {
    let events = Arc::default();
    let broker = start(&events, |before| match before {
        0 => ErrorCode::CONCURRENT_TRANSACTIONS,
        1 => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        _ => ErrorCode::NONE,
    });
    write(&broker, &[(0, "a"), (0, "b"), (1, "c"), (0, "d")]).expect("written");
    let events = events.lock().expect("what came");
    let of_0 = [
        Event::Added(0, ErrorCode::CONCURRENT_TRANSACTIONS),
        Event::Added(0, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        Event::Added(0, ErrorCode::NONE),
        Event::Produced(0, 0),
        Event::Produced(0, 1),
        Event::Produced(0, 2),
    ];
    assert_eq!(of_partition(&events, 0), of_0);
    let of_1 = [Event::Added(1, ErrorCode::NONE), Event::Produced(1, 0)];
    assert_eq!(of_partition(&events, 1), of_1);
}

#[test]
fn who_was_fenced_writes_nothing() {
    let events = Arc::default();
    let broker = start(&events, |_| ErrorCode::PRODUCER_FENCED);
    let error = write(&broker, &[(0, "a"), (1, "b")]).expect_err("fenced");
    assert_eq!(error.code(), ErrorCode::PRODUCER_FENCED);
    assert!(error.to_string().contains(ID), "{error}");
    let fenced = [Event::Added(0, ErrorCode::PRODUCER_FENCED)];
    assert_eq!(*events.lock().expect("what came"), fenced);
}
