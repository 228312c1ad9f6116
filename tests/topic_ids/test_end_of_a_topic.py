"""Effects of a topic's end on waiting fetches, fetch sessions, produces in flight and the sequences of producers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.walk import files
from tests.topic_ids.kit import batch, create, delete, fetch, fetch_request, idempotent, produce, recreate, unique
from tests.topic_ids.lives import Lives, until
from tests.wire.client import WireClient

LONG_MS = 60_000
"""Far below the wait time of the fetch: a response that takes so long is a failure."""
GONE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.port) as connected:
        yield connected


def end(lives: Lives, how: str, topic_id: Uuid) -> None:
    answer = lives.delete(topic_id) if how == "delete" else lives.truncate(topic_id, keep_offsets="keep" in how)
    assert answer.error_code == 0


@pytest.mark.checklist("A26", "R4", 112)
@pytest.mark.parametrize("how", ["delete", "truncate", "truncate, keep offsets"])
@pytest.mark.parametrize("version", [12, 13])
def test_a_waiting_fetch_is_answered_at_once(client: WireClient, broker: BrokerProcess, version: int, how: str) -> None:
    name, lives = unique(), Lives(broker.port)
    topic_id = create(client, name).topic_id
    produce(client, topic_id, batch(b"read"))
    which = topic_id if version == 13 else name
    with WireClient(broker.port, timeout_s=LONG_MS / 1000) as reader:
        reader.send(fetch_request((which, 1, 0), max_wait_ms=600_000, min_bytes=1), version)
        # Send a second fetch, so that the broker has certainly received the first before the topic ends.
        with WireClient(broker.port) as other:
            assert other.call(fetch_request((which, 1, 0)), version).error_code == 0
        end(lives, how, topic_id)
        answer = reader.receive()
        codes = {row.error_code for topic in answer.responses for row in topic.partitions}
    assert codes
    assert codes <= (GONE if how == "delete" else GONE | {ErrorCode.FENCED_LEADER_EPOCH})


@pytest.mark.checklist("A26", "A27")
def test_an_open_session_is_told_every_time_and_for_its_topic_only(client: WireClient) -> None:
    kept, gone = (create(client, unique()).topic_id for _ in range(2))
    opened = client.call(fetch_request((kept, 0, -1), (gone, 0, -1), session_id=0, session_epoch=0), 13)
    session = opened.session_id
    assert session
    assert delete(client, gone)[0].error_code == 0
    produce(client, kept, batch(b"heard"))
    first = client.call(fetch_request(session_id=session, session_epoch=1), 13)
    rows = {topic.topic_id: topic.partitions[0] for topic in first.responses}
    assert rows[gone].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert b"heard" in (rows[kept].records or b"")
    for epoch in range(2, 5):
        told = client.call(fetch_request(session_id=session, session_epoch=epoch), 13)
        assert {t.topic_id: t.partitions[0].error_code for t in told.responses}[gone] == ErrorCode.UNKNOWN_TOPIC_ID
    # A topic by name in a session by ids is refused, and the session stays unchanged.
    mixed = client.call(fetch_request(session_id=session, session_epoch=5), 12)
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    # This is the reverse case.
    named = unique()
    create(client, named)
    by_name = client.call(fetch_request((named, 0, -1), session_id=0, session_epoch=0), 12)
    mixed = client.call(fetch_request(session_id=by_name.session_id, session_epoch=1), 13)
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.checklist("A27", "A29", "R6", 113)
def test_every_produce_in_flight_has_its_answer_and_what_was_promised_is_kept(broker: BrokerProcess) -> None:
    lives, name = Lives(broker.port), unique("flight")
    topic_id = lives.create(name)
    begun = threading.Event()
    acknowledged: dict[int, str] = {}
    refused: list[int] = []

    def send() -> None:
        number = 0
        with WireClient(broker.port) as mine:
            while not refused:
                window = [f"{number + more}" for more in range(8)]
                for value in window:
                    data = m.ProduceRequest_TopicProduceData(
                        name=name,
                        partition_data=[m.ProduceRequest_PartitionProduceData(index=0, records=batch(value.encode()))],
                    )
                    mine.send(m.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)
                for value in window:
                    answer = mine.receive()
                    row = answer.responses[0].partition_responses[0]
                    if row.error_code:
                        refused.append(row.error_code)
                    else:
                        acknowledged[row.base_offset] = value
                number += len(window)
                if number > 100:
                    begun.set()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert begun.wait(120)
        assert lives.delete(topic_id).error_code == 0
    finally:
        thread.join(120)
    assert not thread.is_alive()
    assert set(refused) <= GONE
    assert lives.undelete(topic_id).error_code == 0
    there = dict(enumerate(lives.read(topic_id)))
    assert acknowledged.items() <= there.items()


@pytest.mark.checklist("A30", "R5", "U2")
@pytest.mark.parametrize("how", ["recreate", "truncate", "truncate, keep offsets"])
def test_a_producer_goes_on_where_it_was_and_nowhere_else(client: WireClient, broker: BrokerProcess, how: str) -> None:
    name, lives = unique(), Lives(broker.port)
    old = create(client, name).topic_id
    for sequence in range(3):
        assert produce(client, old, idempotent(71, sequence, b"%d" % sequence)).base_offset == sequence
    assert produce(client, old, idempotent(71, 2, b"2")).base_offset == 2  # a repetition, known as one
    new = recreate(client, name) if how == "recreate" else lives.truncate(name, keep_offsets="keep" in how).topic_id
    start = 3 if "keep" in how else 0
    assert produce(client, new, idempotent(71, 4, b"4")).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    # The repeated last batch is not known as a duplicate: the new log does not have it.
    assert produce(client, new, idempotent(71, 2, b"2")).base_offset == start
    assert produce(client, new, idempotent(71, 3, b"3")).base_offset == start + 1
    assert produce(client, new, idempotent(71, 3, b"3")).base_offset == start + 1
    # A producer that never wrote to the old topic begins like every new producer.
    assert produce(client, new, idempotent(72, 0, b"other")).base_offset == start + 2
    assert fetch(client, new, start).high_watermark == start + 3


def test_a_broker_that_knows_nothing_of_a_producer_takes_any_first_sequence(start_broker: StartBroker) -> None:
    """The producer states of the deleted topic do not survive a restart."""
    name, broker = unique(), start_broker()
    with WireClient(broker.port) as client:
        old = create(client, name).topic_id
        for sequence in range(3):
            assert produce(client, old, idempotent(71, sequence, b"old")).error_code == ErrorCode.NONE
        assert [row.error_code for row in delete(client, name)] == [ErrorCode.NONE]
    broker.restart()
    with WireClient(broker.port) as client:
        new = create(client, name).topic_id
        rows = [produce(client, new, idempotent(71, sequence, b"new")) for sequence in (3, 4, 4, 6)]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
            (ErrorCode.NONE, 1),
            (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        ]


@pytest.mark.checklist("U3", "U2", 202, "X10")
@pytest.mark.parametrize("crash", [False, True])
def test_topics_come_back_in_the_layout_by_id(start_broker: StartBroker, crash: bool) -> None:
    broker = start_broker({"log.dir.layout": "topic-id"})
    lives = Lives(broker.port)
    first = lives.create("laid", 2)
    lives.produce("laid", "a")
    lives.produce("laid", "b", partition=1)

    def places() -> set[str]:
        found = (path for path in files(broker.data_dir) if path.name == "partition.metadata")
        return {str(path.parent.relative_to(broker.data_dir)) for path in found}

    def laid(*topic_ids: Uuid) -> set[str]:
        return {f"{one.hex[:2]}/{one.hex}_{index}" for one in topic_ids for index in range(2)}

    assert places() == laid(first)
    assert lives.delete(first).error_code == 0
    until(lambda: places() == {f"deleting/{first.hex}_{index}" for index in range(2)}, "staged")
    broker.restart(crash=crash)
    assert lives.undelete(first, "again").error_code == 0
    assert (lives.read("again"), lives.read(first, partition=1)) == (["a"], ["b"])
    assert places() == laid(first)
    second = lives.truncate("again", keep_offsets=True).topic_id
    assert lives.ends("again", 1) == (1, 1)
    until(lambda: lives.deletions(first)[0].state == "staged", "staged")
    assert lives.undelete(first, "before").error_code == 0
    assert places() == laid(first, second)
    broker.restart(crash=crash)
    assert (lives.read("before"), lives.read("before", partition=1)) == (["a"], ["b"])
    assert lives.produce(second, "new").base_offset == 1
    assert places() == laid(first, second)
    assert "does not know" not in broker.console.read_text()
