"""Produce, Fetch and committed offsets by id, as raw requests: a dead id never reaches the next topic of the name."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import (
    batch,
    create,
    delete,
    fetch,
    fetch_request,
    leader_epoch,
    metadata,
    produce,
    recreate,
    unique,
)
from tests.wire.client import WireClient


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.port) as connected:
        yield connected


@pytest.mark.checklist(7, 108, 213, "D1", "A29")
def test_produce_by_a_dead_id_is_refused_and_writes_nothing(client: WireClient) -> None:
    name = unique()
    old = create(client, name).topic_id
    assert produce(client, old, batch(b"old")).error_code == 0
    new = recreate(client, name)
    assert produce(client, old, batch(b"late")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(client, Uuid.random(), batch(b"late")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(client, Uuid.ZERO, batch(b"late")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, new).high_watermark == 0
    # The test uses the id, and the name in every version that has it.
    assert produce(client, new, batch(b"new")).base_offset == 0
    for offset, version in enumerate(range(3, 13), start=1):
        assert produce(client, name, batch(b"new"), version).base_offset == offset


@pytest.mark.checklist("U6", "A29")
def test_produce_by_name_of_an_epoch_of_before_is_refused(client: WireClient) -> None:
    """A batch contains the leader epoch that its sender knows."""

    def at(epoch: int, value: bytes) -> bytes:
        made = bytearray(batch(value))
        struct.pack_into(">i", made, 12, epoch)
        return bytes(made)

    name = unique()
    create(client, name)
    recreate(client, name)
    before = leader_epoch(client, name)
    new = recreate(client, name)
    now = leader_epoch(client, name)
    assert now > before > 0
    for version in range(3, 13):
        refused = produce(client, name, at(before, b"late"), version)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, version
    assert fetch(client, new).high_watermark == 0
    # The batch has the current time, because the request has none: most clients send -1, librdkafka 0.
    for offset, epoch in enumerate((now, -1, 0)):
        assert produce(client, name, at(epoch, b"new"), 12).base_offset == offset
    # A request with an id is unambiguous.
    assert produce(client, new, at(before, b"new"), 13).base_offset == 3


@pytest.mark.checklist(7, 92, 213, "D21", "D28")
@pytest.mark.parametrize("version", range(13, 19))
def test_fetch_by_a_dead_id_never_gives_data_of_the_next_topic(client: WireClient, version: int) -> None:
    name = unique()
    old = create(client, name).topic_id
    produce(client, old, batch(b"old", b"old"))
    assert fetch(client, old, version=version).high_watermark == 2
    new = recreate(client, name)
    produce(client, new, batch(b"new", b"new", b"new"))
    for dead in (old, Uuid.random(), Uuid.ZERO, Uuid.METADATA):
        row = fetch(client, dead, version=version)
        assert (row.error_code, row.high_watermark, row.records or b"") == (ErrorCode.UNKNOWN_TOPIC_ID, -1, b"")
    row = fetch(client, new, version=version)
    assert (row.error_code, row.high_watermark, b"new" in row.records, b"old" in row.records) == (0, 3, True, False)
    assert fetch(client, name, version=12).high_watermark == 3


@pytest.mark.checklist(92, 93)
def test_the_id_fences_where_the_leader_epoch_cannot(client: WireClient) -> None:
    """The client knows the epoch of the new topic, and is refused because it requests the old one."""
    name = unique()
    old = create(client, name).topic_id
    new = recreate(client, name)
    produce(client, new, batch(b"new"))
    epoch = leader_epoch(client, new)
    assert fetch(client, old, epoch=epoch).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, new, epoch=epoch).error_code == 0


@pytest.mark.checklist("R6", "R4", 93, "U1")
def test_the_leader_epoch_fences_who_knows_only_the_name(client: WireClient) -> None:
    name = unique()
    create(client, name)
    before = leader_epoch(client, name)
    new = recreate(client, name)
    after = leader_epoch(client, new)
    assert after > before
    for version in range(9, 13):
        assert fetch(client, name, version=version, epoch=before).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert fetch(client, name, version=version, epoch=after).error_code == 0
    for version in range(3, 5):
        asked = m.OffsetForLeaderEpochRequest(
            topics=[
                m.OffsetForLeaderEpochRequest_OffsetForLeaderTopic(
                    topic=name,
                    partitions=[
                        m.OffsetForLeaderEpochRequest_OffsetForLeaderPartition(
                            partition=0, current_leader_epoch=after, leader_epoch=before
                        )
                    ],
                )
            ]
        )
        ((row,),) = [topic.partitions for topic in client.call(asked, version).topics]
        # The log has no record of that epoch; the client has to start at the beginning of this topic.
        assert (row.error_code, row.leader_epoch, row.end_offset) == (0, before, 0)


@pytest.mark.checklist(53, 95)
def test_a_fetch_session_knows_its_topics_by_id(client: WireClient) -> None:
    one, two = create(client, unique()).topic_id, create(client, unique()).topic_id
    produce(client, one, batch(b"one"))

    def call(*topics: tuple[str | Uuid, int, int], session: int, epoch: int, forgotten: list[Uuid]) -> Any:
        request = fetch_request(*topics, session_id=session, session_epoch=epoch)
        request.forgotten_topics_data = [
            m.FetchRequest_ForgottenTopic(topic_id=topic, partitions=[0]) for topic in forgotten
        ]
        return client.call(request, 13)

    opened = call((one, 0, -1), session=0, epoch=0, forgotten=[])
    session = opened.session_id
    assert (opened.error_code, session > 0) == (0, True)
    added = call((two, 0, -1), session=session, epoch=1, forgotten=[])
    assert {topic.topic_id for topic in added.responses} >= {two}
    produce(client, one, batch(b"more"))
    # The request names no partition: the session knows the partitions and offsets.
    woken = call(session=session, epoch=2, forgotten=[])
    assert [(topic.topic_id, topic.partitions[0].high_watermark) for topic in woken.responses] == [(one, 2)]
    updated = call((one, 2, -1), session=session, epoch=3, forgotten=[])
    assert [topic.topic_id for topic in updated.responses if topic.partitions[0].records] == []
    forgotten = call(session=session, epoch=4, forgotten=[one])
    assert forgotten.error_code == 0
    produce(client, one, batch(b"unheard"))
    produce(client, two, batch(b"heard"))
    last = call(session=session, epoch=5, forgotten=[])
    assert [topic.topic_id for topic in last.responses] == [two]


@pytest.mark.checklist(95, "D20", "D21", "A26", "A27")
def test_a_session_learns_that_its_topic_is_gone_and_takes_the_next_one(client: WireClient) -> None:
    name = unique()
    old = create(client, name).topic_id
    produce(client, old, batch(b"old"))
    opened = client.call(fetch_request((old, 0, -1), session_id=0, session_epoch=0), 13)
    new = recreate(client, name)
    produce(client, new, batch(b"new"))
    for epoch in (1, 2):  # the error comes each time, until the client changes the session
        told = client.call(fetch_request(session_id=opened.session_id, session_epoch=epoch), 13)
        ((row,),) = [topic.partitions for topic in told.responses]
        assert (told.responses[0].topic_id, row.error_code) == (old, ErrorCode.UNKNOWN_TOPIC_ID)
    # The client continues the same session: it forgets the old topic and adds the new one.
    request = fetch_request((new, 0, -1), session_id=opened.session_id, session_epoch=3)
    request.forgotten_topics_data = [m.FetchRequest_ForgottenTopic(topic_id=old, partitions=[0])]
    answer = client.call(request, 13)
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.responses] == [(new, 0)]
    assert b"new" in answer.responses[0].partitions[0].records
    # Mixing the two ways of naming in one session is refused.
    mixed = client.call(fetch_request((name, 0, -1), session_id=opened.session_id, session_epoch=4), 12)
    assert mixed.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.checklist(247, "D31", 213, "A28", "U7")
def test_offsets_are_committed_and_fetched_by_id(client: WireClient) -> None:
    name, group = unique(), unique("group")
    old = create(client, name).topic_id
    assert commit(client, group, old, 5, 10) == 0
    assert fetched(client, group, old, 10) == (0, 5)
    assert fetched(client, group, name, 9) == (0, 5)
    assert commit(client, group, name, 6, 9) == 0
    assert fetched(client, group, old, 10) == (0, 6)
    new = recreate(client, name)
    # The old position does not apply to the new topic, and no request can bring it there.
    assert fetched(client, group, new, 10) == (0, -1)
    assert fetched(client, group, name, 9) == (0, -1)
    assert fetched(client, group, old, 10) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert commit(client, group, old, 7, 10) == ErrorCode.UNKNOWN_TOPIC_ID
    assert commit(client, group, Uuid.random(), 7, 10) == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetched(client, group, new, 10) == (0, -1)
    assert commit(client, group, new, 1, 10) == 0
    assert fetched(client, group, name, 9) == (0, 1)


def commit(client: WireClient, group: str, topic: str | Uuid, offset: int, version: int) -> int:
    row = m.OffsetCommitRequest_OffsetCommitRequestTopic(
        partitions=[m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    )
    if isinstance(topic, str):
        row.name = topic
    else:
        row.topic_id = topic
    coordinated(client, group)
    (answer,) = client.call(m.OffsetCommitRequest(group_id=group, topics=[row]), version).topics
    assert (answer.name or answer.topic_id) == topic
    return int(answer.partitions[0].error_code)


def fetched(client: WireClient, group: str, topic: str | Uuid, version: int) -> tuple[int, int]:
    """Return error code and offset."""
    row = m.OffsetFetchRequest_OffsetFetchRequestTopics(partition_indexes=[0])
    if isinstance(topic, str):
        row.name = topic
    else:
        row.topic_id = topic
    coordinated(client, group)
    groups = [m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=[row])]
    (answer,) = client.call(m.OffsetFetchRequest(groups=groups), version).groups
    assert answer.error_code == 0
    (found,) = answer.topics
    assert (found.name or found.topic_id) == topic
    return int(found.partitions[0].error_code), int(found.partitions[0].committed_offset)


def coordinated(client: WireClient, group: str) -> None:
    """Wait until the group's coordinator has loaded; the request for it creates its topic."""
    while client.call(m.FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators[0].error_code:
        pass


@pytest.mark.checklist(9, 10, 53, 56, 109, 220)
def test_an_id_takes_sixteen_bytes_whatever_the_name(client: WireClient) -> None:
    """Produce 12 and 13, and Fetch 12 and 13, differ only by the name's length; a frame by id has no name."""
    for name in ("n" * 14, "n" * 15, "n" * 30, "n" * 249):
        topic_id = Uuid.random()
        by_name = native.encode(_produced(name), 12)
        by_id = native.encode(_produced(topic_id), 13)
        prefix = 1 if len(name) < 127 else 2
        assert len(by_name) - len(by_id) == len(name) + prefix - 16
        assert topic_id.bytes in by_id
        asked, asked_by_id = fetch_request((name, 0, 0)), fetch_request((topic_id, 0, 0))
        assert len(native.encode(asked, 12)) - len(native.encode(asked_by_id, 13)) == len(name) + prefix - 16
    # On the wire, neither the request nor the response by id contains the name.
    name = unique("a-name-that-is-nowhere-else")
    topic_id = create(client, name).topic_id
    for request, version in [(_produced(topic_id), 13), (fetch_request((topic_id, 0, -1)), 13)]:
        assert name.encode() not in native.encode(request, version)
        client.send(request, version, answered=False)
        frame = client.receive_frame()
        assert name.encode() not in frame
        assert topic_id.bytes in frame


def _produced(topic: str | Uuid) -> m.ProduceRequest:
    data = m.ProduceRequest_TopicProduceData(
        name=topic if isinstance(topic, str) else "",
        topic_id=topic if isinstance(topic, Uuid) else Uuid.ZERO,
        partition_data=[m.ProduceRequest_PartitionProduceData(index=0, records=batch(b"v"))],
    )
    return m.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


@pytest.mark.checklist(8, "D2")
def test_a_deleted_topic_is_unknown_to_those_who_ask_by_name(client: WireClient) -> None:
    name = unique()
    create(client, name)
    delete(client, name)
    partition = m.ListOffsetsRequest_ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = m.ListOffsetsRequest_ListOffsetsTopic(name=name, partitions=[partition])
    asked = m.ListOffsetsRequest(replica_id=-1, topics=[topic])
    ((row,),) = [topic.partitions for topic in client.call(asked, 8).topics]
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client, name, version=12).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata(client, 12, name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
