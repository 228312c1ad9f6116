"""Share groups (KIP-932) in the coordinator: how the share states of their partitions are initialized and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.group_base.epoch_group import JOINS, LEAVES
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.shards.topic_view import CachedTopics
from pybroker.broker.coordinators.share.group import ShareGroup
from pybroker.broker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult
from pybroker.broker.coordinators.share_state.state import NO_OFFSET, Key, ShareState
from pybroker.broker.metadata.deletion_records import DELETING, REMOVED, STAGED
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import FakeStates, World

G = "g"
SESSION_MS = 45_000
RETENTION_CHECK_MS = 600_000
SETTINGS = {
    "group.share.session.timeout.ms": SESSION_MS,
    "offsets.retention.check.interval.ms": RETENTION_CHECK_MS,
    "group.share.heartbeat.interval.ms": 5_000,
    "group.share.assignment.interval.ms": 0,
    "group.share.max.size": 100,
    **{
        f"group.share.{bound}.{name}": value
        for bound, value in (("min", 0), ("max", 60_000))
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    },
}


class States(FakeStates):
    """A fake share coordinator that fences. `hold` delays requested work; `release` does it later, when the caller may
    be gone."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = False
        self._held: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        def work() -> None:
            known = self.kept.get(key)
            if known is not None and state_epoch < known.state_epoch:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
            if known is None or state_epoch > known.state_epoch or start_offset != NO_OFFSET:
                self.kept[key] = ShareState(state_epoch, start_offset)

        await self._asked(work)

    async def delete(self, key: Key) -> None:
        await self._asked(lambda: self.kept.pop(key, None) and None)

    async def _asked(self, work: Callable[[], None]) -> None:
        if not self.hold:
            work()
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append((work, done))
        await done

    def release(self) -> None:
        self.hold = False
        held, self._held = self._held, []
        for work, done in held:
            work()
            if not done.done():
                done.set_result(None)


async def new_world() -> tuple[World, States, Uuid]:
    """Return a world with a topic of two partitions."""
    states = States()
    world = World(states=states)
    world.config |= SETTINGS
    return world, states, world.topics.create("orders", 2)


def coordination(world: World) -> ShareCoordination:
    return ShareCoordination(world.groups, world.topics, world.states, world.loop)


async def beat(world: World, member: str, epoch: int = JOINS) -> ShareHeartbeatResult:
    answer: asyncio.Future[ShareHeartbeatResult] = world.loop.create_future()
    topics = ("orders",) if epoch == JOINS else None
    world.groups.shard(G).heartbeat(
        GroupKind.SHARE, G, ShareHeartbeat(member, epoch, "client", "/host", topics=topics), answer.set_result
    )
    await world.settle()
    return answer.result()


def group(world: World) -> ShareGroup:
    return world.groups.describe(G, ShareGroup)


async def joined(world: World, member: str) -> frozenset[tuple[Uuid, int]]:
    """Join and send heartbeats until the assignment is stable; return the last assignment."""
    answer = await beat(world, member)
    assert answer.error is ErrorCode.NONE, answer
    for _ in range(10):
        await world.pass_time(1_000)
        answer = await beat(world, member, group(world).members[member].epoch)
        assert answer.error is ErrorCode.NONE, answer
    return group(world).members[member].assigned


async def test_states_of_a_topic_that_goes_while_nobody_coordinates_the_group_are_deleted() -> None:
    world, states, topic = await new_world()
    await joined(world, "a")
    world.topics.dead.add(world.topics.remove("orders").topic_id)
    assert states.kept.keys() == {Key(G, topic, 0), Key(G, topic, 1)}
    await world.restart()
    await world.settle()
    assert not states.kept
    await world.restart()
    assert not group(world).initialized
    assert not group(world).deleting


async def test_states_of_a_topic_that_may_come_back_stay_until_it_cannot() -> None:
    world, states, topic = await new_world()
    await joined(world, "a")
    world.topics.remove("orders")
    await world.restart()
    await world.pass_time(RETENTION_CHECK_MS)
    assert states.kept.keys() == {Key(G, topic, 0), Key(G, topic, 1)}
    world.topics.dead.add(topic)
    await world.pass_time(RETENTION_CHECK_MS)
    assert not states.kept
    assert not group(world).initialized
    assert not group(world).deleting


@pytest.mark.parametrize(
    ("state", "closed", "dead"),
    [
        (None, False, False),
        (DELETING, False, False),
        (STAGED, False, False),
        (STAGED, True, True),
        (REMOVED, True, True),
    ],
)
def test_dead_is_what_its_deletion_says_cannot_come_back(state: str | None, closed: bool, dead: bool) -> None:
    topic = Uuid.random()
    records: dict[Uuid, Any] = {} if state is None else {topic: SimpleNamespace(state=state, closed=closed)}
    nothing: Any = None
    assert CachedTopics(nothing, deletions=lambda: records).is_dead(topic) is dead


async def test_a_group_that_is_made_anew_gets_states_whatever_one_before_has_left() -> None:
    """A replaced coordinator has requested a state. The state is created after the group was deleted, under an epoch
    far above that of the new group with the same id."""
    world, states, topic = await new_world()
    for _ in range(4):
        await joined(world, "a")
        await beat(world, "a", LEAVES)
    await joined(world, "a")
    states.hold = True
    world.topics.grow("orders", 4)
    await beat(world, "a", group(world).members["a"].epoch)
    asked_under = group(world).epoch
    await beat(world, "a", LEAVES)
    states.hold = False
    await world.restart()
    assert await coordination(world).delete_group(G) is ErrorCode.NONE
    assert not states.kept
    states.release()
    await world.settle()
    assert {key.partition: state.state_epoch for key, state in states.kept.items()} == {2: asked_under, 3: asked_under}

    assert await joined(world, "b") == {(topic, partition) for partition in range(4)}
    assert {state.start_offset for state in states.kept.values()} == {NO_OFFSET}


async def test_a_member_that_joins_while_states_are_deleted_reads_from_the_beginning() -> None:
    world, states, topic = await new_world()
    await joined(world, "a")
    await beat(world, "a", LEAVES)
    states.hold = True
    deleted = world.loop.create_task(coordination(world).delete_group(G))
    await world.settle()
    with pytest.raises(KafkaError) as early:
        await coordination(world).alter(G, {topic: {0: 5}})
    assert early.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await beat(world, "b")).assigned == frozenset(), "nothing that is about to go"
    states.release()
    await world.settle()
    assert deleted.done()
    with pytest.raises(KafkaError) as refused:
        await deleted
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    assert await joined(world, "b") == {(topic, 0), (topic, 1)}
    assert states.kept.keys() == {Key(G, topic, 0), Key(G, topic, 1)}
