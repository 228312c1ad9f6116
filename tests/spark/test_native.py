"""The native part of the data source without Spark: Arrow batches are written to a broker and read back, also by
another client."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.native import (
    ArrowSink,
    ArrowSource,
    IngestAttempt,
    NativeError,
    SinkTarget,
    SourceRange,
    Uuid,
    WrittenPartition,
    crc32c,
    partition_of_key,
)
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark import ingest_steps
from pybroker.spark.cluster_requests import SparkCluster
from tests.clients.api import COMPRESSIONS
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

PARTITIONS = 3
LATELY_US = int(time.time()) * 1_000_000 - 3_599_877_000
"""An hour and some milliseconds ago: retention may remove records that are older than a week at any moment."""
ALL = [
    "key",
    "value",
    "topic",
    "topic_id",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "cluster_id",
]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Found = tuple[int | None, bytes | None, bytes | None, Any, int]
Write = Callable[..., list[WrittenPartition]]


@pytest.fixture
def target(broker: BrokerProcess, topic: str) -> SinkTarget:
    """A topic as a sink needs it."""
    Confluent(broker.bootstrap).create_topic(topic, PARTITIONS)
    found = SparkCluster({"bootstrap.servers": broker.bootstrap}).topics_named([topic])[topic]
    return SinkTarget(Uuid.parse(found.id), topic, PARTITIONS, 1_000_000)


@pytest.fixture
def write(broker: BrokerProcess, target: SinkTarget) -> Write:
    """Return a function that writes rows and finishes."""

    def run(*batches: pa.RecordBatch, **settings: str) -> list[WrittenPartition]:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        sink = ArrowSink({"bootstrap.servers": broker.bootstrap, **given}, [target], seed=7)
        for batch in batches:
            sink.write(batch)
        return sink.finish()

    return run


def batch(count: int = 1000, **columns: pa.Array) -> pa.RecordBatch:
    made = {
        "key": pa.array([None if number % 10 == 0 else f"k{number % 53}" for number in range(count)], pa.string()),
        "value": pa.array([None if number % 7 == 0 else f"v{number}".encode() for number in range(count)], pa.binary()),
        **columns,
    }
    return pa.RecordBatch.from_pydict(made)


def consumed(broker: BrokerProcess, topic: str) -> list[Found]:
    """Return (partition, key, value, headers, timestamp) of all records, read by librdkafka."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "check.crcs": True})
    try:
        total = 0
        for number in range(PARTITIONS):
            total += consumer.get_watermark_offsets(TopicPartition(topic, number), 60)[1]
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found: list[Found] = []
        while len(found) < total:
            for message in consumer.consume(1000, 60):
                assert message.error() is None, message.error()
                found.append(
                    (
                        message.partition(),
                        message.key(),
                        message.value(),
                        message.headers() or [],
                        message.timestamp()[1],
                    )
                )
        return found
    finally:
        consumer.close()


