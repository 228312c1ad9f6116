"""A topic is fenced until the last decision about it is made. If the topic still exists then, it accepts records
again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pybroker.broker.metadata.control_messages import ClosedTopic, CloseTopics, ReopenTopics
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.native import PartitionEnds, Uuid
from tests.unit.control_plane import until

A, B = Uuid.random(), Uuid.random()
OFFSETS = ({"group": "g", "partition": 0, "offset": 7},)


class Partitions:
    """Records which topics are fenced. `held` delays the next call."""

    def __init__(self) -> None:
        self.fenced: set[Uuid] = set()
        self.calls = 0
        self.held = threading.Event()
        self.held.set()

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> Sequence[PartitionEnds]:
        self.calls += 1
        assert self.held.wait(60)
        (self.fenced.add if fenced else self.fenced.discard)(topic_id)
        return [PartitionEnds(0, 3, 9)]


class Groups:
    """The number of holds on a topic's commits."""

    def __init__(self) -> None:
        self.holds: dict[Uuid, int] = {}

    async def hold_commits(self, topic_id: Uuid) -> None:
        self.holds[topic_id] = self.holds.get(topic_id, 0) + 1

    def release_commits(self, topic_id: Uuid) -> None:
        self.holds[topic_id] -= 1

    def committed_for(self, topic_id: Uuid) -> tuple[Mapping[str, Any], ...]:
        return OFFSETS


class View:
    """A cluster in which topics A and B exist until they are removed."""

    def __init__(self) -> None:
        topics = tuple(TopicImage(name, topic_id, (), {}, 0, 0, -1) for name, topic_id in (("a", A), ("b", B)))
        self.image = ClusterImage.initial(1).apply(ImageDelta(topics=topics))

    def remove(self, name: str) -> None:
        self.image = self.image.apply(ImageDelta(removed=(self.image.topics[name],)))


class Closed:
    def __init__(self) -> None:
        self.partitions, self.groups, self.view = Partitions(), Groups(), View()
        self.closing = TopicClosing(self.partitions, self.groups, self.view)

    async def close(
        self, *topics: Uuid, controller_epoch: int = 1, broker_epoch: int = 1, number: int = 0
    ) -> tuple[ClosedTopic, ...]:
        request = CloseTopics(1, controller_epoch, broker_epoch, topics, number)
        return (await self.closing.close(request)).topics

    async def reopen(self, *topics: Uuid, controller_epoch: int = 1, number: int = 0) -> None:
        # As the codec decodes it: with a list.
        request: Any = ReopenTopics(1, controller_epoch, 1, topics, number)
        await self.closing.reopen(msgspec.structs.replace(request, topics=list(topics)))

    @property
    def state(self) -> tuple[set[Uuid], dict[Uuid, int]]:
        """Return the fenced topics, and how often commits are held."""
        return self.partitions.fenced, self.groups.holds


@pytest.fixture
def closed() -> Closed:
    return Closed()


@pytest.mark.checklist("R22")
async def test_what_is_closed_is_told_and_opens_if_it_lives(closed: Closed) -> None:
    assert await closed.close(A, B) == tuple(ClosedTopic(one, {0: (3, 9)}, OFFSETS) for one in (A, B))
    assert (closed.partitions.fenced, closed.groups.holds) == ({A, B}, {A: 1, B: 1})
    closed.view.remove("a")
    await closed.reopen(A, B)
    # A deleted topic accepts nothing until its replicas stop.
    assert (closed.partitions.fenced, closed.groups.holds) == ({A}, {A: 0, B: 0})


async def test_the_last_of_several_decisions_opens(closed: Closed) -> None:
    await closed.close(A)
    await closed.close(A, B)
    await closed.reopen(A)
    assert closed.partitions.fenced == {A, B}
    await closed.reopen(A, B)
    assert closed.partitions.fenced == set()


async def test_words_that_cross_leave_nothing_half_closed(closed: Closed) -> None:
    """A broker that responds late gets ReopenTopics while it still closes the topic, and a new CloseTopics meanwhile.
    """
    closed.partitions.held.clear()
    late = asyncio.create_task(closed.close(A, B))
    await until(lambda: closed.partitions.calls)
    reopening = asyncio.create_task(closed.reopen(A, B))
    anew = asyncio.create_task(closed.close(A))
    await asyncio.sleep(0.01)
    closed.partitions.held.set()
    await asyncio.gather(late, reopening, anew)
    assert (closed.partitions.fenced, closed.groups.holds) == ({A}, {A: 1, B: 0})
    await closed.reopen(A)
    assert (closed.partitions.fenced, closed.groups.holds) == (set(), {A: 0, B: 0})


async def test_a_closing_ends_with_its_controller(closed: Closed) -> None:
    """The controller dies before its decision: no ReopenTopics arrives. The next controller may fence the topic,
    too."""
    await closed.close(A, B, number=7)
    await closed.close(B, controller_epoch=2, number=1)
    await closed.closing.expire(2, 1)
    assert closed.state == ({B}, {A: 0, B: 1})
    # The dead controller's request was still on its way.
    assert await closed.close(A, number=8) == ()
    await closed.reopen(A, B, number=7)
    assert closed.state == ({B}, {A: 0, B: 1})
    await closed.reopen(B, controller_epoch=2, number=1)
    assert closed.state == (set(), {A: 0, B: 0})


async def test_a_closing_ends_with_the_life_of_the_broker(closed: Closed) -> None:
    """The controller sends ReopenTopics only to registered brokers. A broker that is not registered at that moment gets
    the whole image when it is back."""
    await closed.close(A, broker_epoch=1)
    await closed.closing.expire(1, 1)
    assert closed.state == ({A}, {A: 1})
    await closed.closing.expire(1, 2)
    assert closed.state == (set(), {A: 0})


async def test_what_a_dead_controller_deleted_stays_closed(closed: Closed) -> None:
    await closed.close(A, B)
    closed.view.remove("a")
    await closed.closing.expire(2, 1)
    assert closed.state == ({A}, {A: 0, B: 0})


async def test_a_closing_that_its_end_has_overtaken_closes_nothing(closed: Closed) -> None:
    """CloseTopics and ReopenTopics use two connections, so CloseTopics may arrive late."""
    await closed.close(A, number=1)
    await closed.reopen(A, number=2)
    assert closed.state == ({A}, {A: 1}), "the other closing of the topic goes on"
    assert await closed.close(A, number=2) == ()
    await closed.reopen(A, number=1)
    assert closed.state == (set(), {A: 0})
    assert await closed.close(A, number=3)
    assert closed.state == ({A}, {A: 1})


async def test_a_fence_without_a_closing_is_taken_away(closed: Closed) -> None:
    closed.partitions.fenced |= {A, B}
    await closed.close(B)
    await closed.closing.open_left(A)
    await closed.closing.open_left(B)
    assert closed.partitions.fenced == {B}
