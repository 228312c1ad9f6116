"""The error codes of each request for a group of each kind, as in Kafka. A group id has one group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import ConsumerHeartbeat
from pybroker.broker.coordinators.group.classic_group import ClassicGroup
from pybroker.broker.coordinators.group.loading import LoadedGroups
from pybroker.broker.coordinators.group_base.epoch_group import JOINS
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.requests import CommitItem, CommitRequest
from pybroker.broker.coordinators.share.group import ShareGroup
from pybroker.broker.coordinators.share.membership import ShareHeartbeat
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import StreamsHeartbeat, Tasks
from pybroker.errors import KafkaError
from pybroker.native import StoredRecord
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators import test_share_groups, test_streams_groups
from tests.unit.coordinators.fakes import World, join_request

G = "g"
CLASSIC, CONSUMER, SHARE, STREAMS = GroupKind
NONE, MISSING, OTHER = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND
INCONSISTENT, FULL = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.NON_EMPTY_GROUP

BEATS: dict[GroupKind, Any] = {
    CONSUMER: ConsumerHeartbeat(
        "m", JOINS, "client", "/host", rebalance_timeout_ms=60_000, topics=("orders",), owned=frozenset()
    ),
    SHARE: ShareHeartbeat("m", JOINS, "client", "/host", topics=("orders",)),
    STREAMS: StreamsHeartbeat(
        "m",
        JOINS,
        "client",
        "/host",
        rebalance_timeout_ms=60_000,
        topology=test_streams_groups.TOPOLOGY,
        owned=Tasks(),
        process_id="p",
    ),
}
TYPES = (ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup)
GROUPS: dict[GroupKind, Any] = dict(zip(GroupKind, TYPES, strict=True))


async def new_world(kind: GroupKind) -> World:
    """A world with a group of this kind that has a member."""
    world = World()
    world.config |= test_share_groups.SETTINGS | test_streams_groups.SETTINGS
    world.config["group.consumer.migration.policy"] = "disabled"
    world.topics.create("orders", 2)
    if kind is CLASSIC:
        await world.stable(G)
    else:
        assert await code(world, lambda: world.groups.member_heartbeat(kind, G, BEATS[kind])) is NONE
    return world


async def code(world: World, ask: Callable[[], Any]) -> ErrorCode:
    """Return the error code of a request's response."""
    try:
        answer = ask()
        await world.settle()
        if isinstance(answer, asyncio.Future):
            answer = answer.result()
    except KafkaError as error:
        return ErrorCode(error.code)
    if isinstance(answer, list):
        (answer,) = answer
    return answer if isinstance(answer, ErrorCode) else getattr(answer, "error", NONE)


def requests(world: World) -> dict[str, Callable[[], Any]]:
    groups = world.groups
    item = CommitItem("orders", None, 0, 5, -1, "")
    return {
        "JoinGroup": lambda: groups.join(G, join_request(requires_known_member_id=True)),
        "Heartbeat": lambda: groups.heartbeat(G, "x", None, 1),
        "ConsumerGroupHeartbeat": lambda: groups.member_heartbeat(CONSUMER, G, BEATS[CONSUMER]),
        "ShareGroupHeartbeat": lambda: groups.member_heartbeat(SHARE, G, BEATS[SHARE]),
        "StreamsGroupHeartbeat": lambda: groups.member_heartbeat(STREAMS, G, BEATS[STREAMS]),
        "OffsetCommit": lambda: groups.commit(CommitRequest(G, "", None, -1, (item,))),
        "OffsetDelete": lambda: groups.delete_offsets(G, [("orders", 0)]),
        "DeleteGroups": lambda: groups.delete_group(G),
        "DescribeGroups": lambda: groups.describe(G, ClassicGroup),
        "ConsumerGroupDescribe": lambda: groups.describe(G, ConsumerGroup),
        "ShareGroupDescribe": lambda: groups.describe(G, ShareGroup),
        "StreamsGroupDescribe": lambda: groups.describe(G, StreamsGroup),
    }


ID_FIRST, IN_USE = ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
EXPECTED = {
    "JoinGroup": (ID_FIRST, ID_FIRST, INCONSISTENT, INCONSISTENT),
    "Heartbeat": (MISSING, MISSING, MISSING, MISSING),
    "ConsumerGroupHeartbeat": (OTHER, NONE, OTHER, OTHER),
    "ShareGroupHeartbeat": (OTHER, OTHER, NONE, OTHER),
    "StreamsGroupHeartbeat": (OTHER, OTHER, OTHER, NONE),
    "OffsetCommit": (MISSING, MISSING, OTHER, MISSING),
    "OffsetDelete": (IN_USE, IN_USE, OTHER, IN_USE),
    "DeleteGroups": (FULL, FULL, FULL, FULL),
    "DescribeGroups": (NONE, OTHER, OTHER, OTHER),
    "ConsumerGroupDescribe": (OTHER, NONE, OTHER, OTHER),
    "ShareGroupDescribe": (OTHER, OTHER, NONE, OTHER),
    "StreamsGroupDescribe": (OTHER, OTHER, OTHER, NONE),
}
"""Request → its error codes for a classic, consumer, share and streams group with a member."""


@pytest.mark.parametrize("kind", GroupKind)
@pytest.mark.parametrize("request_name", EXPECTED)
async def test_a_request_gets_the_error_code_of_the_groups_kind(kind: GroupKind, request_name: str) -> None:
    world = await new_world(kind)
    assert await code(world, requests(world)[request_name]) is EXPECTED[request_name][list(GroupKind).index(kind)]


@pytest.mark.parametrize("kind", GroupKind)
async def test_a_group_of_each_kind_is_listed_and_loaded_again(kind: GroupKind) -> None:
    world = await new_world(kind)
    assert [(group.group_id, group.kind) for group in world.groups.list_groups()[0]] == [(G, kind)]
    await world.restart()
    assert isinstance(world.groups.describe(G, GROUPS[kind]), GROUPS[kind])


@pytest.mark.parametrize(("first", "last"), [(CONSUMER, STREAMS), (STREAMS, CONSUMER), (CONSUMER, SHARE)])
async def test_of_two_kinds_stored_under_one_id_the_later_one_is_loaded(first: GroupKind, last: GroupKind) -> None:
    """An id was used twice, and the later kind is valid: the tombstones of the other kind could not be written."""
    loaded = LoadedGroups()
    for kind in (last, first, last):
        for key, value in (await new_world(kind)).log.records:
            loaded.take(StoredRecord(0, 0, key, value, -1, None, ()))
    world = World()
    world.config |= test_share_groups.SETTINGS | test_streams_groups.SETTINGS
    shard = world.groups.shard(G)
    shard.install(loaded)
    assert [group.kind for group in shard.groups] == [last]


async def test_a_member_that_joins_while_another_kind_of_group_is_written_is_refused() -> None:
    world = World()
    world.config |= test_share_groups.SETTINGS | test_streams_groups.SETTINGS
    world.topics.create("orders", 2)
    world.log.hold = True
    first = world.groups.member_heartbeat(SHARE, G, BEATS[SHARE])
    assert await code(world, lambda: world.groups.member_heartbeat(CONSUMER, G, BEATS[CONSUMER])) is OTHER
    assert await code(world, requests(world)["OffsetCommit"]) is OTHER
    world.log.release()
    assert (await first).error is NONE
