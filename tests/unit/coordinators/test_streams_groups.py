"""Streams groups (KIP-1071) in the coordinator: responses to members, and effects of passing time."""

from __future__ import annotations

import asyncio

from pybroker.broker.coordinators.group_base.epoch_group import JOINS
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import StreamsHeartbeat, StreamsHeartbeatResult, Tasks
from pybroker.broker.coordinators.streams.topology import Subtopology, Topology
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import World, answered

G = "g"
SESSION_MS = 45_000
SETTINGS = {
    "group.streams.session.timeout.ms": SESSION_MS,
    "group.streams.heartbeat.interval.ms": 5_000,
    "group.streams.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.num.standby.replicas": 0,
    "group.streams.task.offset.interval.ms": 60_000,
    "group.streams.acceptable.recovery.lag": 10_000,
    "group.streams.rack.aware.assignment.tags": (),
    "group.streams.max.size": 100,
    "group.streams.max.standby.replicas": 2,
    "group.streams.min.task.offset.interval.ms": 0,
    **{
        f"group.streams.{bound}.{name}": value
        for bound, value in (("min", 0), ("max", 60_000))
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    },
}
TOPOLOGY = Topology(0, (Subtopology("0", sources=("orders",)),))


async def new_world() -> World:
    world = World()
    world.config |= SETTINGS
    world.topics.create("orders", 4)
    return world


def join(world: World, member: str) -> asyncio.Future[StreamsHeartbeatResult]:
    """Return the response, once the change is on disk."""
    answer: asyncio.Future[StreamsHeartbeatResult] = world.loop.create_future()
    beat = StreamsHeartbeat(
        member,
        JOINS,
        "client",
        "/host",
        rebalance_timeout_ms=60_000,
        topology=TOPOLOGY,
        owned=Tasks(),
        process_id=member,
    )
    world.groups.shard(G).heartbeat(GroupKind.STREAMS, G, beat, answer.set_result)
    return answer


def members(world: World) -> set[str]:
    return set(world.groups.describe(G, StreamsGroup).members)


async def test_a_member_that_comes_back_within_the_write_that_ends_its_session_has_another() -> None:
    world = await new_world()
    join(world, "a")
    await world.settle()
    world.log.hold = True
    join(world, "b")
    await world.pass_time(SESSION_MS + 1_000)
    back = join(world, "a")
    world.log.release()
    await world.settle()
    assert (await answered(back)).error is ErrorCode.NONE
    assert members(world) == {"a", "b"}
    await world.pass_time(SESSION_MS + 1_000)
    assert not members(world)
