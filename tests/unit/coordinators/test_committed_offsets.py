"""Committed offsets: which are accepted, which survive a restart, and their removal with topic, group or retention."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.broker.coordinators.group.classic_group import ClassicGroupState, JoinResult
from pybroker.broker.coordinators.group.deadlines import BoundedCallback, Deadlines
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC
from pybroker.broker.coordinators.group.records import (
    GroupKey,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_offset_value,
    encode_offset,
    encode_offset_key,
)
from pybroker.broker.coordinators.group_base.requests import CommitItem, CommitRequest
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import World, answered, join_request, read, subscription

G = "readers"
DAY_MS = 24 * 3600 * 1000


def request(
    *offsets: tuple[int, int],
    topic: str = "orders",
    member: JoinResult | None = None,
    epoch: int = 3,
    **changes: Any,
) -> CommitRequest:
    fields: dict[str, Any] = {
        "group_id": G,
        "member_id": member.member_id if member else "",
        "instance_id": None,
        "generation": member.generation if member else -1,
        "items": tuple(CommitItem(topic, None, p, o, epoch, f"at {o}") for p, o in offsets),
    }
    return CommitRequest(**(fields | changes))


async def commit(world: World, *offsets: tuple[int, int], **changes: Any) -> list[ErrorCode]:
    outcome = world.groups.commit(request(*offsets, **changes))
    await world.settle()
    return list(await answered(outcome))


def committed(world: World, partition: int = 0, topic: str = "orders", group: str = G) -> int | None:
    topic_id = world.topics.topic_id(topic)
    assert topic_id is not None
    (found,) = world.groups.fetch(group, [(topic_id, partition)])
    return None if found is None else found.offset


async def orders() -> World:
    world = World()
    world.topics.create("orders")
    return world


async def test_a_consumer_outside_any_group_commits() -> None:
    world = await orders()
    assert await commit(world, (0, 5), (1, 7)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert (committed(world, 0), committed(world, 1), committed(world, 2)) == (5, 7, None)
    group = world.classic(G)
    assert group is not None
    assert (group.state, group.protocol_type) == (ClassicGroupState.EMPTY, None)
    await world.restart()
    assert (committed(world, 0), committed(world, 1)) == (5, 7)
    assert world.classic(G) is not None


async def test_a_commit_counts_only_when_it_is_on_disk() -> None:
    world = await orders()
    world.log.hold = True
    outcome = world.groups.commit(request((0, 5)))
    await world.settle()
    assert isinstance(outcome, asyncio.Future)
    assert not outcome.done()
    assert committed(world) is None
    world.log.release()
    await world.settle()
    assert outcome.result() == [ErrorCode.NONE]
    assert committed(world) == 5


async def test_commits_of_one_turn_are_one_batch_in_order() -> None:
    world = await orders()
    outcomes = [world.groups.commit(request((0, i), group_id=f"g{i % 3}")) for i in range(30)]
    await world.settle()
    assert [await answered(o) for o in outcomes] == [[ErrorCode.NONE]] * 30
    assert world.log.batches <= 3
    assert [committed(world, group=f"g{i}") for i in range(3)] == [27, 28, 29]


async def test_a_commit_that_fails_changes_nothing() -> None:
    world = await orders()
    await commit(world, (0, 1))
    for refusal, answer in (
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ):
        world.log.refuse = refusal
        assert await commit(world, (0, 2)) == [answer]
    world.log.refuse = 0
    assert committed(world) == 1


async def test_a_commit_that_takes_too_long_is_given_up() -> None:
    world = await orders()
    world.config["offsets.commit.timeout.ms"] = 1
    world.log.hold = True
    outcome = world.groups.commit(request((0, 5), (1, 5)))
    assert isinstance(outcome, asyncio.Future)
    assert await asyncio.wait_for(outcome, 60) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    world.log.release()
    await world.settle()
    assert committed(world) == 5


async def test_one_timer_gives_up_each_commit_in_its_time() -> None:
    loop = asyncio.get_running_loop()
    deadlines, told = Deadlines(loop), []

    def waits(name: str, timeout_ms: int) -> BoundedCallback:
        one = BoundedCallback(lambda codes: told.append((name, codes)), 1)
        deadlines.add(one, timeout_ms)
        return one

    waits("a", 1)
    answered = waits("b", 1)
    answered([ErrorCode.NONE])
    waits("c", 30)
    waits("d", 600_000)
    async with asyncio.timeout(60):
        while len(told) < 3:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.001)
    unknown = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert told == [("b", [ErrorCode.NONE]), ("a", unknown), ("c", unknown)]
    assert len(deadlines) == 1
    last = waits("e", 1)
    last([ErrorCode.NONE])
    deadlines._waiting[0][1]([ErrorCode.NONE])
    waits("f", 1)
    assert len(deadlines) == 1, "who has been answered leaves from the front"


async def test_what_does_not_exist_or_is_too_long() -> None:
    world = await orders()
    assert await commit(world, (0, 1), topic="no-such") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await commit(world, (4, 1), (-1, 1), (3, 1)) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    long = CommitItem("orders", None, 0, 1, -1, "x" * 4_097)
    assert await commit(world, items=(long,)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


async def test_members_commit_for_their_generation_only() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    assert await commit(world, (0, 1), member=leader) == [ErrorCode.NONE]
    for changes, code in (
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "no-such"}, ErrorCode.ILLEGAL_GENERATION),
        (
            {"group_id": "no-such", "knows_member_epochs": True},
            ErrorCode.GROUP_ID_NOT_FOUND,
        ),
    ):
        with pytest.raises(KafkaError) as caught:
            world.groups.commit(request((0, 1), member=leader, **changes))
        assert caught.value.code == code
    assert world.classic("no-such") is None


async def test_commits_during_a_round() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    await world.enter(G)
    assert await commit(world, (0, 1), member=leader) == [ErrorCode.NONE]
    again = await world.ask_join(G, leader.member_id)
    joined = await answered(again)
    with pytest.raises(KafkaError) as caught:
        world.groups.commit(request((0, 1), member=joined))
    assert caught.value.code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_commit_keeps_a_session() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    for offset in range(4):
        await world.pass_time(6_000)
        assert await commit(world, (0, offset), member=leader) == [ErrorCode.NONE]
    assert world.beat(G, leader) == ErrorCode.NONE


# --- incarnations of a topic ------------------------------------------------------------------------------------------


async def test_offsets_go_with_their_topic_and_do_not_come_back() -> None:
    world = await orders()
    world.topics.create("other")
    await commit(world, (0, 5))
    await commit(world, (0, 6), topic="other")
    world.remove_topic("orders")
    world.topics.create("orders")
    assert committed(world) is None
    assert committed(world, topic="other") == 6
    await world.settle()
    assert world.log.records[-1] == (encode_offset_key(OffsetKey(G, "orders", 0)), None)
    await world.restart()
    assert committed(world) is None
    assert committed(world, topic="other") == 6


async def test_an_offset_whose_tombstone_was_never_written_stays_hidden() -> None:
    world = await orders()
    await commit(world, (0, 5))
    world.topics.remove("orders")  # the broker dies before the coordinator gets the completion
    world.topics.create("orders")
    await world.restart()
    assert committed(world) is None


async def test_a_commit_in_flight_dies_with_its_topic() -> None:
    world = await orders()
    world.log.hold = True
    outcome = world.groups.commit(request((0, 5)))
    await world.settle()
    world.remove_topic("orders")
    world.topics.create("orders")
    world.log.release()
    await world.settle()
    assert await answered(outcome) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert committed(world) is None
    assert world.log.records[-1] == (encode_offset_key(OffsetKey(G, "orders", 0)), None)
    assert await commit(world, (0, 1)) == [ErrorCode.NONE]
    await world.restart()
    assert committed(world) == 1


@pytest.mark.parametrize("lacking", [False, True])
async def test_a_commit_in_flight_fails_if_its_topic_is_removed_and_comes_back(lacking: bool) -> None:
    """A member is told that its commit succeeded only if an undelete would restore it. `lacking`: the deletion record
    has no offsets, because the coordinator answered the write fence too late."""
    world = await orders()
    assert await commit(world, (0, 5)) == [ErrorCode.NONE]
    topic_id = world.topics.topic_id("orders")
    assert topic_id is not None
    record = world.groups.committed_for(topic_id)
    world.lacking = lacking
    world.log.hold = True
    outcome = world.groups.commit(request((0, 9)))
    pending = world.groups.commit(request((1, 9), producer=(7, 0)))
    await world.settle()
    world.remove_topic("orders")
    world.topics.undelete("orders", topic_id)
    world.groups.give_back(topic_id, "orders", record)
    world.log.release()
    await world.settle()
    assert await answered(outcome) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await answered(pending) == [ErrorCode.NONE], "it is in the log, and its transaction is open"
    for kept in world.kept:
        kept(False)
    await world.settle()
    assert committed(world) == 5
    await world.restart()
    assert committed(world) == 5


async def test_a_generation_from_before_cannot_commit_for_the_new_incarnation() -> None:
    world = await orders()
    world.topics.create("other")
    (leader,) = await world.stable(G, protocols=(("range", subscription("orders", "other")),))
    await commit(world, (0, 500), member=leader)
    world.remove_topic("orders")
    assert await commit(world, (0, 501), member=leader) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.topics.create("orders")
    items = (CommitItem("orders", None, 0, 501, -1, None), CommitItem("other", None, 0, 3, -1, None))
    assert await commit(world, member=leader, items=items) == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE]
    assert committed(world) is None
    assert committed(world, topic="other") == 3
    # The response is correct: a rebalance runs, and members of the generation that it forms may commit.
    assert world.beat(G, leader) == ErrorCode.REBALANCE_IN_PROGRESS
    again = await world.ask_join(G, leader.member_id)
    joined = await answered(again)
    world.ask_sync(G, joined)
    await world.settle()
    assert await commit(world, (0, 1), member=joined) == [ErrorCode.NONE]
    assert committed(world) == 1


async def test_that_holds_after_a_restart_of_the_broker() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    world.topics.remove("orders")
    world.topics.create("orders")
    await world.restart()
    assert await commit(world, (0, 501), member=leader, epoch=-1) == [ErrorCode.REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(("age_ms", "code"), [(600_000, ErrorCode.NONE), (0, ErrorCode.REBALANCE_IN_PROGRESS)])
async def test_after_a_restart_times_tell_which_incarnation_a_generation_read(age_ms: int, code: ErrorCode) -> None:
    """If the timestamps do not decide it, the generation read an earlier incarnation."""
    world = await orders()
    world.remove_topic("orders")
    topic = world.topics.create("orders")
    world.topics.since[topic] = world.clock.wall_ms() - age_ms
    (leader,) = await world.stable(G)
    await world.restart()
    assert await commit(world, (0, 501), member=leader, epoch=-1) == [code]


async def test_that_holds_for_members_whose_subscription_cannot_be_read() -> None:
    world = await orders()
    (leader,) = await world.stable(G, protocol_type="connect", protocols=(("p", b"opaque"),))
    world.remove_topic("orders")
    world.topics.create("orders")
    assert await commit(world, (0, 501), member=leader, epoch=-1) == [ErrorCode.REBALANCE_IN_PROGRESS]


async def test_a_generation_from_between_deletion_and_creation_cannot_commit_either() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    world.remove_topic("orders")
    again = await world.ask_join(G, leader.member_id)
    joined = await answered(again)
    world.ask_sync(G, joined)
    await world.settle()
    world.topics.create("orders")
    assert await commit(world, (0, 501), member=joined, epoch=-1) == [ErrorCode.REBALANCE_IN_PROGRESS]
    again = await world.ask_join(G, leader.member_id)
    joined = await answered(again)
    world.ask_sync(G, joined)
    await world.settle()
    assert await commit(world, (0, 1), member=joined) == [ErrorCode.NONE]


async def test_a_topic_that_is_new_altogether_is_nobodys_past() -> None:
    world = await orders()
    (leader,) = await world.stable(G, protocols=(("range", subscription("orders", "fresh")),))
    world.topics.create("fresh")
    assert await commit(world, (0, 1), topic="fresh", member=leader) == [ErrorCode.NONE]


async def test_by_id_an_incarnation_that_is_gone_is_unknown() -> None:
    world = await orders()
    old = world.topics.topic_id("orders")
    assert old is not None
    world.remove_topic("orders")
    new = world.topics.create("orders")
    items = (CommitItem(None, old, 0, 9, -1, None), CommitItem(None, new, 0, 2, -1, None))
    assert await commit(world, items=items) == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NONE]
    assert committed(world) == 2
    key, value = world.log.records[-1]
    assert key is not None
    assert value is not None
    assert decode_key(key) == OffsetKey(G, "orders", 0)
    assert decode_offset_value(value).topic_id == new


async def test_offsets_that_kafka_stored_without_id_belong_to_the_present_name() -> None:
    world = await orders()
    await commit(world, (0, 1))
    partition = next(iter(world.log.partitions))
    value = bytes.fromhex("0003000000000000002a0000000500036dc3bc0000018bcfe56800")
    world.log.partitions[partition].append((1, 0, encode_offset_key(OffsetKey(G, "orders", 1)), value))
    world.log.partitions[partition].append((2, 0, b"\x00\x01junk", b"junk"))
    world.log.partitions[partition].append((3, 0, None, b"junk"))
    world.log.partitions[partition].append((4, 0, encode_offset_key(OffsetKey(G, "gone", 1)), value))
    await world.restart()
    assert (committed(world, 0), committed(world, 1)) == (1, 42)


async def test_offsets_of_a_topic_are_there_for_its_deletion_record() -> None:
    world = await orders()
    await commit(world, (0, 5), (2, 6))
    topic_id = world.topics.topic_id("orders")
    assert topic_id is not None
    kept = {(g, p): o.offset for g, p, o in world.groups.offsets_of_topic(topic_id)}
    assert kept == {(G, 0): 5, (G, 2): 6}


def late_values(world: World) -> list[list[tuple[str, int, int]]]:
    return [[(one["group"], one["partition"], one["offset"]) for one in late] for _, late in world.late_offsets]


@pytest.mark.parametrize("dies", [False, True])
async def test_offsets_that_no_record_has_stay_in_the_log_until_it_has_them(dies: bool) -> None:
    """Until then, no commit to the next topic with that name replaces them."""
    world = await orders()
    await commit(world, (0, 5), (2, 6))
    world.lacking = True
    world.remove_topic("orders")
    await world.settle()
    world.topics.create("orders")
    if dies:
        world.kept.clear()
        await world.restart()
    expected = [(G, 0, 5), (G, 2, 6)]
    assert late_values(world) == [expected] * (2 if dies else 1)
    assert committed(world) is None
    assert await commit(world, (0, 1), (1, 1)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    (kept,) = world.kept
    kept(False)
    await world.settle()
    assert await commit(world, (0, 2)) == [ErrorCode.NONE]
    world.late_offsets.clear()
    await world.restart()
    assert committed(world) == 2
    assert late_values(world) == [], "their tombstones are written"


async def test_a_returned_offset_outlives_the_tombstone_of_the_late_one() -> None:
    world = await orders()
    await commit(world, (0, 5))
    world.lacking = True
    world.remove_topic("orders")
    again = world.topics.create("orders")
    ((_, late),) = world.late_offsets
    world.groups.give_back(again, "orders", late)
    await world.settle()
    (kept,) = world.kept
    kept(False)
    await world.settle()
    await world.restart()
    assert committed(world) == 5


# --- deletion ---------------------------------------------------------------------------------------------------------


async def test_offset_delete_spares_what_is_subscribed() -> None:
    world = await orders()
    world.topics.create("other")
    (leader,) = await world.stable(G)
    await commit(world, (0, 5), member=leader)
    await commit(world, (0, 6), topic="other", member=leader)
    outcome = world.groups.delete_offsets(G, [("orders", 0), ("other", 0), ("other", 1), ("no-such", 0)])
    await world.settle()
    assert await answered(outcome) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert committed(world, topic="other") is None
    await world.restart()
    assert (committed(world), committed(world, topic="other")) == (5, None)


@pytest.mark.parametrize("refused", [0, 56])
async def test_an_offset_is_gone_when_its_tombstone_is_on_disk_and_not_before(refused: int) -> None:
    world = await orders()
    await commit(world, (0, 5), (1, 6))
    world.log.refuse, world.log.hold = refused, True
    outcome = world.groups.delete_offsets(G, [("orders", 0)])
    assert committed(world) == 5
    if refused:
        await world.settle()
        assert await answered(outcome) != [ErrorCode.NONE]
        world.log.refuse = 0
    else:
        await world.settle()
        assert committed(world) == 5
        world.log.release()
        await world.settle()
        assert await answered(outcome) == [ErrorCode.NONE]
    world.log.release()
    expected = 5 if refused else None
    assert committed(world) == expected
    await world.restart()
    assert committed(world) == expected


async def test_offset_delete_refusals() -> None:
    world = await orders()
    for group, code in (("no-such", ErrorCode.GROUP_ID_NOT_FOUND), ("workers", ErrorCode.NON_EMPTY_GROUP)):
        if group == "workers":
            await world.stable(group, protocol_type="connect", protocols=(("p", b""),))
        with pytest.raises(KafkaError) as caught:
            world.groups.delete_offsets(group, [("orders", 0)])
        assert caught.value.code == code


async def test_deleting_a_group() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    await commit(world, (0, 5), member=leader)
    with pytest.raises(KafkaError) as caught:
        world.groups.delete_group(G)
    assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    world.leave(G, leader.member_id)
    await world.settle()
    outcome = world.groups.delete_group(G)
    await world.settle()
    assert await answered(outcome) is ErrorCode.NONE
    assert committed(world) is None
    with pytest.raises(KafkaError) as caught:
        world.groups.delete_group(G)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    await world.restart()
    assert world.classic(G) is None
    assert committed(world) is None


async def test_a_commit_in_flight_does_not_revive_a_deleted_group() -> None:
    world = await orders()
    world.log.hold = True
    first = world.groups.commit(request((0, 5)))
    await world.settle()
    deleted = world.groups.delete_group(G)
    await world.settle()
    world.log.release()
    await world.settle()
    assert (await answered(first), await answered(deleted)) == ([ErrorCode.NONE], ErrorCode.NONE)
    assert committed(world) is None
    await world.restart()
    assert committed(world) is None
    assert world.classic(G) is None


# --- retention (KIP-211) ----------------------------------------------------------------------------------------------


async def check_retention(world: World, days: int) -> None:
    world.clock.advance(days * DAY_MS)
    world.groups._driver.wheel.advance()
    await world.settle()


async def test_simple_commits_expire_by_their_own_time() -> None:
    world = await orders()
    await commit(world, (0, 1))
    await check_retention(world, 6)
    await commit(world, (1, 1))
    await check_retention(world, 2)
    assert (committed(world, 0), committed(world, 1)) == (None, 1)
    await check_retention(world, 6)
    assert world.classic(G) is None
    await world.restart()
    assert world.classic(G) is None


async def test_an_empty_group_keeps_offsets_since_it_became_empty() -> None:
    world = await orders()
    (leader,) = await world.stable(G, session_timeout_ms=1_800_000)
    await commit(world, (0, 1), member=leader)
    world.clock._wall_ms += 30 * DAY_MS
    world.leave(G, leader.member_id)
    await world.settle()
    await check_retention(world, 6)
    assert committed(world) == 1
    await check_retention(world, 2)
    assert world.classic(G) is None
    key, value = world.log.records[-1]
    assert key is not None
    assert isinstance(decode_key(key), GroupKey)
    assert value is None


async def test_a_stable_group_loses_only_what_it_does_not_read() -> None:
    world = await orders()
    world.topics.create("other")
    (leader,) = await world.stable(G)
    await commit(world, (0, 1), member=leader)
    await commit(world, (0, 1), topic="other", member=leader)
    for _ in range(250):
        world.clock.jump(DAY_MS // 20)
        assert world.beat(G, leader) == ErrorCode.NONE
        await world.pass_time(5_000)
    assert (committed(world), committed(world, topic="other")) == (1, None)


async def test_a_retention_of_the_clients_own() -> None:
    world = await orders()
    await commit(world, (0, 1), retention_ms=DAY_MS)
    await world.restart()
    await check_retention(world, 2)
    assert world.classic(G) is None


async def test_a_group_with_an_id_on_offer_is_not_unused() -> None:
    world = await orders()
    world.config["offsets.retention.check.interval.ms"] = 1
    await world.restart()
    first = world.groups.join(G, join_request())
    assert isinstance(first, JoinResult)
    await world.pass_time(2_000)
    assert not isinstance(world.groups.join(G, join_request(first.member_id)), JoinResult)


# --- loading ----------------------------------------------------------------------------------------------------------


async def test_groups_are_not_served_while_they_load() -> None:
    world = await orders()
    await commit(world, (0, 1))
    world.start()
    with pytest.raises(KafkaError) as caught:
        committed(world)
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.groups.list_groups()[1]
    await world.groups.loaded()
    assert committed(world) == 1
    assert not world.groups.list_groups()[1]


async def test_a_shard_that_cannot_be_read_is_tried_again() -> None:
    world = await orders()
    await commit(world, (0, 1))
    reads, world.log.read_records = world.log.read_records, lambda *_: 1 // 0  # type: ignore[method-assign, assignment]  # a log that fails
    await world.restart()
    with pytest.raises(KafkaError) as caught:
        committed(world)
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.read_records = reads  # type: ignore[method-assign]  # and works again
    await world.pass_time(6_000)
    await world.groups.loaded()
    assert committed(world) == 1


async def test_a_shard_moves_to_another_broker() -> None:
    world = await orders()
    (leader,) = await world.stable(G)
    await commit(world, (0, 1), member=leader)
    partition = next(iter(world.log.partitions))
    _, parked = await world.enter(G)
    world.topics.lead(OFFSETS_TOPIC, partition, 2, 1)
    assert parked.result().error == ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError) as caught:
        committed(world)
    assert caught.value.code == ErrorCode.NOT_COORDINATOR
    assert await world.groups.find(G, "PLAINTEXT") == (2, "localhost", 9092)
    world.topics.lead(OFFSETS_TOPIC, partition, 1, 2)
    await world.groups.loaded()
    assert committed(world) == 1
    assert world.beat(G, leader) == ErrorCode.NONE
    await commit(world, (0, 2), member=leader)
    assert (world.log.epochs[0], world.log.epochs[-1]) == (0, 2), "what is written goes out under the epoch of the load"


async def test_many_groups_load() -> None:
    world = await orders()
    topic_id = world.topics.topic_id("orders")
    stored = OffsetValue(7, 1, "", 1, None, topic_id)
    log = world.log.partitions.setdefault(0, [])
    for i in range(2_000):
        log.append((i, 0, *encode_offset(OffsetKey(f"g{i}", "orders", 0), stored)))
    world.log.read_records = lambda t, p, offset, n: read(log, 2_000) if offset == 0 and p == 0 else read([], offset)  # type: ignore[method-assign, assignment]  # all at once
    await world.restart()
    assert len(world.groups.list_groups()[0]) == 2_000


async def test_the_offsets_topic_is_made_when_it_is_first_needed() -> None:
    world = World()
    world.topics.remove("__consumer_offsets")
    world.start()
    with pytest.raises(KafkaError) as caught:
        world.classic(G)
    assert caught.value.code == ErrorCode.NOT_COORDINATOR
    found = await asyncio.gather(*(world.groups.find(G, "PLAINTEXT") for _ in range(5)))
    assert set(found) == {(1, "localhost", 9091)}
    assert world.classic(G) is None
