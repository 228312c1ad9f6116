"""Rebalances of classic groups; each test is one sequence of events."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.broker.coordinators.group.classic_group import ClassicGroupState, JoinResult
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC
from pybroker.broker.coordinators.group_base.requests import LeavingMember
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.support.fake_native import FakeAnswer
from tests.unit.coordinators.fakes import World, answered, join_request, subscription

G = "orders-readers"


def state(world: World, group: str = G) -> ClassicGroupState:
    found = world.classic(group)
    return ClassicGroupState.DEAD if found is None else found.state


async def test_one_member_becomes_stable_and_its_generation_is_on_disk() -> None:
    world = World()
    (leader,) = await world.stable(G)
    assert leader.generation == 1
    assert leader.protocol_name == "range"
    assert state(world) is ClassicGroupState.STABLE
    assert len(world.log.records) == 1


async def test_member_id_required_since_version_4() -> None:
    world = World()
    asked = await world.ask_join(G)
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    assert asked.member_id.startswith("client-")
    old = await world.ask_join("old", requires_known_member_id=False)
    await world.pass_time(2_000)
    assert (await answered(old)).error is ErrorCode.NONE


async def test_an_id_that_is_never_used_expires_and_takes_the_group_along() -> None:
    world = World()
    await world.ask_join(G)
    assert state(world) is ClassicGroupState.EMPTY
    await world.pass_time(11_000)
    assert state(world) is ClassicGroupState.DEAD
    assert not world.log.records


async def test_an_unused_id_holds_up_a_round_only_until_it_expires() -> None:
    world = World()
    (leader,) = await world.stable(G)
    await world.ask_join(G)
    again = await world.ask_join(G, leader.member_id)
    await world.pass_time(5_000)
    assert not again.done()
    await world.pass_time(6_000)
    assert (await answered(again)).generation == 2


async def test_the_initial_delay_gathers_members() -> None:
    world = World()
    world.config["group.initial.rebalance.delay.ms"] = 3_000
    _, first = await world.enter(G)
    await world.pass_time(2_000)
    _, second = await world.enter(G)
    await world.pass_time(2_000)
    assert not first.done()  # The second member has extended the delay.
    await world.pass_time(3_000)
    a, b = first.result(), second.result()
    assert a.generation == b.generation == 1
    assert {len(a.members), len(b.members)} == {0, 2}


async def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    world = World()
    world.config["group.initial.rebalance.delay.ms"] = 3_000
    _, first = await world.enter(G, rebalance_timeout_ms=7_000)
    for _ in range(10):
        await world.enter(G, rebalance_timeout_ms=7_000)
        await world.pass_time(1_000)
    assert first.done()


async def test_the_first_round_awaits_who_comes_back_with_an_id() -> None:
    """Clients that start together: the first member's rebalance would end without the others, which would then wait for
    its next heartbeat."""
    world = World()
    given = [await world.ask_join(G) for _ in range(3)]
    first = await world.ask_join(G, given[0].member_id)
    await world.pass_time(300)
    second = await world.ask_join(G, given[1].member_id)
    await world.pass_time(300)
    assert not first.done()
    third = await world.ask_join(G, given[2].member_id)
    assert [(await answered(one)).generation for one in (first, second, third)] == [1, 1, 1]


async def test_the_first_round_awaits_an_id_for_a_second() -> None:
    world = World()
    await world.ask_join(G)
    _, first = await world.enter(G)
    await world.pass_time(900)
    assert not first.done()
    await world.pass_time(2_000)
    assert (await answered(first)).generation == 1


async def test_a_second_member_starts_a_round() -> None:
    world = World()
    (leader,) = await world.stable(G)
    _, joining = await world.enter(G)
    assert world.beat(G, leader) == ErrorCode.REBALANCE_IN_PROGRESS
    again = await world.ask_join(G, leader.member_id)
    a, b = await answered(again), await answered(joining)
    assert a.generation == b.generation == 2
    assert a.leader == a.member_id == leader.member_id
    assert world.beat(G, leader) == ErrorCode.ILLEGAL_GENERATION
    follower = world.ask_sync(G, b)
    assert not follower.done()
    mine = world.ask_sync(G, a, {a.member_id: b"A", b.member_id: b"B"})
    await world.settle()
    assert [(await answered(x)).assignment for x in (mine, follower)] == [b"A", b"B"]


async def test_who_does_not_join_again_in_time_is_out() -> None:
    world = World()
    leader, slow = await world.stable(G, 2, session_timeout_ms=100_000, rebalance_timeout_ms=5_000)
    again = await world.ask_join(G, leader.member_id, session_timeout_ms=100_000, rebalance_timeout_ms=5_000)
    await world.pass_time(6_000)
    assert len((await answered(again)).members) == 1
    assert world.beat(G, slow) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_session_that_ends_starts_a_round_and_heartbeats_keep_it() -> None:
    world = World()
    leader, silent = await world.stable(G, 2)
    for _ in range(3):
        await world.pass_time(4_000)
        code = world.beat(G, leader)
    assert code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.beat(G, silent) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_without_a_sync_members_are_removed() -> None:
    world = World()
    _, waiting = await world.enter(G, rebalance_timeout_ms=8_000, session_timeout_ms=30_000)
    await world.pass_time(2_000)
    joined = await answered(waiting)
    await world.pass_time(9_000)
    assert world.beat(G, joined) == ErrorCode.UNKNOWN_MEMBER_ID
    assert state(world) is ClassicGroupState.EMPTY


async def test_the_vote_takes_what_all_support() -> None:
    world = World()
    meta = subscription("orders")
    _, a = await world.enter(G, protocols=(("sticky", meta), ("range", meta)))
    _, b = await world.enter(G, protocols=(("roundrobin", meta), ("range", meta), ("sticky", meta)))
    _, c = await world.enter(G, protocols=(("sticky", meta), ("range", meta)))
    await world.pass_time(2_000)
    assert {(await answered(x)).protocol_name for x in (a, b, c)} == {"sticky"}
    refused = await world.ask_join(G, protocols=(("roundrobin", meta),))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = await world.ask_join(G, protocol_type="connect")
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_joining_again_with_nothing_new_gives_a_follower_its_generation() -> None:
    world = World()
    leader, follower = await world.stable(G, 2)
    same = await world.ask_join(G, follower.member_id)
    assert same.generation == 1
    assert same.members == ()
    changed = await world.ask_join(G, follower.member_id, protocols=(("range", subscription("other")),))
    assert not isinstance(changed, JoinResult)
    assert world.beat(G, leader) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_sync_is_checked() -> None:
    world = World()
    (leader,) = await world.stable(G)
    assert (await answered(world.ask_sync(G, leader, generation=9))).error is ErrorCode.ILLEGAL_GENERATION
    assert (await answered(world.ask_sync(G, leader, protocol_name="x"))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await answered(world.ask_sync(G, leader, member_id="x"))).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await answered(world.ask_sync(G, leader))).assignment == leader.member_id.encode()
    with pytest.raises(KafkaError):
        world.ask_sync("no such group", leader)


async def test_an_assignment_that_cannot_be_stored_is_not_given_out() -> None:
    world = World()
    _, waiting = await world.enter(G)
    await world.pass_time(2_000)
    joined = await answered(waiting)
    world.log.refuse = ErrorCode.KAFKA_STORAGE_ERROR
    outcome = world.ask_sync(G, joined, {joined.member_id: b"A"})
    await world.settle()
    assert (await answered(outcome)).error is ErrorCode.NOT_COORDINATOR
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE


async def test_a_join_while_the_assignment_is_being_stored_wins() -> None:
    world = World()
    _, waiting = await world.enter(G)
    await world.pass_time(2_000)
    joined = await answered(waiting)
    world.log.hold = True
    outcome = world.ask_sync(G, joined, {joined.member_id: b"A"})
    await world.settle()
    await world.enter(G)
    assert (await answered(outcome)).error is ErrorCode.REBALANCE_IN_PROGRESS
    world.log.release()
    await world.settle()
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE


async def test_leaving() -> None:
    world = World()
    leader, follower = await world.stable(G, 2)
    assert world.leave(G, follower.member_id, "nobody") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.beat(G, leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.leave(G, leader.member_id) == [ErrorCode.NONE]
    await world.settle()
    assert state(world) is ClassicGroupState.EMPTY
    assert world.leave("no such group", "x") == [ErrorCode.UNKNOWN_MEMBER_ID]


async def test_leaving_while_a_join_is_parked_answers_it() -> None:
    world = World()
    world.config["group.initial.rebalance.delay.ms"] = 3_000
    member_id, waiting = await world.enter(G)
    assert world.leave(G, member_id) == [ErrorCode.NONE]
    assert (await answered(waiting)).error is ErrorCode.UNKNOWN_MEMBER_ID
    await world.pass_time(4_000)
    assert state(world) is ClassicGroupState.EMPTY


async def test_a_parked_join_survives_its_session_but_a_new_member_is_given_up_after_five_minutes() -> None:
    world = World()
    long = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 1_000_000}
    (leader,) = await world.stable(G, **long)
    _, parked = await world.enter(G)
    await world.pass_time(299_000)
    assert world.beat(G, leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert not parked.done()
    await world.pass_time(2_000)
    assert (await answered(parked)).error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_second_request_of_one_member_answers_the_first() -> None:
    world = World()
    leader, _ = await world.stable(G, 2)
    first = await world.ask_join(G, leader.member_id)
    second = await world.ask_join(G, leader.member_id)
    assert (await answered(first)).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done()


async def test_the_size_limit() -> None:
    world = World()
    world.config["group.max.size"] = 2
    await world.stable(G, 2)
    third = await world.ask_join(G)
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_session_timeouts_have_bounds_and_groups_names() -> None:
    world = World()
    refused: tuple[tuple[dict[str, Any], ErrorCode], ...] = (
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
    )
    for changes, code in refused:
        with pytest.raises(KafkaError) as caught:
            world.groups.join(G, join_request(**changes))
        assert caught.value.code == code
    for group_id in ("", "x" * 40_000):
        with pytest.raises(KafkaError) as caught:
            world.groups.join(group_id, join_request())
        assert caught.value.code == ErrorCode.INVALID_GROUP_ID
    with pytest.raises(KafkaError) as caught:
        world.groups.join(G, join_request("made-up"))
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID


# --- static members (KIP-345) -----------------------------------------------------------------------------------------


async def static(world: World, *instances: str, **changes: Any) -> dict[str, JoinResult]:
    """Return a stable group of static members."""
    waiting = {i: await world.ask_join(G, instance_id=i, **changes) for i in instances}
    await world.pass_time(2_000)
    joined = {i: await answered(w) for i, w in waiting.items()}
    for i, j in joined.items():
        world.ask_sync(G, j, {k.member_id: n.encode() for n, k in joined.items()}, instance_id=i)
    await world.settle()
    assert state(world) is ClassicGroupState.STABLE
    return joined


async def test_a_restarted_instance_gets_its_place_without_a_round() -> None:
    world = World()
    before = await static(world, "a", "b")
    outcome = await world.ask_join(G, instance_id="b")
    await world.settle()
    back = await answered(outcome)
    assert back.error is ErrorCode.NONE
    assert back.generation == 1
    assert back.member_id != before["b"].member_id
    got = await answered(world.ask_sync(G, back, instance_id="b"))
    assert got.assignment == b"b"
    assert world.beat(G, before["b"], "b") == ErrorCode.FENCED_INSTANCE_ID
    assert world.beat(G, before["a"], "a") == ErrorCode.NONE


async def test_a_restarted_leader_skips_the_assignment() -> None:
    world = World()
    before = await static(world, "a", "b")
    leading = next(i for i, j in before.items() if j.leader == j.member_id)
    outcome = await world.ask_join(G, instance_id=leading)
    await world.settle()
    back = await answered(outcome)
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2
    outcome = await world.ask_join(G, instance_id=leading, supports_skipping_assignment=False)
    await world.settle()
    old = await answered(outcome)
    assert not old.skip_assignment
    assert old.leader == back.member_id != old.member_id
    assert old.members == ()


async def test_an_instance_that_returns_during_a_round_fences_its_former_self() -> None:
    world = World()
    before = await static(world, "a", "b")
    parked = await world.ask_join(G, before["a"].member_id, instance_id="a", protocols=(("range", b"new"),))
    again = await world.ask_join(G, instance_id="a")
    assert (await answered(parked)).error is ErrorCode.FENCED_INSTANCE_ID
    await world.ask_join(G, before["b"].member_id, instance_id="b")
    assert (await answered(again)).generation == 2


async def test_an_instance_that_returns_before_the_assignment_starts_a_new_round() -> None:
    world = World()
    waiting = {i: await world.ask_join(G, instance_id=i) for i in "ab"}
    await world.pass_time(2_000)
    joined = {i: await answered(w) for i, w in waiting.items()}
    again = await world.ask_join(G, instance_id="b")
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE
    await world.ask_join(G, joined["a"].member_id, instance_id="a")
    assert (await answered(again)).generation == 2


async def test_static_members_stay_while_their_session_runs() -> None:
    world = World()
    before = await static(world, "a", "b", session_timeout_ms=30_000, rebalance_timeout_ms=6_000)
    a = await world.ask_join(
        G,
        before["a"].member_id,
        instance_id="a",
        protocols=(("range", b"new"),),
        session_timeout_ms=30_000,
        rebalance_timeout_ms=6_000,
    )
    await world.pass_time(7_000)
    joined = await answered(a)
    assert joined.generation == 2
    assert {i for _, i, _ in joined.members} == {"a", "b"}


async def test_a_return_that_cannot_be_stored_changes_nothing() -> None:
    world = World()
    before = await static(world, "a", "b")
    world.log.refuse = ErrorCode.NOT_LEADER_OR_FOLLOWER
    outcome = await world.ask_join(G, instance_id="b")
    await world.settle()
    assert (await answered(outcome)).error is ErrorCode.NOT_COORDINATOR
    assert world.beat(G, before["b"], "b") == ErrorCode.NONE


async def test_administrators_remove_static_members_by_instance() -> None:
    world = World()
    await static(world, "a", "b")
    codes = world.groups.leave(G, [LeavingMember("", "a"), LeavingMember("", "x"), LeavingMember("", None)])
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE


# --- restart ----------------------------------------------------------------------------------------------------------


async def test_members_survive_a_restart_of_the_broker() -> None:
    world = World()
    leader, follower = await world.stable(G, 2)
    await world.restart()
    assert state(world) is ClassicGroupState.STABLE
    assert world.beat(G, leader) == ErrorCode.NONE
    assert (await answered(world.ask_sync(G, follower))).assignment == follower.member_id.encode()
    await world.pass_time(9_000)
    assert world.beat(G, leader) == ErrorCode.NONE
    await world.pass_time(2_000)  # The follower sent nothing for a whole session.
    assert world.beat(G, leader) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_static_members_survive_a_restart() -> None:
    world = World()
    before = await static(world, "a", "b")
    await world.restart()
    outcome = await world.ask_join(G, instance_id="a")
    await world.settle()
    assert (await answered(outcome)).generation == 1
    assert world.beat(G, before["b"], "b") == ErrorCode.NONE


async def test_an_emptied_group_is_empty_after_a_restart() -> None:
    world = World()
    (leader,) = await world.stable(G)
    world.leave(G, leader.member_id)
    await world.settle()
    await world.restart()
    assert state(world) is ClassicGroupState.EMPTY
    joined = (await world.stable(G))[0]
    assert joined.generation == 3


async def test_stopping_answers_who_waits() -> None:
    world = World()
    world.config["group.initial.rebalance.delay.ms"] = 3_000
    _, waiting = await world.enter(G)
    await world.groups.stop()
    assert (await answered(waiting)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError):
        world.classic(G)


# --- cached responses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["another joins", "one leaves", "a round is asked for", "its session ends", "the end"])
async def test_cached_responses_are_invalidated_before_the_group_changes(what: str) -> None:
    world = World()
    leader, other = await world.stable(G, 2)
    answers = world.groups.cached_responses(G)
    assert answers is not None
    responses = {joined.member_id: FakeAnswer(G) for joined in (leader, other)}
    for member_id, answer in responses.items():
        answers.keep(member_id, answer)
    match what:
        case "another joins":
            await world.enter(G)
        case "one leaves":
            world.groups.leave(G, [LeavingMember(other.member_id, None)])
        case "a round is asked for":
            world.groups.join(G, join_request(leader.member_id))
        case "its session ends":
            responses[other.member_id].heard_ms_ago = 10_000
            await world.pass_time(11_000)
        case _:
            world.topics.lead(OFFSETS_TOPIC, world.groups.shard(G).partition, 2, 1)
    assert all(answer.invalidated for answer in responses.values())
    if what != "the end":
        assert world.groups.cached_responses(G) is None, "none is given on the way to the next generation"


async def test_a_member_that_data_threads_hear_stays() -> None:
    world = World()
    (only,) = await world.stable(G)
    answers = world.groups.cached_responses(G)
    assert answers is not None
    answer = FakeAnswer(G, heard_ms_ago=4_000)
    answers.keep(only.member_id, answer)
    await world.pass_time(10_000)
    await world.pass_time(5_000)
    group = world.classic(G)
    assert group is not None
    assert (list(group.members), answer.invalidated) == ([only.member_id], False)
    answer.heard_ms_ago = 10_000
    await world.pass_time(2_000)
    assert (list(group.members), answer.invalidated) == ([], True)
