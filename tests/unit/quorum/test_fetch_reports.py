"""A fetch of the metadata topic as a broker's heartbeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.broker.api import quorum_messages
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.native import Uuid, encode
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
    """A node of the quorum with one answer."""

    def __init__(self, code: ErrorCode) -> None:
        partition = ib.FetchResponse_PartitionData(partition_index=0, error_code=int(code), records=b"")
        topic = ib.FetchResponse_FetchableTopicResponse(topic_id=Uuid.METADATA, partitions=[partition])
        self.body = encode(ib.FetchResponse(responses=[topic]), 13)

    async def answer(self, api_key: int, api_version: int, body: bytes) -> bytes:
        assert (api_key, api_version, body) == (1, 13, encode(REQUEST, 13))
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
    response = asyncio.run(quorum_messages.handle(Node(ErrorCode.NONE), controller, CONTEXT, REQUEST))
    assert response.responses[0].partitions[0].error_code == 0
    assert controller.heartbeats == [BrokerHeartbeat(2, 40, 55)]


def test_a_refused_fetch_is_none() -> None:
    controller: Any = FakeController()
    asyncio.run(quorum_messages.handle(Node(ErrorCode.FENCED_LEADER_EPOCH), controller, CONTEXT, REQUEST))
    assert controller.heartbeats == []
