"""A deletion waits only for the controller's own broker. State that other brokers did not report in time is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from pybroker.broker.controller.outbox import Outbox
from pybroker.broker.controller.write_fence import WriteFences
from pybroker.broker.metadata.control_messages import (
    ClosedTopic,
    CloseTopics,
    CloseTopicsResponse,
    ControlRequest,
    ControlResponse,
    ReopenTopics,
)
from pybroker.broker.metadata.image import BrokerImage
from tests.unit.control_plane import until
from tests.unit.controller.test_decisions import cluster, created

OWN, OTHER, PAUSED = 1, 2, 3


class Mute:
    """A channel whose responses the test sets."""

    def __init__(self) -> None:
        self.asked: dict[type, asyncio.Future[ControlResponse]] = {}

    def send(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        return self.ask(request)

    def ask(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        future = self.asked[type(request)] = asyncio.get_running_loop().create_future()
        return future

    async def drain(self) -> None: ...


class MuteChannels(dict[int, Mute]):
    """A mute channel to each broker."""

    def to(self, broker: BrokerImage) -> Mute | None:
        return self.get(broker.broker_id)

    def follow(self, brokers: Mapping[int, BrokerImage]) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.checklist("R22")
async def test_others_have_twenty_milliseconds_and_the_own_broker_has_all_it_needs() -> None:
    channels = MuteChannels({broker_id: Mute() for broker_id in (OWN, OTHER, PAUSED)})
    closing = WriteFences(OWN, Outbox(OWN, channels, None, lambda *answer: None))
    image = created(cluster(OWN, OTHER, PAUSED), "a", partitions=3)
    topic = image.topics["a"]
    work = asyncio.create_task(closing.close(image, [topic]))
    await until(lambda: all(CloseTopics in one.asked for one in channels.values()))
    offsets = ({"group": "g", "partition": 0, "offset": 7},)
    channels[OTHER].asked[CloseTopics].set_result(
        CloseTopicsResponse(0, (ClosedTopic(topic.topic_id, {1: (3, 9)}, offsets),))
    )
    # The paused broker's time limit has passed several times; only the controller's own broker is still slow.
    await asyncio.sleep(0.2)
    assert not work.done()
    channels[OWN].asked[CloseTopics].set_result(CloseTopicsResponse(0, (ClosedTopic(topic.topic_id, {0: (0, 5)}, ()),)))
    closed = await work
    assert closed.closed.ends == {topic.topic_id: ((0, 5), (3, 9), (-1, -1))}
    assert closed.closed.offsets == {topic.topic_id: offsets}
    # Every broker that got the fence gets its end.
    closing.reopen(image, closed)
    for channel in channels.values():
        assert ReopenTopics in channel.asked


async def test_a_broker_that_refuses_to_close_is_not_known() -> None:
    channels = MuteChannels({OWN: Mute()})
    closing = WriteFences(OWN, Outbox(OWN, channels, None, lambda *answer: None))
    image = created(cluster(OWN), "a", partitions=1)
    topic = image.topics["a"]
    work = asyncio.create_task(closing.close(image, [topic]))
    await until(lambda: CloseTopics in channels[OWN].asked)
    channels[OWN].asked[CloseTopics].set_result(CloseTopicsResponse(77))
    closed = await work
    assert (closed.closed.ends, closed.closed.offsets) == ({topic.topic_id: ((-1, -1),)}, {topic.topic_id: ()})