def read(broker: BrokerProcess, target: SinkTarget, partition: int, start: int, end: int) -> pa.Table:
    offsets = SourceRange(target.topic_id, target.topic, partition, start, end)
    source = ArrowSource({"bootstrap.servers": broker.bootstrap}, offsets, ALL, "c")
    batches = []
    while (rows := source.next()) is not None:
        batches.append(pa.record_batch(rows))
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_what_is_written_is_what_another_client_reads(
    broker: BrokerProcess, target: SinkTarget, write: Write, codec: str
) -> None:
    """Keys, values, nulls, headers and timestamps, in every compression, are read back unchanged."""
    count = 1000
    headers = [None, [], [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]]
    rows = batch(
        count,
        headers=pa.array([headers[number % 3] for number in range(count)], HEADERS),
        timestamp=pa.array([LATELY_US + number * 1000 for number in range(count)], pa.timestamp("us", "UTC")),
    )
    written = write(rows, compression_type=codec, batch_size="9000")
    assert sum(each.records for each in written) == count
    found = consumed(broker, target.topic)
    sent = [(row["key"], row["value"], row["timestamp"], row["headers"] or []) for row in rows.to_pylist()]
    expected = sorted(
        (value or b"", key.encode() if key else b"", round(when.timestamp() * 1000), len(inside))
        for key, value, when, inside in sent
    )
    assert sorted((value or b"", key or b"", at, len(inside)) for _, key, value, inside, at in found) == expected
    assert {len(inside): inside for _, _, _, inside, _ in found}[2] == [("a", b"1"), ("b", None)]
    assert any(value is None for _, _, value, _, _ in found)
    tables = [read(broker, target, each.partition, each.first_offset, each.last_offset + 1) for each in written]
    ours = [row for table in tables for row in table.to_pylist()]
    again = sorted(
        (row["value"] or b"", row["key"] or b"", round(row["timestamp"].timestamp() * 1000), len(row["headers"] or []))
        for row in ours
    )
    assert again == expected
    origins = {(row["topic"], row["topic_id"], row["cluster_id"]) for row in ours}
    assert origins == {(target.topic, str(target.topic_id), "c")}


def test_a_key_goes_where_the_java_client_sends_it(broker: BrokerProcess, target: SinkTarget, write: Write) -> None:
    """librdkafka's `murmur2_random` is Java's default partitioner."""
    keys = [f"key-{number}" for number in range(500)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(target.topic, key=key, value=b"theirs")
    assert producer.flush(60) == 0
    write(pa.RecordBatch.from_pydict({"key": keys, "value": [b"ours"] * len(keys)}))
    by_key: dict[bytes | None, set[int]] = {}
    for found in consumed(broker, target.topic):
        by_key.setdefault(found[1], set()).add(found[0] or 0)
    assert len(by_key) == len(keys)
    assert all(places == {partition_of_key(key or b"", PARTITIONS)} for key, places in by_key.items())


def test_rows_without_key_spread_in_whole_batches(broker: BrokerProcess, target: SinkTarget, write: Write) -> None:
    """Each partition gets whole batches, as with the Java producer's sticky partitioner (KIP-480)."""
    rows = pa.RecordBatch.from_pydict({"value": [b"x" * 100] * 6000})
    written = write(rows, batch_size="10000")
    assert len(written) == PARTITIONS
    assert all(each.records >= 500 for each in written), written


def test_the_topic_column_keeps_to_the_largest_batch_of_each_topic(broker: BrokerProcess, topic: str) -> None:
    """`max.message.bytes` is looked up for topics that the rows name, as the driver does for the option topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    small = NewTopic(f"{topic}-small", 1, 1, config={"max.message.bytes": "20000"})
    for created in admin.create_topics([small, NewTopic(topic, 1, 1)]).values():
        created.result(60)
    rows = 2000
    sink = ArrowSink({"bootstrap.servers": broker.bootstrap}, [], topic_column=True)
    names = [topic if number % 2 else small.topic for number in range(rows)]
    sink.write(pa.RecordBatch.from_pydict({"value": [b"x" * 100] * rows, "topic": names}))
    written = {each.topic: each for each in sink.finish()}
    assert {name: each.records for name, each in written.items()} == {topic: rows // 2, small.topic: rows // 2}


def test_the_partition_column_decides_and_is_checked(target: SinkTarget, write: Write) -> None:
    """If the column is null, the key determines the partition."""
    rows = pa.RecordBatch.from_pydict(
        {"key": ["a", "a"], "value": [b"1", b"2"], "partition": pa.array([2, None], pa.int32())}
    )
    assert {each.partition for each in write(rows)} == {2, partition_of_key(b"a", PARTITIONS)}
    beyond = pa.RecordBatch.from_pydict({"value": [b"1"], "partition": pa.array([PARTITIONS], pa.int32())})
    with pytest.raises(NativeError, match=f"column partition is {PARTITIONS}, but .* has {PARTITIONS} partitions"):
        write(beyond)


def test_fields_of_a_header_go_by_their_names(broker: BrokerProcess, target: SinkTarget, write: Write) -> None:
    """A struct that names its value first, as Spark's named_struct can, means the same header."""
    swapped = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
    for kind in (swapped, HEADERS):
        entries = pa.array([[{"key": "trace", "value": b"7"}, {"key": "no-value", "value": None}]], kind)
        write(pa.RecordBatch.from_pydict({"value": [b"v"], "headers": entries}))
    assert [found[3] for found in consumed(broker, target.topic)] == [[("trace", b"7"), ("no-value", None)]] * 2


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"key": ["a"]}, "no column named value"),
        ({"value": [1]}, "column value: string or binary is needed"),
        ({"value": ["a"], "partition": [1.5]}, "column partition: int is needed"),
        ({"value": ["a"], "timestamp": [-1]}, "column timestamp: -1 ms is before 1970"),
        ({"value": ["a"], "timestamp": [-315619200000]}, "column timestamp: -315619200000 ms is before 1970"),
        ({"value": ["a"], "headers": ["x"]}, "column headers: array<struct"),
        ({"value": ["a"], "headers": [[{"name": "a", "value": b"1"}]]}, "column headers: array<struct"),
        ({"value": ["a"], "headers": [[{"key": "a", "value": b"1", "more": 1}]]}, "column headers: array<struct"),
        ({"value": ["a"], "headers": pa.array([[None]], HEADERS)}, "column headers: an entry of the array is null"),
        ({"value": ["a"], "headers": pa.array([[{"value": b"1"}]], HEADERS)}, "a header has no key"),
    ],
)
def test_columns_of_the_wrong_type_are_named(write: Write, columns: dict[str, list[object]], told: str) -> None:
    """The native side does not trust the plan."""
    with pytest.raises(NativeError, match=told):
        write(pa.RecordBatch.from_pydict(columns))


