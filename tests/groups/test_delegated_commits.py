"""Data threads accept commits of group members without the control plane, with the same effect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups import raw_member, requests
from tests.groups.consumer_protocol_member import ConsumerProtocolMember, settle
from tests.groups.kit import WAIT_S, create_topic, delete_topic, unique, until
from tests.groups.raw_member import Line, RawMember, committed
from tests.groups.test_cached_responses import SESSION_S, SETTINGS, World, at_rest, members
from tests.groups.test_storm import metrics
from tests.support.wire import free_port
from tests.wire.client import WireClient

COMMITS = 50
COUNTED = "kafka_server_group_coordinator_metrics_offset_commit_count"


def start(start_broker: StartBroker, settings: dict[str, str] | None = None) -> World:
    port = free_port()
    broker = start_broker({**SETTINGS, **(settings or {}), "metrics.listener": f"127.0.0.1:{port}"})
    with WireClient(broker.port) as client:
        # FindCoordinator creates the offsets topic.
        client.call(m.FindCoordinatorRequest(coordinator_keys=["any"]), 4)
    return World(broker, port)


@pytest.fixture
def world(start_broker: StartBroker) -> World:
    return start(start_broker)


async def id_of(line: Line, topic: str) -> Uuid:
    answer = await line.call(m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=topic)]), 12)
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


async def epoch_of(line: Line, topic: str) -> int:
    answer = await line.call(m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=topic)]), 12)
    return int(answer.topics[0].partitions[0].leader_epoch)


async def ask(member: RawMember, offsets: dict[int, int], version: int = 8, **more: Any) -> dict[int, ErrorCode]:
    request = requests.commit(
        member.group, more.pop("topic", member.topic), offsets, member.generation, member.member_id, **more
    )
    answer = await member.line.call(request, version)
    return {one.partition_index: ErrorCode(one.error_code) for one in answer.topics[0].partitions}


async def stands(world: World, member: RawMember, offsets: dict[int, int], **more: Any) -> bool:
    """Return whether a successful commit was handled without the control plane."""
    before = world.asked()
    assert set((await ask(member, offsets, **more)).values()) == {ErrorCode.NONE}
    return world.asked() == before


@pytest.mark.parametrize("mode", ["os", "commit"])
@pytest.mark.parametrize("version", [5, 8, 10])
async def test_commits_of_a_member_do_not_reach_the_control_plane(
    start_broker: StartBroker, mode: str, version: int
) -> None:
    world = start(start_broker, {"log.flush.mode": mode})
    broker = world.broker
    topic, group = create_topic(broker.bootstrap, 3), unique("group")
    async with members(broker, group, topic, 2) as (one, two):
        await at_rest(one, two)
        given = {"topic_id": await id_of(one.line, topic)} if version >= 10 else {}
        before, counted = world.asked(), metrics(world._metrics_port)[COUNTED]
        for number in range(COMMITS):
            offsets = dict.fromkeys(one.owned, number)
            assert await ask(one, offsets, version, **given) == dict.fromkeys(one.owned, ErrorCode.NONE)
        assert world.asked() - before < COMMITS / 2
        assert metrics(world._metrics_port)[COUNTED] - counted == COMMITS * len(one.owned)
        expected = {group: dict.fromkeys(one.owned, COMMITS - 1)}
        assert await committed(two.line, [group]) == expected, "whoever asks next is told so"
        await ask(one, {one.owned[0]: 1_000}, version, metadata="of the client", **given)
        answer = await two.line.call(requests.fetch(group, topic, [one.owned[0]]), 8)
        (found,) = answer.groups[0].topics[0].partitions
        assert (found.committed_offset, found.metadata) == (1_000, "of the client")
    broker.kill()
    broker.start()
    loaded(broker.port, group)
    with WireClient(broker.port) as client:
        answer = client.call(requests.fetch(group, topic, one.owned), 8)
    found = {one.partition_index: one.committed_offset for one in answer.groups[0].topics[0].partitions}
    assert found == {**dict.fromkeys(one.owned, COMMITS - 1), one.owned[0]: 1_000}


def loaded(port: int, group: str) -> None:
    """Wait until the coordinator has loaded."""

    def answered() -> bool:
        with WireClient(port) as client:
            return not client.call(requests.fetch(group, None), 8).groups[0].error_code

    until(answered, "the coordinator has loaded")


async def test_whatever_is_not_as_before_is_the_control_planes(world: World) -> None:
    bootstrap, group = world.broker.bootstrap, unique("group")
    topic, other = create_topic(bootstrap, 2), create_topic(bootstrap, 1)
    async with members(world.broker, group, topic, 1) as (one,):
        await at_rest(one)
        await ask(one, {0: 1})
        assert await stands(world, one, {0: 2, 1: 2})
        assert await ask(one, {1: 3, 2: 3}) == {1: ErrorCode.NONE, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await ask(one, {0: 4}, topic="no-such") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await ask(one, {0: 4}, metadata="x" * 5_000) == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        one.generation += 1
        assert await ask(one, {0: 5}) == {0: ErrorCode.ILLEGAL_GENERATION}
        one.generation -= 1
        own, one.member_id = one.member_id, "somebody"
        assert await ask(one, {0: 5}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        one.member_id = own
        assert await ask(one, {0: 5}, group_instance_id="i") == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert (await committed(one.line, [group]))[group] == {0: 2, 1: 3}
        assert await stands(world, one, {0: 6}), "nothing of this has changed anything"
        # The commits now include a second topic.
        assert not await stands(world, one, {0: 7}, topic=other)
        assert await stands(world, one, {0: 8}, topic=other)
        assert await stands(world, one, {0: 9})


async def test_who_is_not_of_the_generation_any_more_is_told_so(world: World) -> None:
    topic, group = create_topic(world.broker.bootstrap, 2), unique("group")
    async with members(world.broker, group, topic, 2) as (one, late):
        await at_rest(one)
        await ask(one, {0: 1})
        assert await stands(world, one, {0: 2})
        old = one.generation
        joining = asyncio.create_task(late.join())
        async with asyncio.timeout(WAIT_S):
            while await one.heartbeat() is ErrorCode.NONE:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
        # As before, positions from before the rebalance may be committed while others join.
        assert not await stands(world, one, {0: 3})
        await asyncio.gather(one.join(), joining)
        new, one.generation = one.generation, old
        assert await ask(one, {0: 4}) == {0: ErrorCode.ILLEGAL_GENERATION}
        one.generation = new
        await ask(one, {0: 5})
        assert await stands(world, one, {0: 6})
        await late.leave()
        assert not await stands(world, one, {0: 7}), "the group is on its way to another generation"
        await one.leave()
        one.member_id = "gone"
        assert await ask(one, {0: 8}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}


async def test_a_topic_that_comes_again_has_nothing_of_the_old_one(world: World) -> None:
    bootstrap, group = world.broker.bootstrap, unique("group")
    topic = create_topic(bootstrap, 2)
    async with members(world.broker, group, topic, 1) as (one,):
        await at_rest(one)
        old = await id_of(one.line, topic)
        await ask(one, {0: 1})
        assert await stands(world, one, {0: 50, 1: 50})
        await ask(one, {0: 51}, 10, topic_id=old)
        assert await stands(world, one, {0: 51}, version=10, topic_id=old)
        delete_topic(bootstrap, topic)
        assert await ask(one, {0: 52}, 10, topic_id=old) == {0: ErrorCode.UNKNOWN_TOPIC_ID}
        create_topic(bootstrap, 2, topic)
        assert await ask(one, {0: 53}) == {0: ErrorCode.REBALANCE_IN_PROGRESS}
        assert (await committed(one.line, [group]))[group] == {}
        await at_rest(one)
        # Positions below the current topic's first leader epoch belong to the old incarnation, whichever client sends
        # them.
        await ask(one, {0: 1})
        assert await stands(world, one, {0: 2})
        assert await ask(one, {0: 60}, leader_epoch=0) == {0: ErrorCode.FENCED_LEADER_EPOCH}
        assert (await committed(one.line, [group]))[group] == {0: 2}


async def test_a_commit_with_an_epoch_of_the_new_topic_counts_before_the_next_generation(world: World) -> None:
    bootstrap, group = world.broker.bootstrap, unique("group")
    topic = create_topic(bootstrap, 2)
    async with members(world.broker, group, topic, 1) as (one,):
        await at_rest(one)
        await ask(one, {0: 50, 1: 50}, leader_epoch=0)
        delete_topic(bootstrap, topic)
        create_topic(bootstrap, 2, topic)
        epoch = await epoch_of(one.line, topic)
        assert await ask(one, {0: 1}, leader_epoch=epoch) == {0: ErrorCode.NONE}
        assert await ask(one, {0: 2, 1: 3}, leader_epoch=epoch) == dict.fromkeys((0, 1), ErrorCode.NONE)
        assert await one.heartbeat() is ErrorCode.NONE, "the generation goes on"
        assert (await committed(one.line, [group]))[group] == {0: 2, 1: 3}
        # Without an epoch a position may be of the old topic, whatever was committed before.
        assert await ask(one, {0: 60}) == {0: ErrorCode.REBALANCE_IN_PROGRESS}
        assert (await committed(one.line, [group]))[group] == {0: 2, 1: 3}


async def test_the_same_in_a_consumer_group(world: World) -> None:
    broker = world.broker
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    newer = ConsumerProtocolMember(lambda: broker.port, group, "m", (topic,))
    settle(newer)
    async with await Line.open(broker.port) as line:
        one = RawMember(line, group, topic, 2, "m", newer.epoch)
        assert await ask(one, {0: 50}, 9, leader_epoch=0) == {0: ErrorCode.NONE}
        delete_topic(broker.bootstrap, topic)
        create_topic(broker.bootstrap, 2, topic)
        epoch = await epoch_of(line, topic)
        assert await ask(one, {0: 60}, 9) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await ask(one, {0: 1}, 9, leader_epoch=epoch) == {0: ErrorCode.NONE}
        # A response to OffsetFetch has only offsets of the current incarnation.
        answer = await line.call(requests.fetch(group, topic, [0], member_id="m", member_epoch=one.generation), 9)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 1


async def test_what_is_deleted_with_its_group_stays_deleted(world: World) -> None:
    broker = world.broker
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    async with members(broker, group, topic, 1) as (one,):
        await at_rest(one)
        await ask(one, {0: 1})
        for number in range(COMMITS):
            await ask(one, {number % 2: number})
        await one.leave()
        answer = await one.line.call(m.DeleteGroupsRequest(groups_names=[group]), 2)
        assert answer.results[0].error_code == 0
        assert (await committed(one.line, [group]))[group] == {}
    broker.kill()
    broker.start()
    loaded(broker.port, group)
    with WireClient(broker.port) as client:
        assert client.call(requests.fetch(group, None), 8).groups[0].topics == []


async def test_commits_alone_keep_a_classic_member(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_member, "SESSION_TIMEOUT_MS", int(SESSION_S * 1000))
    topic, group = create_topic(world.broker.bootstrap, 2), unique("group")
    async with members(world.broker, group, topic, 1) as (one,):
        await at_rest(one)
        await ask(one, {0: 0})
        before = world.asked()
        for number in range(int(2.5 * SESSION_S / 0.1)):
            assert await ask(one, {0: number}) == {0: ErrorCode.NONE}
            await asyncio.sleep(0.1)
        assert world.asked() - before < 20, "two and a half sessions passed, of which the control plane heard nothing"
        assert await one.heartbeat() is ErrorCode.NONE


async def test_commits_alone_do_not_keep_a_member_of_a_consumer_group(world: World) -> None:
    broker = world.broker
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    newer = ConsumerProtocolMember(lambda: broker.port, group, "m", (topic,))
    settle(newer)
    async with await Line.open(broker.port) as line:
        one = RawMember(line, group, topic, 2, "m", newer.epoch)
        topic_id = await id_of(line, topic)
        given: dict[str, Any] = {"version": 10, "topic_id": topic_id}
        await ask(one, {0: 0}, **given)
        assert await stands(world, one, {0: 1, 1: 1}, **given)
        one.generation += 1
        assert await ask(one, {0: 2}, **given) == {0: ErrorCode.STALE_MEMBER_EPOCH}
        one.generation -= 1
        async with asyncio.timeout(WAIT_S):
            while (code := (await ask(one, {0: 3}, **given))[0]) is ErrorCode.NONE:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert code is ErrorCode.UNKNOWN_MEMBER_ID, "as the group is empty then"
