"""A consumer group gets a target assignment at most once in its assignment interval, and loses no change in between."""

from __future__ import annotations

from typing import Any

from pybroker.broker.coordinators.group.classic_group import JoinResult
from pybroker.broker.coordinators.group_base.epoch_group import LEAVES
from pybroker.broker.coordinators.group_base.requests import SyncRequest
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import World, answered, join_request, subscription
from tests.unit.coordinators.test_consumer_groups import G, beat, group, indexes, new_world

INTERVAL_MS = 1_000


async def world_with_one(**changes: Any) -> World:
    """Return a group whose only member has all four partitions; its target assignment was just made."""
    world = await new_world()
    world.config |= {"group.consumer.assignment.interval.ms": INTERVAL_MS, **changes}
    assert indexes(await beat(world, "a")) == [0, 1, 2, 3], "the first one waits for nothing"
    return world


def epochs(world: World) -> tuple[int, int]:
    return group(world).epoch, group(world).target_epoch


async def test_a_change_is_taken_up_when_the_interval_is_over_though_nobody_asks() -> None:
    world = await world_with_one()
    await world.pass_time(300)
    second = await beat(world, "b")
    assert (second.error, second.epoch, indexes(second)) == (ErrorCode.NONE, 2, [])
    assert second.interval_ms == 700, "it comes again when there is something to tell"
    assert (epochs(world), group(world).state) == ((3, 2), "Assigning")
    assert (await beat(world, "a", 2)).assigned is None
    await world.pass_time(690)
    assert (await beat(world, "b", 2)).epoch == 2
    assert epochs(world) == (3, 2)
    await world.pass_time(20)
    assert epochs(world) == (3, 3)
    told = await beat(world, "a", 2)
    await beat(world, "a", 2, owned=told.assigned)
    assert sorted(indexes(told) + indexes(await beat(world, "b", 2))) == [0, 1, 2, 3]
    assert len(world.groups._driver.wheel) == 3, "two sessions, and the expiry of offsets"


async def test_what_happens_within_the_interval_is_assigned_at_once() -> None:
    world = await world_with_one()
    for member in ("b", "c", "d"):
        await beat(world, member)
    await beat(world, "c", LEAVES)
    assert epochs(world) == (6, 2)
    before = world.groups._statistics.consumer_rebalances
    await world.pass_time(INTERVAL_MS)
    assert epochs(world) == (6, 6)
    assert world.groups._statistics.consumer_rebalances == before + 1
    assert {len(group(world).target_of(member)) for member in ("a", "b", "d")} == {1, 2}


async def test_a_group_that_has_rested_waits_for_nothing() -> None:
    world = await world_with_one()
    await world.pass_time(INTERVAL_MS)
    assert (await beat(world, "b")).epoch == 3
    await beat(world, "a", LEAVES)
    assert epochs(world) == (4, 3)
    await beat(world, "b", LEAVES)
    assert epochs(world) == (5, 5), "nobody is there who could wait"
    assert (await beat(world, "c")).epoch == 6


async def test_a_target_that_cannot_be_written_is_made_again() -> None:
    world = await world_with_one()
    await beat(world, "b")
    world.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    await world.pass_time(3_500)
    assert epochs(world) == (3, 2)
    world.log.refuse = 0
    await world.pass_time(1_000)
    assert epochs(world) == (3, 3)


async def test_a_coordinator_that_takes_over_goes_on_with_it() -> None:
    world = await world_with_one()
    await beat(world, "b")
    await world.restart()
    assert epochs(world) == (3, 2)
    assert (await beat(world, "a", 2)).epoch == 2
    await world.pass_time(INTERVAL_MS)
    assert epochs(world) == (3, 3)


async def test_an_interval_that_became_shorter_or_longer_holds() -> None:
    world = await world_with_one()
    await beat(world, "b")
    world.config["group.consumer.assignment.interval.ms"] = 3_000
    await world.pass_time(2_900)
    assert epochs(world) == (3, 2)
    world.config["group.consumer.assignment.interval.ms"] = 0
    await beat(world, "b", 2)
    assert epochs(world) == (3, 3)


def grow(world: World, partitions: int) -> None:
    world.topics.counts[world.topics.ids["orders"]] = partitions
    world.topics.changes += 1


async def test_topics_that_change_meanwhile_are_assigned_with_the_rest() -> None:
    world = await world_with_one()
    await beat(world, "b")
    grow(world, 6)
    await world.pass_time(INTERVAL_MS)
    assert epochs(world) == (3, 3)
    assert sum(len(group(world).target_of(member)) for member in ("a", "b")) == 6
    await beat(world, "a", 2)
    assert epochs(world) == (3, 3), "it is known already"


async def test_topics_that_change_later_are_not_overlooked() -> None:
    world = await world_with_one()
    await beat(world, "b")
    world.config["group.consumer.assignment.interval.ms"] = 0
    await beat(world, "b", 2)
    grow(world, 6)
    await world.pass_time(INTERVAL_MS)
    await beat(world, "a", 2)
    assert epochs(world) == (4, 4)


async def test_a_group_that_is_given_up_waits_for_nothing() -> None:
    world = await world_with_one()
    await beat(world, "b")
    timers = world.groups._driver.wheel
    assert ("next target", G) in timers
    await world.groups.stop()
    assert ("next target", G) not in timers


async def test_a_topic_that_is_not_subscribed_to_any_more_is_given_back_meanwhile() -> None:
    world = await new_world()
    world.config["group.consumer.assignment.interval.ms"] = INTERVAL_MS
    more = world.topics.create("more", 1)
    first = await beat(world, "a", topics=("more", "orders"))
    assert first.assigned is not None
    assert len(first.assigned) == 5
    told = await beat(world, "a", 2, topics=("orders",), owned=first.assigned)
    assert epochs(world) == (3, 2)
    assert told.assigned == {one for one in first.assigned if one[0] != more}
    await beat(world, "a", 2, owned=told.assigned)
    await world.pass_time(INTERVAL_MS)
    moved = await beat(world, "a", 2, owned=told.assigned)
    assert (moved.epoch, moved.assigned) == (3, None)


async def test_a_classic_member_joins_again_when_the_target_is_there() -> None:
    world = await world_with_one()
    joined = await answered(world.groups.join(G, join_request("", protocols=(("range", subscription("orders")),))))
    assert joined.error is ErrorCode.MEMBER_ID_REQUIRED
    outcome = world.groups.join(G, join_request(joined.member_id, protocols=(("range", subscription("orders")),)))
    await world.settle()
    joined = await answered(outcome)
    assert isinstance(joined, JoinResult)
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 2)
    sync = SyncRequest(joined.member_id, None, 2, "consumer", "range", ())
    assert (await answered(world.groups.sync(G, sync))).error is ErrorCode.NONE
    assert world.beat(G, joined) is ErrorCode.NONE, "nothing would come of it"
    await world.pass_time(INTERVAL_MS)
    assert epochs(world) == (3, 3)
    assert world.beat(G, joined) is ErrorCode.REBALANCE_IN_PROGRESS
    try:
        behind = (await answered(world.groups.sync(G, sync))).error
    except KafkaError as problem:
        behind = ErrorCode(problem.code)
    assert behind is ErrorCode.REBALANCE_IN_PROGRESS
