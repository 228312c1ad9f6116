"""Offset commits delegated to data threads: when the coordinator delegates them, how it takes over their results, and
when a lease ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pybroker.broker.coordinators.group.classic_group import JoinResult
from pybroker.broker.coordinators.group.offsets import CommittedOffset, Offsets
from pybroker.broker.coordinators.group.records import OffsetKey
from pybroker.broker.coordinators.group_base.requests import CommitItem, CommitRequest
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import World, answered

G = "readers"
TOPIC = Uuid.random()


@dataclass
class Commit:
    """A commit with the fields of `native.MemberCommit`."""

    partition: int
    offset: int
    log_offset: int
    group: str = G
    topic_id: Uuid = TOPIC
    topic: str = "orders"
    leader_epoch: int = 3
    metadata: str = "at"
    timestamp_ms: int = 1_000


@dataclass
class OfMembers:
    """The data threads as the coordinator sees them."""

    done: list[Commit] = field(default_factory=list)
    on_their_way: list[Commit] = field(default_factory=list)
    count: int = 0
    calls: list[str] = field(default_factory=list)

    def revoke_all(self) -> None:
        self.calls.append("take all back")

    def close(self) -> None:
        self.calls.append("close")

    def take(self) -> Any:
        self.calls.append("take")
        done, self.done = self.done, []
        return done

    def take_count(self) -> int:
        count, self.count = self.count, 0
        return count

    def in_flight(self) -> Any:
        self.calls.append("in flight")
        return self.on_their_way

    def drop_group(self, group: str) -> None:
        self.calls.append(f"drop {group}")

    def drop_topic(self, topic_id: Uuid) -> None:
        self.calls.append("drop topic")


STORED = CommittedOffset(7, 3, "at", 1_000, None, 11)


@pytest.mark.parametrize(
    ("look", "seen"),
    [
        (lambda offsets: offsets.get(G, TOPIC, 1), STORED),
        (lambda offsets: offsets.is_on_disk(G, TOPIC, 1), True),
        (lambda offsets: offsets.topics(G)[TOPIC].partitions, {1: STORED}),
        (lambda offsets: offsets.groups(), [G]),
        (len, 1),
        (lambda offsets: list(offsets.of_topic(TOPIC)), [(G, "orders", 1, STORED)]),
        (lambda offsets: offsets.keys_of_group(G), [(TOPIC, OffsetKey(G, "orders", 1))]),
        (lambda offsets: offsets.keys_of_topic(TOPIC), [OffsetKey(G, "orders", 1)]),
    ],
)
def test_whoever_looks_sees_what_data_threads_have_committed(look: Callable[[Offsets], Any], seen: object) -> None:
    assert look(Offsets(OfMembers([Commit(1, 7, 11)]))) == seen


def test_of_two_commits_the_later_record_counts() -> None:
    of_members = OfMembers([Commit(0, 5, 20)])
    offsets = Offsets(of_members)
    offsets.put(G, TOPIC, "orders", 0, CommittedOffset(9, -1, "", 1, None, 21))
    found = offsets.get(G, TOPIC, 0)
    assert found is not None
    assert found.offset == 9
    of_members.done = [Commit(0, 6, 22)]
    found = offsets.get(G, TOPIC, 0)
    assert found is not None
    assert found.offset == 6


def test_what_is_on_its_way_is_buried_and_does_not_come_back() -> None:
    on_their_way = [Commit(2, 7, 0), Commit(3, 7, 0, group="other"), Commit(4, 7, 0, G, Uuid.ZERO)]
    of_members = OfMembers(on_their_way=on_their_way)
    offsets = Offsets(of_members)
    assert offsets.topic_in_flight(TOPIC)
    assert offsets.has_commit_in_flight("other")
    assert not offsets.has_commit_in_flight("third")
    of_members.calls.clear()
    keys = offsets.keys_of_group(G)
    assert keys == [(TOPIC, OffsetKey(G, "orders", 2)), (Uuid.ZERO, OffsetKey(G, "orders", 4))]
    # The second read finds a commit that completes between the two reads.
    assert of_members.calls == ["take all back", "in flight", "take"]
    of_members.calls.clear()
    assert [key.group for key in offsets.keys_of_topic(TOPIC)] == [G, "other"]
    assert of_members.calls == ["take all back", "in flight", "take"]
    of_members.calls.clear()
    offsets.drop_group(G)
    offsets.drop_topic(TOPIC)
    assert of_members.calls == ["take", f"drop {G}", "take", "drop topic"]


class FakeLease:
    """A lease with the methods of `native.CommitLease`."""

    def __init__(self) -> None:
        self.valid = True

    def invalidate(self) -> None:
        self.valid = False

    def idle_ms(self) -> int:
        return 0


def request(member: JoinResult, topic: str = "orders", **changes: Any) -> CommitRequest:
    fields: dict[str, Any] = {
        "group_id": G,
        "member_id": member.member_id,
        "instance_id": None,
        "generation": member.generation,
        "items": (CommitItem(topic, None, 0, 5, -1, ""),),
    }
    return CommitRequest(**(fields | changes))


async def member_of(world: World) -> JoinResult:
    (member,) = await world.stable(G)
    return member


async def test_a_member_that_reads_what_it_is_assigned_commits_without_the_coordinator() -> None:
    world = World()
    topic_id = world.topics.create("orders", 6)
    member = await member_of(world)
    grant = world.groups.grant_commits(request(member))
    assert grant is not None
    (topic,) = grant.topics
    assert (topic.topic_id, topic.name, topic.partitions, topic.first_epoch) == (topic_id, "orders", 6, 0)
    assert (grant.metadata_bytes_max, grant.timeout_ms, grant.before) == (4_096, 5_000, None)
    assert grant.shard is world.groups.shard(G).commits_of_members
    fake = FakeLease()
    lease: Any = fake
    grant.on_granted(lease)
    again = world.groups.grant_commits(request(member))
    assert again is not None
    assert again.before is lease
    world.leave(G, member.member_id)
    assert not fake.valid


async def test_commits_are_not_left_to_data_threads_where_something_speaks_against_it() -> None:
    world = World()
    world.topics.create("orders")
    member = await member_of(world)

    def granted(**changes: Any) -> bool:
        return world.groups.grant_commits(request(member, **changes)) is not None

    assert granted()
    assert not granted(generation=-1, member_id="")
    assert not granted(generation=member.generation + 1)
    assert not granted(member_id="somebody")
    assert not granted(topic="no-such")
    assert not granted(group_id="no-such")
    assert not granted(producer=(1, 0))
    topic_id = world.topics.topic_id("orders")
    assert topic_id is not None
    await world.groups.hold_commits(topic_id)
    assert not granted(), "its topic is about to be deleted"
    world.groups.release_commits(topic_id)
    assert granted()
    # Writes that wait for the end of the loop's step must be in the log before writes of data threads.
    outcome = world.groups.commit(request(member))
    assert not granted()
    await world.settle()
    assert await answered(outcome) == [ErrorCode.NONE]
    assert granted()
    joining = await world.ask_join(G)
    again = await world.ask_join(G, joining.member_id)
    assert isinstance(again, asyncio.Future)
    assert not granted(), "the group is on its way to another generation"


async def test_whoever_writes_what_no_commit_may_undo_takes_all_rights_back_before() -> None:
    world = World()
    topic_id = world.topics.create("orders")
    member = await member_of(world)
    assert await answered_commit(world, member) == [ErrorCode.NONE]
    shard = world.groups.shard(G)
    of_members = OfMembers()
    shard.offsets._of_members = of_members

    async def takes_back(what: Callable[[], Any]) -> bool:
        of_members.calls.clear()
        outcome = what()
        if asyncio.iscoroutine(outcome):
            await outcome
        await world.settle()
        return of_members.calls[:1] == ["take all back"]

    kept = [{"group": G, "partition": 0, **fields()}]
    assert await takes_back(lambda: world.groups.hold_commits(topic_id))
    world.groups.release_commits(topic_id)
    assert await takes_back(lambda: world.groups.give_back(topic_id, "orders", kept))
    assert await takes_back(world.groups._check_retention), "offsets that expire are written"
    assert await takes_back(lambda: world.remove_topic("orders"))
    world.leave(G, member.member_id)
    await world.settle()
    assert await takes_back(lambda: world.groups.delete_group(G))
    of_members.calls.clear()
    shard.give_up(ErrorCode.NOT_COORDINATOR)
    assert of_members.calls[:1] == ["close"]


async def test_what_data_threads_commit_is_counted() -> None:
    world = World()
    world.topics.create("orders")
    member = await member_of(world)
    assert await answered_commit(world, member) == [ErrorCode.NONE]
    assert world.groups.statistics.offset_commits == 1
    shard = world.groups.shard(G)
    shard.offsets._of_members = OfMembers(count=3)
    assert world.groups.statistics.offset_commits == 4
    assert world.groups.statistics.offset_commits == 4
    shard.offsets._of_members = OfMembers(count=2)
    shard.give_up(ErrorCode.NOT_COORDINATOR)
    shard.offsets._of_members = OfMembers()
    assert world.groups.statistics.offset_commits == 6, "the shard goes, what it did stays counted"


async def answered_commit(world: World, member: JoinResult) -> list[ErrorCode]:
    outcome = world.groups.commit(request(member))
    await world.settle()
    return cast("list[ErrorCode]", await answered(outcome))


def fields() -> dict[str, object]:
    """Return a committed offset in the form of a deletion record."""
    return {
        "offset": 1,
        "leader_epoch": -1,
        "metadata": "",
        "commit_timestamp_ms": 1,
        "expire_timestamp_ms": None,
        "log_offset": -1,
    }
