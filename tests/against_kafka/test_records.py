"""Records: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, and their refusals."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.test_transactions import add, begun, completed, end
from tests.topic_ids.kit import batch, idempotent

REPLICAS = (-2, -1, 0, 1, 7)
"""Replica ids: -1 is a consumer, -2 a debugging consumer, the others brokers. kafka-python 3.0.0 to 3.0.11 sends 0."""
LATEST, EARLIEST = -1, -2
HOUR_MS = 3_600_000
YEAR_1 = -62_135_596_800_000
"""The zero time of Go and .NET."""


def of_time(timestamp: int) -> bytes:
    """Return a batch whose only record has this timestamp."""
    made = bytearray(batch(b"value"))
    struct.pack_into(">qq", made, 27, timestamp, timestamp)
    struct.pack_into(">I", made, 17, native.crc32c(bytes(made[21:])))
    return bytes(made)


def changed(at: int, form: str, value: int) -> bytes:
    """Return a batch with another value in its header."""
    made = bytearray(batch(b"a", b"b"))
    struct.pack_into(form, made, at, value)
    struct.pack_into(">I", made, 17, native.crc32c(bytes(made[21:])))
    return bytes(made)


def listing(
    topic: str, *timestamps: int, replica: int = -1, isolation: int = 0, epoch: int = -1, index: int = 0
) -> m.ListOffsetsRequest:
    """Return a ListOffsets request; several timestamps name the partition several times."""
    partitions = [
        m.ListOffsetsRequest_ListOffsetsPartition(partition_index=index, timestamp=wanted, current_leader_epoch=epoch)
        for wanted in timestamps
    ]
    topics = [m.ListOffsetsRequest_ListOffsetsTopic(name=topic, partitions=partitions)]
    return m.ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics)


def list_offsets(side: Side, name: str) -> None:
    side.topic(name, 1)
    for timestamp in (1_000, 2_000, 3_000):
        write(side, None, name, of_time(timestamp))
    for version in (1, 5, 10, 11):
        for replica in REPLICAS:
            for wanted in (LATEST, EARLIEST, 2_000, 9_000):
                side.ask(listing(name, wanted, replica=replica), version)
    for special in (-3, -4, -5, -6, -7, -(2**63)):
        for version in (1, 7, 8, 9, 11):
            side.ask(listing(name, special), version)
    # A partition that is named twice is refused; Kafka reports it once, pybroker for each occurrence.
    twice = side.quietly(listing(name, LATEST, EARLIEST), 10)
    side.note("twice", {row.error_code for row in twice.topics[0].partitions}.pop())
    side.ask(listing(name, LATEST, index=9), 10)
    side.ask(listing(name, LATEST, index=-1), 10)
    side.ask(listing("not-" + name, LATEST, replica=0), 10)
    for topic in ("", "a b", "x" * 250):
        side.ask(listing(topic, LATEST), 10)
    for epoch in (0, 9):
        side.ask(listing(name, LATEST, epoch=epoch), 10)


def epochs(side: Side, name: str) -> None:
    side.topic(name, 1)
    write(side, None, name, batch(b"value"))
    for replica in REPLICAS:
        for index in (0, 9):
            for wanted in (-1, 0, 9):
                partition = m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(partition=index, leader_epoch=wanted)
                topic = m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(topic=name, partitions=[partition])
                side.ask(m.OffsetForLeaderEpochRequest(replica_id=replica, topics=[topic]), 4)


def fetches(side: Side, name: str) -> None:
    """Negative sizes and other isolation levels are not compared: Kafka fails with UNKNOWN_SERVER_ERROR."""
    side.topic(name, 1)
    write(side, None, name, batch(b"value"))
    chosen: tuple[dict[str, int], ...] = (
        {},
        {"replica_id": -2},
        {"max_bytes": 0},
        {"min_bytes": -1},
        {"max_wait_ms": -1, "min_bytes": 1 << 20},
    )
    for offset in (0, 1, 2, -1):
        for size in (0, 1 << 20):
            for more in chosen:
                partition = m.FetchRequest_FetchPartition(
                    partition=0, fetch_offset=offset, partition_max_bytes=size, current_leader_epoch=-1
                )
                topic = m.FetchRequest_FetchTopic(topic=name, partitions=[partition])
                settings: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "topics": [topic], **more}
                answer = side.quietly(m.FetchRequest(**settings), 12)
                for row in answer.responses:
                    for told in row.partitions:
                        told.records = b"%d" % len(told.records or b"")
                side.note(f"Fetch {offset} {size} {more}", answer)


def write(
    side: Side, transactional_id: str | None, topic: str, records: bytes, *, index: int = 0, acks: int = -1
) -> None:
    """Produce, without comparing append times, texts about a record, and the log start (which Kafka also returns with
    refusals)."""
    data = m.ProduceRequest_PartitionProduceData(index=index, records=records)
    rows = [m.ProduceRequest_TopicProduceData(name=topic, partition_data=[data])]
    request = m.ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=rows)
    side.ask(request, 11, but=("log_append_time_ms", "log_start_offset", "batch_index_error_message"))


def produces(side: Side, name: str) -> None:
    side.topic(name, 1)
    now = int(time.time() * 1000)
    times = (0, -1, -2, YEAR_1, -86_400_000, -(2**63), 2**63 - 1, now - HOUR_MS, now + 2 * HOUR_MS, now * 1000)
    for timestamp in times:
        write(side, None, name, of_time(timestamp))
    for records in (
        b"",
        batch(b"a") + batch(b"b"),
        changed(0, ">q", 7),
        changed(16, ">b", 1),
        changed(21, ">h", 0x20),
        changed(23, ">i", 5),
        changed(57, ">i", 0),
        changed(57, ">i", 3),
    ):
        write(side, None, name, records)
    for acks in (2, -2):
        write(side, None, name, batch(b"value"), acks=acks)
    for topic, index in ((name, 9), (name, -1), ("not-" + name, 0), ("a b", 0)):
        write(side, None, topic, batch(b"value"), index=index)
    # The request has a transactional id, but its records are in no transaction.
    write(side, name, name, batch(b"value"))
    write(side, None, name, idempotent(1 << 40, 0, b"value", transactional=True))


def first_sequences(side: Side, name: str) -> None:
    """Send first sequences of unknown and of known producers."""
    side.topic(name, 1)
    for producer, epoch, sequence in (
        (1, 0, 7),
        (1, 0, 8),
        (1, 0, 10),
        (1, 1, 5),
        (1, 1, 0),
        (1, 0, 9),
        (2, 0, 0),
        (3, 5, 2**31 - 1),
        (3, 5, 0),
    ):
        write(side, None, name, idempotent(producer << 41, sequence, b"value", epoch=epoch))


def deletions(side: Side, name: str) -> None:
    side.topic(name, 1)
    for _ in range(4):
        write(side, None, name, batch(b"value"))
    for index, offset in ((0, 5), (0, -2), (9, 1), (-1, 1), (0, 2), (0, 1), (0, 0), (0, -1), (0, 4)):
        _delete(side, name, offset, index)
        for wanted in (EARLIEST, LATEST):
            side.ask(listing(name, wanted), 10)
    _delete(side, "not-" + name, 1)
    _delete(side, "a b", 1)
    side.ask(m.DeleteRecordsRequest(topics=[], timeout_ms=1_000), 2)


def _delete(side: Side, topic: str, offset: int, index: int = 0) -> None:
    partition = m.DeleteRecordsRequest_DeleteRecordsPartition(partition_index=index, offset=offset)
    topics = [m.DeleteRecordsRequest_DeleteRecordsTopic(name=topic, partitions=[partition])]
    side.ask(m.DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)


def below_the_start(side: Side, name: str) -> None:
    """Delete records of an open transaction: the last stable offset is then the log start."""
    side.topic(name, 1)
    me = begun(side, name)
    write(side, None, name, batch(b"before"))
    side.ask(add(name, me, name, 0), 3)
    write(side, name, name, idempotent(me[0], 0, b"open", epoch=me[1], transactional=True))
    for _ in range(3):
        write(side, None, name, batch(b"value"))
    for offset in (0, 1, 3, 5):
        if offset:
            _delete(side, name, offset)
        for isolation in (0, 1):
            side.ask(listing(name, LATEST, isolation=isolation), 10)
            partition = m.FetchRequest_FetchPartition(
                partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1
            )
            topic = m.FetchRequest_FetchTopic(topic=name, partitions=[partition])
            request = m.FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation, topics=[topic])
            side.ask(request, 12, but=("records",))
    side.ask(end(name, me, commit=True), 3)
    completed(side, name, "CompleteCommit")
    side.until(
        lambda: listing(name, LATEST, isolation=1), 10, lambda answer: answer.topics[0].partitions[0].offset == 6
    )


@pytest.mark.parametrize(
    "story", [list_offsets, epochs, fetches, produces, first_sequences, deletions, below_the_start]
)
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    """The same answers, refusals included."""
    compare(story)
