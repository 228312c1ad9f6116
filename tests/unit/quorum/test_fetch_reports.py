"""A fetch of the metadata topic as a broker's heartbeat."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pybroker.broker.api import quorum_messages
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat
from pybroker.broker.controller.offset_relay import OffsetRelay
from pybroker.broker.quorum.applied_offsets import NO_VERSION, AppliedOffsets
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.native import Uuid, decode, encode
from pybroker.protocol import interbroker as ib
from pybroker.protocol.error_codes import ErrorCode

CONTEXT = RequestContext(1, 13, "broker-2", "User:ANONYMOUS", "BETWEEN", "127.0.0.1", 1)
REQUEST = ib.FetchRequest(
    replica_id=2,
    replica_epoch=40,
    applied_offset=55,
    topics=[ib.FetchRequest_FetchTopic(topic_id=Uuid.METADATA, partitions=[ib.FetchRequest_FetchPartition()])],
)


class Node:
    """A node of the quorum that gives one response."""

    def __init__(self, code: ErrorCode) -> None:
        partition = ib.FetchResponse_PartitionData(partition_index=0, error_code=int(code), records=b"")
        topic = ib.FetchResponse_FetchableTopicResponse(topic_id=Uuid.METADATA, partitions=[partition])
        self.body = encode(ib.FetchResponse(responses=[topic]), 13)

    async def answer(self, api_key: int, api_version: int, body: bytes, *, at_once: bool = False) -> bytes:
        self.at_once = at_once
        assert (api_key, api_version) == (1, 13)
        assert decode(1, 13, body, True, interbroker=True).applied_offset == REQUEST.applied_offset
        return self.body


class FakeController:
    """This broker's controller, perhaps of an earlier registration."""

    def __init__(self, refusal: ErrorCode | None = None) -> None:
        self.heartbeats: list[Any] = []
        self.refusal = refusal

    async def submit(self, event: Any) -> None:
        self.heartbeats.append(event)
        if self.refusal is not None:
            raise KafkaError(self.refusal, "")


@pytest.mark.parametrize("refusal", [None, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH])
def test_a_served_fetch_is_a_heartbeat(refusal: ErrorCode | None) -> None:
    controller: Any = FakeController(refusal)
    response = asyncio.run(quorum_messages.handle(Node(ErrorCode.NONE), AppliedOffsets(), controller, CONTEXT, REQUEST))
    assert response.responses[0].partitions[0].error_code == 0
    assert controller.heartbeats == [BrokerHeartbeat(2, 40, 55)]


def test_a_refused_fetch_is_none() -> None:
    controller: Any = FakeController()
    node = Node(ErrorCode.FENCED_LEADER_EPOCH)
    asyncio.run(quorum_messages.handle(node, AppliedOffsets(), controller, CONTEXT, REQUEST))
    assert controller.heartbeats == []


def test_a_response_relays_what_brokers_have_applied_until_the_replica_has_it() -> None:
    leader, follower = AppliedOffsets(), AppliedOffsets()

    def fetched(request: ib.FetchRequest) -> Any:
        controller: Any = FakeController()
        return asyncio.run(quorum_messages.handle(Node(ErrorCode.NONE), leader, controller, CONTEXT, request))

    leader.note(1, 70)
    leader.note(2, 60)
    response = fetched(REQUEST)
    relayed = {broker.broker_id: broker.end_offset for broker in response.applied_offsets}
    assert relayed == {1: 70, 2: 60}
    follower.note(2, 61)
    follower.receive(response.applied_version, relayed)
    assert dict(follower.offsets) == {1: 70, 2: 61}
    assert fetched(msgspec.structs.replace(REQUEST, applied_version=follower.received)).applied_offsets == []


async def test_waiting_fetches_are_answered_when_a_new_leader_has_applied_its_change() -> None:
    answered: list[None] = []
    twice = asyncio.Event()

    def answer_fetches() -> None:
        answered.append(None)
        if len(answered) == 2:
            twice.set()

    offsets = AppliedOffsets()
    relay = OffsetRelay(offsets, answer_fetches)
    relay.expect((2, 3), 50)
    relay.applied(2, 49)
    assert answered == []
    relay.applied(2, 50)
    relay.applied(3, 51)
    assert len(answered) == 1, "the second one waits for the pause"
    await twice.wait()
    relay.applied(2, 60)
    await asyncio.sleep(0.01)
    assert len(answered) == 2, "no change made it a leader"
    relay.stop()


def test_a_replica_that_missed_a_relay_gets_the_offsets_at_once() -> None:
    offsets, node = AppliedOffsets(), Node(ErrorCode.NONE)

    def waits(version: int) -> bool:
        controller: Any = FakeController()
        request = msgspec.structs.replace(REQUEST, applied_version=version)
        asyncio.run(quorum_messages.handle(node, offsets, controller, CONTEXT, request))
        return not node.at_once

    first = offsets.version
    offsets.note(2, 50)
    assert waits(first), "no replica needs this offset"
    offsets.relayed = offsets.version
    versions = (first, offsets.version, offsets.version + 1, NO_VERSION)
    assert [waits(version) for version in versions] == [False, True, False, True]
