"""Consumer groups of a coordinator (KIP-848) over a log in memory: responses, stored and loaded state, and changes of
the group's protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import ConsumerHeartbeat, ConsumerHeartbeatResult
from pybroker.broker.coordinators.group.classic_group import ClassicGroupState, JoinResult
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC
from pybroker.broker.coordinators.group_base.epoch_group import GOES_AWAY, JOINS, LEAVES
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.requests import CommitItem, CommitRequest, LeavingMember, SyncRequest
from pybroker.broker.requests.context import CommitGrant
from pybroker.errors import KafkaError
from pybroker.native import decode_data
from pybroker.protocol.error_codes import ErrorCode
from tests.support.fake_native import FakeAnswer
from tests.unit.coordinators.fakes import World, answered, join_request

G = "newer"


async def new_world(partitions: int = 4) -> World:
    world = World()
    world.topics.create("orders", partitions)
    return world


async def beat(world: World, member: str, epoch: int = JOINS, **changes: Any) -> ConsumerHeartbeatResult:
    """Return the response to a heartbeat; a joining heartbeat has all fields."""
    fields: dict[str, Any] = {"client_id": "client", "client_host": "/127.0.0.1"}
    if epoch == JOINS:
        fields |= {"rebalance_timeout_ms": 60_000, "topics": ("orders",), "owned": frozenset()}
    said = ConsumerHeartbeat(member, epoch, **(fields | changes))
    outcome = world.groups.member_heartbeat(GroupKind.CONSUMER, G, said)
    await world.settle()
    result = await answered(outcome)
    assert isinstance(result, ConsumerHeartbeatResult)
    return result


def indexes(result: ConsumerHeartbeatResult) -> list[int]:
    assert result.assigned is not None
    return sorted(index for _, index in result.assigned)


def group(world: World) -> ConsumerGroup:
    return world.groups.describe(G, ConsumerGroup)


async def commit(world: World, member: str, epoch: int, *partitions: int, by_id: bool = True) -> list[ErrorCode]:
    topic_id = world.topics.ids["orders"]
    items = tuple(
        CommitItem(None if by_id else "orders", topic_id if by_id else None, p, 5, -1, "") for p in partitions
    )
    outcome = world.groups.commit(CommitRequest(G, member, None, epoch, items, knows_member_epochs=True))
    await world.settle()
    codes = await answered(outcome)
    assert isinstance(codes, list)
    return codes


async def test_members_share_and_hand_over() -> None:
    world = await new_world()
    first = await beat(world, "a")
    assert (first.error, first.epoch, indexes(first)) == (ErrorCode.NONE, 2, [0, 1, 2, 3])
    second = await beat(world, "b")
    assert (second.epoch, indexes(second)) == (3, []), "the first has everything still"
    told = await beat(world, "a", 2)
    assert (told.epoch, len(indexes(told))) == (2, 2), "it is told to give two back, in its old epoch"
    assert (await beat(world, "b", 3)).assigned is None
    done = await beat(world, "a", 2, owned=told.assigned)
    assert (done.epoch, done.assigned) == (3, None)
    given = await beat(world, "b", 3)
    assert sorted(indexes(told) + indexes(given)) == [0, 1, 2, 3]
    assert group(world).state == "Stable"
    assert (await beat(world, "b", LEAVES)).epoch == LEAVES
    again = await beat(world, "a", 3)
    assert (again.epoch, indexes(again)) == (4, [0, 1, 2, 3])


async def test_commits_are_left_to_data_threads_while_nothing_happens_to_the_group() -> None:
    world = await new_world()
    await beat(world, "a")
    topic_id = world.topics.ids["orders"]

    def grant(epoch: int, version_9: bool = True) -> CommitGrant | None:
        items = (CommitItem(None, topic_id, 0, 5, -1, ""),)
        return world.groups.grant_commits(CommitRequest(G, "a", None, epoch, items, knows_member_epochs=version_9))

    given = grant(2)
    assert given is not None
    lease: Any = FakeAnswer(G)
    given.on_granted(lease)
    assert world.groups.cached_consumer_responses(G).session_left_ms("a", 45_000) == 0, "commits keep nobody alive"
    assert grant(1) is None
    assert grant(2, version_9=False) is None
    world.log.hold = True
    joined = world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("b"))
    assert lease.invalidated, "before anybody is told of it"
    await world.settle()
    assert grant(2) is None, "a change is being written"
    world.log.release()
    await world.settle()
    assert (await answered(joined)).epoch == 3
    again = grant(2)
    assert again is not None
    assert again.before is None
    # A member that has advanced commits for its earlier partitions: the coordinator checks each partition.
    told = await beat(world, "a", 2)
    await beat(world, "a", 2, owned=told.assigned)
    index = min(indexes(told))
    assert await commit(world, "a", 2, index) == [ErrorCode.NONE]
    items = (CommitItem(None, topic_id, index, 5, -1, ""),)
    assert world.groups.grant_commits(CommitRequest(G, "a", None, 2, items, knows_member_epochs=True)) is None


async def test_members_come_sooner_while_the_group_finds_its_way() -> None:
    world = await new_world()
    assert (await beat(world, "a")).interval_ms == 200, "somebody may join right behind it"
    await world.pass_time(5_000)
    assert (await beat(world, "a", 2)).interval_ms == 5_000
    assert (await beat(world, "b")).interval_ms == 200
    told = await beat(world, "a", 2)
    assert (len(indexes(told)), told.interval_ms) == (2, 200)
    await world.pass_time(5_000)
    assert (await beat(world, "b", 3)).interval_ms == 200, "it waits, however long that takes"
    await beat(world, "a", 2, owned=told.assigned)
    assert (await beat(world, "b", 3)).interval_ms == 5_000
    assert (await beat(world, "a", 3)).interval_ms == 5_000


async def test_a_large_group_does_not_come_all_at_once() -> None:
    world = await new_world()
    world.config["group.consumer.max.size"] = 10_000
    for number in range(1_000):
        world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining(f"m{number}"))
    await world.settle()
    assert (await beat(world, "one more")).interval_ms == 2_002
    world.config["group.consumer.rebalance.heartbeat.interval.ms"] = 60_000
    assert (await beat(world, "another")).interval_ms == 5_000, "never less often than otherwise"


async def test_what_is_answered_is_on_disk() -> None:
    world = await new_world()
    world.log.hold = True
    first = world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("a"))
    second = world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("b"))
    await world.settle()
    assert isinstance(first, asyncio.Future)
    assert isinstance(second, asyncio.Future)
    assert not first.done()
    assert not second.done()
    world.log.release()
    await world.settle()
    assert (await answered(first)).epoch == 2
    assert (await answered(second)).epoch == 3
    assert world.log.batches == 2


async def test_a_member_that_leaves_right_behind_its_heartbeat_leaves_nobody_without_an_answer() -> None:
    world = await new_world()
    await beat(world, "a")
    world.log.hold = True
    last, leaving = ConsumerHeartbeat("a", 2, "client", "/host"), ConsumerHeartbeat("a", LEAVES, "client", "/host")
    beats = [joining("b"), last, leaving, joining("c")]
    asked = [world.groups.member_heartbeat(GroupKind.CONSUMER, G, one) for one in beats]
    await world.settle()
    world.log.release()
    await world.settle()
    codes = [(await answered(one)).error for one in asked]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE]
    assert group(world).members.keys() == {"b", "c"}


async def test_a_member_that_leaves_and_comes_back_within_one_write_has_no_target_of_before_on_disk() -> None:
    world = await new_world()
    world.config["group.consumer.assignment.interval.ms"] = 1_000
    await beat(world, "a")
    world.log.hold = True
    beats = [joining("b"), ConsumerHeartbeat("a", LEAVES, "client", "/host"), joining("a")]
    asked = [world.groups.member_heartbeat(GroupKind.CONSUMER, G, one) for one in beats]
    await world.settle()
    world.log.release()
    await world.settle()
    assert [(await answered(one)).error for one in asked] == [ErrorCode.NONE] * 3
    assert group(world).target == {}
    await world.restart()
    assert group(world).target == {}


async def test_a_member_that_comes_back_within_the_write_that_ends_its_session_has_another() -> None:
    world = await new_world()
    await beat(world, "a")
    world.log.hold = True
    world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("b"))
    await world.pass_time(46_000)
    back = world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("a"))
    world.log.release()
    await world.settle()
    assert (await answered(back)).error is ErrorCode.NONE
    assert group(world).members.keys() == {"a", "b"}
    await world.pass_time(46_000)
    assert not group(world).members


def joining(member: str) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        member, JOINS, "client", "/host", rebalance_timeout_ms=60_000, topics=("orders",), owned=frozenset()
    )


async def test_members_that_come_at_once_cost_two_writes() -> None:
    world = await new_world(100)
    outcomes = [world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining(f"m{n}")) for n in range(50)]
    await world.settle()
    assert {(await answered(one)).error for one in outcomes} == {ErrorCode.NONE}
    assert world.log.batches == 2
    assert len(group(world).members) == 50


async def test_a_write_that_fails_changes_nothing_and_is_made_good() -> None:
    world = await new_world()
    assert (await beat(world, "a")).epoch == 2
    world.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await beat(world, "b")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(group(world).members) == ["a"]
    world.log.refuse = 0
    assert (await beat(world, "c")).error is ErrorCode.NONE
    written = [key for key, value in world.log.records if value is None and key is not None and key.endswith(b"b")]
    assert len(written) == 3, "what the failed write may have left of b"


async def test_members_go_on_over_a_death_of_the_coordinator() -> None:
    world = await new_world()
    for member in ("a", "b"):
        await beat(world, member)
    told = await beat(world, "a", 2)
    await beat(world, "a", 2, owned=told.assigned)
    given = await beat(world, "b", 3)
    before = group(world)
    await world.restart()
    after = group(world)
    assert after is not before
    assert (after.epoch, after.target_epoch, after.members) == (3, 3, before.members)
    for member in ("a", "b"):
        answer = await beat(world, member, 3)
        assert (answer.error, answer.epoch, answer.assigned) == (ErrorCode.NONE, 3, None)
    assert world.log.batches == len(world.log.epochs)
    assert after.target_of("b") == given.assigned
    # The sessions start again when the group is loaded.
    await world.pass_time(46_000)
    assert group(world).members == {}
    await world.restart()
    assert group(world).state == "Empty"


async def test_fencing_by_epoch() -> None:
    world = await new_world()
    await beat(world, "a")
    await beat(world, "b")
    for member, epoch, code in (
        ("a", 8, ErrorCode.FENCED_MEMBER_EPOCH),
        ("b", 2, ErrorCode.FENCED_MEMBER_EPOCH),
        ("nobody", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert (await beat(world, member, epoch)).error is code
    told = await beat(world, "a", 2)
    await beat(world, "a", 2, owned=told.assigned)
    # The response was lost; the member repeats its request.
    assert (await beat(world, "a", 2, owned=told.assigned)).epoch == 3
    assert (await beat(world, "a", 2)).error is ErrorCode.FENCED_MEMBER_EPOCH
    # A fenced member joins again with its id.
    back = await beat(world, "a")
    assert (back.epoch, back.assigned) == (3, told.assigned)


async def test_commits_and_fetches_are_fenced_by_epoch() -> None:
    world = await new_world()
    first = await beat(world, "a")
    assert first.epoch == 2
    assert await commit(world, "a", 2, 0, 1, 2, 3) == [ErrorCode.NONE] * 4
    await beat(world, "b")
    told = await beat(world, "a", 2)
    assert (await beat(world, "a", 2, owned=told.assigned)).epoch == 3
    kept = indexes(told)
    lost = sorted({0, 1, 2, 3} - set(kept))
    # A member can commit for a partition of its earlier epoch that it still has, not for one that it has lost.
    assert await commit(world, "a", 2, *kept) == [ErrorCode.NONE] * 2
    for member, epoch, partition, code in (
        ("a", 2, lost[0], ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, kept[0], ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, lost[0], ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, kept[0], ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, kept[0], ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as caught:
            await commit(world, member, epoch, partition)
        assert caught.value.code == code
    item = CommitItem("orders", None, kept[0], 5, -1, "")
    with pytest.raises(KafkaError) as caught:
        world.groups.commit(CommitRequest(G, "a", None, 4, (item,), producer=(7, 0), knows_member_epochs=True))
    assert caught.value.code == ErrorCode.ILLEGAL_GENERATION
    world.groups.check_fetch(G, "a", 3)
    world.groups.check_fetch(G, None, -1)
    for member, epoch, code in (("a", 2, ErrorCode.STALE_MEMBER_EPOCH), ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID)):
        with pytest.raises(KafkaError) as caught:
            world.groups.check_fetch(G, member, epoch)
        assert caught.value.code == code
    old = CommitRequest(G, "a", None, 3, (CommitItem("orders", None, kept[0], 5, -1, ""),))
    with pytest.raises(KafkaError) as caught:
        world.groups.commit(old)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_member_cannot_commit_by_name_for_the_next_topic_of_that_name() -> None:
    world = await new_world()
    await beat(world, "a")
    world.remove_topic("orders")
    world.topics.create("orders")
    assert await commit(world, "a", 2, 0, by_id=False) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    item = CommitItem("orders", None, 0, 5, -1, "")
    transactional = CommitRequest(G, "a", None, 2, (item,), producer=(7, 0), knows_member_epochs=True)
    assert await answered(world.groups.commit(transactional)) == [ErrorCode.ILLEGAL_GENERATION]
    # The member releases the old partitions and gets the new ones.
    told = await beat(world, "a", 2)
    assert told.assigned == frozenset()
    given = await beat(world, "a", 2, owned=frozenset())
    assert {topic for topic, _ in given.assigned or ()} == {world.topics.ids["orders"]}
    assert await commit(world, "a", given.epoch, 0, by_id=False) == [ErrorCode.NONE]


async def test_a_member_cannot_commit_by_name_for_an_undeleted_topic_that_it_never_had() -> None:
    """The first topic of the name owns leader epoch 0, and comes back after another one that the member reads."""
    world = await new_world()
    first = world.topics.ids["orders"]
    world.remove_topic("orders")
    world.topics.create("orders")
    given = await beat(world, "a")
    second = world.topics.ids["orders"]
    assert {topic for topic, _ in given.assigned or ()} == {second}
    world.remove_topic("orders")
    world.topics.undelete("orders", first)
    assert world.topics.owns_epoch(first, 0)
    assert await commit(world, "a", given.epoch, 0, by_id=False) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_member_commits_by_name_for_an_undeleted_topic_that_had_its_name_alone() -> None:
    world = await new_world()
    given = await beat(world, "a")
    topic_id = world.topics.ids["orders"]
    world.remove_topic("orders")
    world.topics.undelete("orders", topic_id)
    assert world.topics.had_name_alone(topic_id)
    assert await commit(world, "a", given.epoch, 0, by_id=False) == [ErrorCode.NONE]


async def test_static_members() -> None:
    world = await new_world()
    first = await beat(world, "a", instance_id="x")
    busy = await beat(world, "b", instance_id="x")
    assert busy.error is ErrorCode.UNRELEASED_INSTANCE_ID
    away = await beat(world, "a", GOES_AWAY, instance_id="x")
    assert (away.error, away.epoch) == (ErrorCode.NONE, GOES_AWAY)
    back = await beat(world, "b", instance_id="x")
    assert (back.error, back.epoch, back.assigned) == (ErrorCode.NONE, first.epoch, first.assigned)
    assert (await beat(world, "a", 2, instance_id="x")).error is ErrorCode.FENCED_INSTANCE_ID
    await world.restart()
    assert group(world).instances == {"x": "b"}
    # A static member that does not return is removed when its session ends.
    await beat(world, "b", GOES_AWAY, instance_id="x")
    await world.pass_time(46_000)
    assert group(world).members == {}


async def test_a_static_member_comes_back_with_what_its_expression_matches() -> None:
    """The member is the only one that uses the expression, which must not be forgotten when the member is replaced."""
    world = await new_world()
    said: dict[str, Any] = {"topics": None, "regex": "ord.*", "instance_id": "x"}
    first = await beat(world, "a", **said)
    assert indexes(first) == [0, 1, 2, 3]
    await beat(world, "a", GOES_AWAY, instance_id="x")
    back = await beat(world, "b", **said)
    assert (back.error, back.epoch, back.assigned) == (ErrorCode.NONE, first.epoch, first.assigned)
    await world.restart()
    assert group(world).subscribed == {"orders"}


async def test_partitions_that_are_not_given_back_are_taken() -> None:
    world = await new_world()
    await beat(world, "a", rebalance_timeout_ms=9_000)
    await beat(world, "b")
    await beat(world, "a", 2)
    for _ in range(2):
        await world.pass_time(5_000)
        await beat(world, "a", 2)
        await beat(world, "b", 3)
    assert list(group(world).members) == ["b"]
    await beat(world, "b", 3)
    assert len(group(world).members["b"].assigned) == 4


async def test_subscription_by_regular_expression() -> None:
    world = await new_world()
    world.topics.create("other", 1)
    answer = await beat(world, "a", topics=None, regex="ord.*")
    assert indexes(answer) == [0, 1, 2, 3]
    world.topics.create("ordinary", 2)
    grown = await beat(world, "a", 2)
    assert (grown.epoch, len(grown.assigned or ())) == (3, 6)
    for wrong in ("(", "a)|(b"):
        assert (await beat(world, "b", topics=None, regex=wrong)).error is ErrorCode.INVALID_REGULAR_EXPRESSION
    await world.restart()
    assert (await beat(world, "a", 3)).epoch == 3
    assert group(world).subscribed == {"orders", "ordinary"}


async def test_topics_that_grow_are_shared_out() -> None:
    world = await new_world(1)
    await beat(world, "a")
    world.topics.counts[world.topics.ids["orders"]] = 3
    world.topics.changes += 1
    assert indexes(await beat(world, "a", 2)) == [0, 1, 2]


async def test_one_id_has_one_protocol() -> None:
    world = await new_world()
    world.config["group.consumer.migration.policy"] = "disabled"
    await world.stable(G)
    with pytest.raises(KafkaError) as refused:
        await beat(world, "a")
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError):
        group(world)


async def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    world = await new_world()
    (joined,) = await world.stable(G)
    await commit(world, joined.member_id, joined.generation, 0)
    world.leave(G, joined.member_id)
    await world.settle()
    assert world.classic(G).state is ClassicGroupState.EMPTY  # type: ignore[union-attr]
    assert (await beat(world, "a")).error is ErrorCode.NONE
    assert world.classic(G) is None
    topic_id = world.topics.ids["orders"]
    assert world.groups.fetch(G, [(topic_id, 0)])[0] is not None
    await world.restart()
    assert world.classic(G) is None
    assert list(group(world).members) == ["a"]
    assert world.groups.fetch(G, [(topic_id, 0)])[0] is not None


async def test_a_classic_group_is_upgraded_and_returns() -> None:
    world = await new_world()
    joined, future = await world.enter(G)
    await world.pass_time(2_000)
    first = await answered(future)
    assignment = b"\x00\x01" + b"\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x04" + bytes.fromhex(
        "00000000000000010000000200000003") + b"\xff\xff\xff\xff"  # fmt: skip
    synced = world.ask_sync(G, first, {joined: assignment})
    await world.settle()
    assert (await answered(synced)).assignment == assignment

    newer = await beat(world, "n")
    assert (newer.error, newer.epoch, indexes(newer)) == (ErrorCode.NONE, 2, [])
    assert world.classic(G) is None
    assert world.beat(G, first) == ErrorCode.REBALANCE_IN_PROGRESS
    # An eager member has released all partitions when it joins again.
    again = await rejoin(world, joined)
    assert (again.error, again.generation, again.leader) == (ErrorCode.NONE, 2, "")
    mine = partitions_of(sync(world, again).assignment)
    theirs = indexes(await beat(world, "n", 2))
    assert sorted(mine + theirs) == [0, 1, 2, 3]
    assert len(mine) == 2
    assert world.groups.heartbeat(G, joined, None, 2) is ErrorCode.NONE
    await world.restart()
    assert world.groups.heartbeat(G, joined, None, 2) is ErrorCode.NONE

    # The last member with the consumer protocol leaves: the group is classic again, and its members rebalance.
    await beat(world, "n", LEAVES)
    await world.pass_time(1_000)
    classic = world.classic(G)
    assert classic is not None
    assert classic.state is ClassicGroupState.PREPARING_REBALANCE
    with pytest.raises(KafkaError):
        group(world)
    await world.restart()
    assert world.classic(G) is not None
    outcome = world.groups.join(G, join_request(joined))
    await world.pass_time(1_000)
    assert (await answered(outcome)).leader == joined


async def rejoin(world: World, member_id: str) -> JoinResult:
    outcome = world.groups.join(G, join_request(member_id))
    await world.settle()
    result = await answered(outcome)
    assert isinstance(result, JoinResult)
    return result


def sync(world: World, joined: JoinResult) -> Any:
    return world.groups.sync(
        G, SyncRequest(joined.member_id, None, joined.generation, "consumer", joined.protocol_name, ())
    )


def partitions_of(assignment: bytes) -> list[int]:
    content = decode_data("ConsumerProtocolAssignment", 1, assignment[2:])
    return [index for topic in content.assigned_partitions for index in topic.partitions]


async def test_classic_members_leave_a_consumer_group() -> None:
    world = await new_world()
    await beat(world, "n")
    first = world.groups.join(G, join_request(""))
    assert isinstance(first, JoinResult)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    again = await rejoin(world, first.member_id)
    assert again.error is ErrorCode.NONE
    outcome = world.groups.leave(G, [LeavingMember(first.member_id, None), LeavingMember("x", None)])
    await world.settle()
    assert await answered(outcome) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(group(world).members) == ["n"]


async def test_deleted_and_expired_groups() -> None:
    world = await new_world()
    await beat(world, "a")
    with pytest.raises(KafkaError) as caught:
        world.groups.delete_group(G)
    assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    await beat(world, "a", LEAVES)
    outcome = world.groups.delete_group(G)
    await world.settle()
    assert await answered(outcome) is ErrorCode.NONE
    await world.restart()
    with pytest.raises(KafkaError) as caught:
        group(world)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    # An empty group without offsets expires.
    await beat(world, "a")
    await beat(world, "a", LEAVES)
    world.clock.advance(600_000)
    await world.pass_time(1_000)
    with pytest.raises(KafkaError):
        group(world)


# --- cached responses -------------------------------------------------------------------------------------------------


async def at_rest(world: World) -> FakeAnswer:
    """Return a group of one member whose next heartbeats get the same response."""
    await beat(world, "a")
    assert not (await beat(world, "a", 2)).cacheable, "it comes sooner for a while"
    await world.pass_time(5_000)
    assert (await beat(world, "a", 2)).cacheable
    answer = FakeAnswer(G)
    world.groups.cached_consumer_responses(G).keep("a", answer)
    assert (await beat(world, "a", 2)).cacheable
    assert not answer.invalidated
    return answer


@pytest.mark.parametrize("what", ["another joins", "it joins again", "it leaves", "it tells something", "the end"])
async def test_cached_responses_are_invalidated_before_the_group_changes(what: str) -> None:
    world = await new_world()
    answer = await at_rest(world)
    world.log.hold = True
    match what:
        case "another joins":
            world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("b"))
        case "it joins again":
            world.groups.member_heartbeat(GroupKind.CONSUMER, G, joining("a"))
        case "it leaves":
            world.groups.member_heartbeat(GroupKind.CONSUMER, G, ConsumerHeartbeat("a", LEAVES, "client", "/h"))
        case "it tells something":
            changed = ConsumerHeartbeat("a", 2, "client", "/h", topics=("orders", "more"))
            world.groups.member_heartbeat(GroupKind.CONSUMER, G, changed)
        case _:
            world.topics.lead(OFFSETS_TOPIC, world.groups.shard(G).partition, 2, 1)
    assert answer.invalidated, "what is written of it is not on disk yet"


async def test_what_time_changes_is_not_repeated() -> None:
    world = await new_world()
    await beat(world, "a", topics=(), regex="ord.*")
    await world.pass_time(5_000)
    assert not (await beat(world, "a", 2)).cacheable, "what the expression matches is looked at again some time"


async def test_a_member_that_data_threads_hear_stays() -> None:
    world = await new_world()
    answer = await at_rest(world)
    session_ms = world.config["group.consumer.session.timeout.ms"]
    answer.heard_ms_ago = 10_000
    await world.pass_time(session_ms)
    assert list(group(world).members) == ["a"]
    await world.pass_time(session_ms - 11_000)
    assert list(group(world).members) == ["a"], "its session goes on from when it was heard"
    answer.heard_ms_ago = session_ms
    await world.pass_time(2_000)
    assert answer.invalidated
    assert not group(world).members
