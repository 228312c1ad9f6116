"""Share groups (KIP-932) in the coordinator: what becomes of the states of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pybroker.coordinators.group.share import ShareCoordination
from pybroker.coordinators.share.group import JOINS, LEAVES, ShareGroup
from pybroker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult
from pybroker.coordinators.share_state.state import NO_OFFSET, Key, ShareState
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import FakeStates, World, answered

G = "g"
SESSION_MS = 45_000
SETTINGS = {
    "group.share.session.timeout.ms": SESSION_MS,
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
    """Fences as a share coordinator does. `hold`: what is asked is done with `release`, whoever asked may be gone."""

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

        if not self.hold:
            work()
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append((work, done))
        await done

    def release(self) -> None:
        self.hold = False
        for work, done in self._held:
            work()
            if not done.done():
                done.set_result(None)


async def new_world() -> tuple[World, States, Uuid]:
    """With a topic of two partitions."""
    states = States()
    world = World(states=states)
    world.config |= SETTINGS
    return world, states, world.topics.create("orders", 2)


async def beat(world: World, member: str, epoch: int = JOINS) -> ShareHeartbeatResult:
    answer: asyncio.Future[ShareHeartbeatResult] = world.loop.create_future()
    topics = ("orders",) if epoch == JOINS else None
    world.groups.shard(G).shares.heartbeat(
        G, ShareHeartbeat(member, epoch, "client", "/host", topics=topics), answer.set_result
    )
    await world.settle()
    return answer.result()


def group(world: World) -> ShareGroup:
    found = world.groups.shard(G).shares.get(G)
    assert found is not None
    return found


async def joined(world: World, member: str) -> frozenset[tuple[Uuid, int]]:
    """Joins, and comes until nothing is to be done; what it was given at last."""
    answer = await beat(world, member)
    assert answer.error is ErrorCode.NONE, answer
    for _ in range(10):
        await world.pass_time(1_000)
        answer = await beat(world, member, group(world).members[member].epoch)
        assert answer.error is ErrorCode.NONE, answer
    return group(world).members[member].assigned


async def test_a_group_that_is_made_anew_gets_states_whatever_one_before_has_left() -> None:
    """A state that was asked for is made when its group is deleted already, under an epoch that the new group of that
    id is far from."""
    world, states, topic = await new_world()
    shares = ShareCoordination(world.groups, world.topics, states, world.loop)
    for _ in range(4):
        await joined(world, "a")
        await beat(world, "a", LEAVES)
    await joined(world, "a")
    states.hold = True
    world.topics.grow("orders", 4)
    await beat(world, "a", group(world).members["a"].epoch)
    asked_under = group(world).epoch
    await beat(world, "a", LEAVES)
    deleted = world.loop.create_task(shares.delete_group(G))
    await world.settle()
    assert await answered(deleted) is ErrorCode.NONE
    assert not states.kept
    states.release()
    await world.settle()
    assert {key.partition: state.state_epoch for key, state in states.kept.items()} == {2: asked_under, 3: asked_under}

    assert await joined(world, "b") == {(topic, partition) for partition in range(4)}
    assert {state.start_offset for state in states.kept.values()} == {NO_OFFSET}