def test_what_is_no_arrow_batch_is_refused(write: Write) -> None:
    """Python objects of all kinds are refused."""
    with pytest.raises(AttributeError):
        write(b"rows")
    with pytest.raises(TypeError, match="a batch of rows is needed"):
        write(pa.array([1]))


@pytest.mark.checklist(2, 92)
def test_a_topic_of_the_same_name_gets_and_gives_nothing(
    broker: BrokerProcess, target: SinkTarget, write: Write
) -> None:
    """Sink and source use the topic id: after a re-creation both end with UNKNOWN_TOPIC_ID."""
    write(batch(10))
    sink = ArrowSink({"bootstrap.servers": broker.bootstrap}, [target])
    sink.write(batch(10))
    client = Confluent(broker.bootstrap)
    client.delete_topic(target.topic)
    client.create_topic(target.topic, PARTITIONS)
    with pytest.raises(NativeError) as refused:
        sink.finish()
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(NativeError) as refused:
        read(broker, target, 0, 0, 5)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert consumed(broker, target.topic) == []


def test_a_broker_that_is_restarted_costs_nothing_but_time(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    """kill -9 between batches: the idempotent producer repeats unacknowledged batches, which are written once."""
    broker = start_broker()
    Confluent(broker.bootstrap).create_topic(topic, PARTITIONS)
    found = SparkCluster({"bootstrap.servers": broker.bootstrap}).topics_named([topic])[topic]
    target = SinkTarget(Uuid.parse(found.id), topic, PARTITIONS, 1_000_000)
    sink = ArrowSink({"bootstrap.servers": broker.bootstrap, "batch.size": "5000"}, [target])
    for round_ in range(6):
        sink.write(batch(2000))
        if round_ in (1, 3):
            broker.restart(crash=True)
    sink.finish()
    assert len(consumed(broker, topic)) == 12_000


def test_the_checksum_that_commit_lists_is_over_the_batches_own(target: SinkTarget, write: Write) -> None:
    """An empty job lists nothing; one batch lists the CRC of its four bytes."""
    assert write() == []
    (only,) = write(pa.RecordBatch.from_pydict({"key": ["a"], "value": [b"1"]}))
    assert (only.records, only.payload_bytes) == (1, 2)
    assert 0 < only.checksum < 2**32
    assert only.checksum != zlib.crc32(b"")
    assert crc32c(b"") == 0


def test_what_is_staged_outlives_a_broker_that_is_killed(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    """kill -9 between appends: acknowledged rows are still staged, the others are sent again; commit finds all of them.
    """
    broker = start_broker()
    Confluent(broker.bootstrap).create_topic(topic, PARTITIONS)
    cluster = SparkCluster({"bootstrap.servers": broker.bootstrap})
    found = cluster.topics_named([topic])[topic]
    begun = ingest_steps.begin(cluster, found.id, topic, join=False)
    target = SinkTarget(Uuid.parse(found.id), topic, PARTITIONS, 1_000_000)
    sink = ArrowSink(
        {"bootstrap.servers": broker.bootstrap, "batch.size": "5000"},
        [target],
        staging=IngestAttempt(begun.ingest_id, begun.batch_id, begun.epoch, 0, 77),
    )
    for round_ in range(6):
        sink.write(batch(2000))
        if round_ in (1, 3):
            broker.restart(crash=True)
    written = sink.finish()
    shares = tuple(
        ingest_steps.Share(each.partition, each.records, each.batch_bytes, each.checksum) for each in written
    )
    assert consumed(broker, topic) == []
    for repeated in (False, True):
        outcome = ingest_steps.commit(cluster, begun, [ingest_steps.Attempt(0, 77, shares)])
        assert outcome.repeated is repeated
        assert sum(end - first for first, end in outcome.offsets.values()) == 12_000
    assert len(consumed(broker, topic)) == 12_000


def test_a_damaged_batch_ends_a_read_with_an_error(start_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """One byte of the log changed on disk: the records before it are returned, then an error that names the place. The
    range never ends as if it were complete."""
    broker = start_broker()
    Confluent(broker.bootstrap).create_topic(topic, 1)
    found = SparkCluster({"bootstrap.servers": broker.bootstrap}).topics_named([topic])[topic]
    target = SinkTarget(Uuid.parse(found.id), topic, 1, 1_000_000)
    for number in range(5):
        sink = ArrowSink({"bootstrap.servers": broker.bootstrap}, [target])
        sink.write(pa.RecordBatch.from_pydict({"value": [f"batch{number}-row{row}" for row in range(10)]}))
        sink.finish()
    (log,) = (each for each in broker.data_dir.rglob("*.log") if b"batch2-row3" in each.read_bytes())
    with log.open("r+b") as file:
        file.seek(log.read_bytes().index(b"batch2-row3"))
        file.write(b"B")
    offsets = SourceRange(target.topic_id, topic, 0, 0, 50)
    source = ArrowSource({"bootstrap.servers": broker.bootstrap}, offsets, ["offset"])
    rows = pa.record_batch(source.next())
    assert rows.column(0).to_pylist() == list(range(20))
    with pytest.raises(NativeError) as damage:
        source.next()
    assert damage.value.code == ErrorCode.CORRUPT_MESSAGE
    assert f"{topic} ({target.topic_id}) partition 0 at offset 20: " in str(damage.value)


def test_a_connection_that_the_broker_closed_while_idle_costs_the_driver_nothing(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """A driver may have nothing to ask for longer than `connections.max.idle.ms`."""
    broker = start_broker({"connections.max.idle.ms": "500"})
    cluster = SparkCluster({"bootstrap.servers": broker.bootstrap})
    for _ in range(2):
        assert cluster.topics_named(["none"]) == {}
        time.sleep(2)
    assert cluster.topics_named(["none"]) == {}
