"""The API files of groups: every version that they serve, encoded and decoded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import pytest

from pybroker.broker.api import (
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
    k47_offset_delete,
)
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.requests.context import CacheableResponse, DelegatedCommitResponse, RequestContext
from pybroker.broker.requests.deferred_response import DeferredResponse
from pybroker.errors import KafkaError
from pybroker.native import Uuid, decode, encode
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.authorizers import PERMITS_ALL
from tests.unit.coordinators.fakes import World, subscription

G = "readers"


class Client:
    """Sends requests of one version of a key to the handlers, over the codec both ways."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def ask(self, key: int, version: int, request: Any) -> Any:
        """Send a request and return the response; time passes while the request is held."""
        handlers: dict[int, Callable[..., Any]] = {
            11: k11_join_group.handle,
            12: k12_heartbeat.handle,
            13: k13_leave_group.handle,
            14: k14_sync_group.handle,
            15: k15_describe_groups.handle,
            16: k16_list_groups.handle,
            47: k47_offset_delete.handle,
        }
        context = RequestContext(key, version, "client", "User:ANONYMOUS", "PLAINTEXT", "127.0.0.1", 1)
        arrived = decode(key, version, encode(request, version), True)
        if key == 9:
            outcome: Any = k09_offset_fetch.handle(self.world.groups, self.world.topics, PERMITS_ALL, context, arrived)
        elif key == 8:
            outcome = k08_offset_commit.handle(self.world.groups, self.world.topics, PERMITS_ALL, context, arrived)
        elif key == 10:
            outcome = k10_find_coordinator.handle(
                k10_find_coordinator.Coordinators(self.world.groups, self.world.transactions, cast(Any, None)),
                PERMITS_ALL,
                context,
                arrived,
            )
        elif key == 42:
            shares = ShareCoordination(self.world.groups, self.world.topics, self.world.states, self.world.loop)
            outcome = k42_delete_groups.handle(self.world.groups, shares, PERMITS_ALL, context, arrived)
        else:
            outcome = handlers[key](self.world.groups, PERMITS_ALL, context, arrived)
        if isinstance(outcome, DeferredResponse):
            await self.world.pass_time(2_000)
            outcome = outcome.outcome()
        if isinstance(outcome, CacheableResponse | DelegatedCommitResponse):
            outcome = outcome.response
        if inspect.iscoroutine(outcome):
            task = self.world.loop.create_task(outcome)
            await self.world.pass_time(2_000)
            assert task.done()
            outcome = task.result()
        return decode(key, version, encode(outcome, version), False)

    async def join(self, version: int, **fields: Any) -> Any:
        request = m.JoinGroupRequest(
            group_id=G,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000 if version >= 1 else -1,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequest_JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))],
            **fields,
        )
        answer = await self.ask(11, version, request)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            assert version >= 4
            request.member_id = answer.member_id
            answer = await self.ask(11, version, request)
        return answer

    async def stable(self) -> Any:
        joined = await self.join(9)
        await self.ask(
            14,
            5,
            m.SyncGroupRequest(
                group_id=G,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    m.SyncGroupRequest_SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")
                ],
            ),
        )
        return joined


async def client() -> tuple[Client, Uuid]:
    world = World()
    return Client(world), world.topics.create("orders")


@pytest.mark.parametrize("version", range(10))
async def test_join_group(version: int) -> None:
    c, _ = await client()
    joined = await c.join(version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert len(joined.members) == 1
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    refused = await c.join(version, member_id="made up")
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(6))
async def test_sync_group(version: int) -> None:
    c, _ = await client()
    joined = await c.join(9)
    request = m.SyncGroupRequest(
        group_id=G,
        generation_id=1,
        member_id=joined.member_id,
        assignments=[m.SyncGroupRequest_SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")],
    )
    if version >= 5:
        refused = await c.ask(14, version, request)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.protocol_type, request.protocol_name = "consumer", "range"
    answer = await c.ask(14, version, request)
    assert (answer.error_code, answer.assignment) == (0, b"A")
    request.group_id = ""
    assert (await c.ask(14, version, request)).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(5))
async def test_heartbeat(version: int) -> None:
    c, _ = await client()
    joined = await c.stable()
    beat = m.HeartbeatRequest(group_id=G, generation_id=1, member_id=joined.member_id)
    assert (await c.ask(12, version, beat)).error_code == 0
    beat.generation_id = 2
    assert (await c.ask(12, version, beat)).error_code == ErrorCode.ILLEGAL_GENERATION
    beat.group_id = ""
    assert (await c.ask(12, version, beat)).error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_heartbeat_while_the_group_loads_gets_no_error() -> None:
    c, _ = await client()
    joined = await c.stable()
    beat = m.HeartbeatRequest(group_id=G, generation_id=joined.generation_id, member_id=joined.member_id)
    for leader, epoch, expected in ((2, 1, ErrorCode.NOT_COORDINATOR), (1, 2, ErrorCode.NONE)):
        for partition in range(5):
            c.world.topics.lead(OFFSETS_TOPIC, partition, leader, epoch)
        assert (await c.ask(12, 4, beat)).error_code == expected
    with pytest.raises(KafkaError) as loading:
        c.world.groups.shard(G)
    assert loading.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await c.world.groups.shards.loaded()
    beat.member_id = "made up"
    assert (await c.ask(12, 4, beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
async def test_leave_group(version: int) -> None:
    c, _ = await client()
    joined = await c.stable()
    if version < 3:
        bad = await c.ask(13, version, m.LeaveGroupRequest(group_id=G, member_id="x"))
        assert bad.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        answer = await c.ask(13, version, m.LeaveGroupRequest(group_id=G, member_id=joined.member_id))
    else:
        answer = await c.ask(
            13,
            version,
            m.LeaveGroupRequest(
                group_id=G,
                members=[
                    m.LeaveGroupRequest_MemberIdentity(member_id=member_id, reason="done" if version >= 5 else None)
                    for member_id in (joined.member_id, "x")
                ],
            ),
        )
        assert [x.error_code for x in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert answer.error_code == 0


@pytest.mark.parametrize("version", range(7))
async def test_describe_groups(version: int) -> None:
    c, _ = await client()
    joined = await c.stable()
    answer = await c.ask(
        15, version, m.DescribeGroupsRequest(groups=[G, "none", G, G], include_authorized_operations=version >= 3)
    )
    there, missing = answer.groups  # each group is returned once
    assert (there.group_state, there.protocol_type, there.protocol_data) == ("Stable", "consumer", "range")
    (member,) = there.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("orders"), b"A")
    assert there.authorized_operations == (0b1101_0100_1000 if version >= 3 else -(1 << 31))
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(6))
async def test_list_groups(version: int) -> None:
    c, topic_id = await client()
    await c.stable()
    await c.ask(8, 2, commit(2, topic_id, group="simple"))

    async def names(**filters: Any) -> set[str]:
        answer = await c.ask(16, version, m.ListGroupsRequest(**filters))
        assert answer.error_code == 0
        return {g.group_id for g in answer.groups}

    assert await names() == {G, "simple"}
    if version >= 4:
        assert await names(states_filter=["STABLE"]) == {G}
        assert await names(states_filter=["Empty", "Dead"]) == {"simple"}
    if version >= 5:
        assert await names(types_filter=["Classic"]) == {G, "simple"}
        assert await names(types_filter=["consumer"]) == set()


def commit(version: int, topic_id: Uuid, group: str = G, offset: int = 9) -> m.OffsetCommitRequest:
    by_id = version >= 10
    return m.OffsetCommitRequest(
        group_id=group,
        topics=[
            m.OffsetCommitRequest_OffsetCommitRequestTopic(
                name="" if by_id else "orders",
                topic_id=topic_id if by_id else Uuid.ZERO,
                partitions=[
                    m.OffsetCommitRequest_OffsetCommitRequestPartition(
                        partition_index=p,
                        committed_offset=offset,
                        committed_leader_epoch=3 if version >= 6 else -1,
                        committed_metadata="note" if p else None,
                    )
                    for p in (0, 1, 9)
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", range(1, 11))
async def test_offset_commit(version: int) -> None:
    c, topic_id = await client()
    answer = await c.ask(8, version, commit(version, topic_id))
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id) == (("", topic_id) if version >= 10 else ("orders", Uuid.ZERO))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, 0), (1, 0), (9, unknown)]
    (kept,) = c.world.groups.fetch(G, [(topic_id, 1)])
    assert kept is not None
    assert (kept.offset, kept.metadata, kept.leader_epoch) == (9, "note", 3 if version >= 6 else -1)
    request = commit(version, topic_id, group="nobody")
    request.generation_id_or_member_epoch, request.member_id = 4, "x"
    (topic,) = (await c.ask(8, version, request)).topics
    refusal = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, refusal), (1, refusal), (9, unknown)]


async def test_old_commits_bring_their_own_times() -> None:
    c, topic_id = await client()
    request = commit(1, topic_id)
    request.topics[0].partitions[0].commit_timestamp = 5
    await c.ask(8, 1, request)
    request = commit(4, topic_id, group="other")
    request.retention_time_ms = 1_000
    await c.ask(8, 4, request)
    first, second = c.world.groups.fetch(G, [(topic_id, 0)]) + c.world.groups.fetch("other", [(topic_id, 0)])
    assert first is not None
    assert second is not None
    assert first.commit_timestamp_ms == 5
    assert second.expire_timestamp_ms == second.commit_timestamp_ms + 1_000


@pytest.mark.parametrize("version", range(1, 8))
async def test_offset_fetch_of_one_group(version: int) -> None:
    c, topic_id = await client()
    await c.ask(8, 8, commit(8, topic_id))
    request = m.OffsetFetchRequest(
        group_id=G,
        topics=[
            m.OffsetFetchRequest_OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1, 2]),
            m.OffsetFetchRequest_OffsetFetchRequestTopic(name="unknown", partition_indexes=[0]),
        ],
        require_stable=version >= 7,
    )
    orders, unknown = (await c.ask(9, version, request)).topics
    assert [p.committed_offset for p in orders.partitions] == [9, 9, -1]
    assert [p.metadata for p in orders.partitions] == ["", "note", ""]
    assert [p.committed_leader_epoch for p in orders.partitions] == ([3, 3, -1] if version >= 5 else [-1, -1, -1])
    assert [(p.committed_offset, p.error_code) for p in unknown.partitions] == [(-1, 0)]
    if version >= 2:
        everything = await c.ask(9, version, m.OffsetFetchRequest(group_id=G, topics=None))
        assert [(t.name, len(t.partitions)) for t in everything.topics] == [("orders", 2)]
    c.world.topics.remove("__consumer_offsets")
    lost = await c.ask(9, version, request)
    codes = {p.error_code for t in lost.topics for p in t.partitions}
    # If the response has an error code for the group, each partition has it too: some clients do not read the group's.
    assert codes == {ErrorCode.NOT_COORDINATOR}
    assert lost.error_code == (ErrorCode.NOT_COORDINATOR if version >= 2 else 0)


@pytest.mark.parametrize("version", range(8, 11))
async def test_offset_fetch_of_many_groups(version: int) -> None:
    c, topic_id = await client()
    await c.ask(8, 8, commit(8, topic_id))
    by_id = version >= 10
    gone = Uuid.random()
    wanted = [
        m.OffsetFetchRequest_OffsetFetchRequestTopics(
            name="" if by_id else name, topic_id=known if by_id else Uuid.ZERO, partition_indexes=[1]
        )
        for name, known in (("orders", topic_id), ("unknown", gone))
    ]
    request = m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=G, topics=wanted),
            m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=G, topics=None),
            m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id="x" * 32_768, topics=None),
            m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=G, topics=None),
        ]
    )
    some, everything, refused = (await c.ask(9, version, request)).groups
    orders, unknown = some.topics
    assert [(p.committed_offset, p.metadata) for p in orders.partitions] == [(9, "note")]
    assert unknown.partitions[0].error_code == (ErrorCode.UNKNOWN_TOPIC_ID if by_id else 0)
    (topic,) = everything.topics
    assert (topic.name, topic.topic_id) == (("", topic_id) if by_id else ("orders", Uuid.ZERO))
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator(version: int) -> None:
    c, _ = await client()
    if version < 4:
        found = [await c.ask(10, version, m.FindCoordinatorRequest(key=G))]
    else:
        found = (await c.ask(10, version, m.FindCoordinatorRequest(coordinator_keys=[G, "b"]))).coordinators
        assert [f.key for f in found] == [G, "b"]
    assert {(f.node_id, f.host, f.port, f.error_code) for f in found} == {(1, "localhost", 9091, 0)}
    if version >= 1:
        # Transactions have a coordinator, share groups have none.
        for key_type, expected in ((1, (0, 1, 9091)), (2, (ErrorCode.INVALID_REQUEST, -1, -1))):
            keys = {"key": "t"} if version < 4 else {"coordinator_keys": ["t"]}
            answer = await c.ask(10, version, m.FindCoordinatorRequest(key_type=key_type, **keys))
            one = answer if version < 4 else answer.coordinators[0]
            assert (one.error_code, one.node_id, one.port) == expected


@pytest.mark.parametrize("version", range(4))
async def test_delete_groups(version: int) -> None:
    c, topic_id = await client()
    await c.stable()
    await c.ask(8, 8, commit(8, topic_id, group="simple"))
    answer = await c.ask(42, version, m.DeleteGroupsRequest(groups_names=["simple", G, "none", "simple"]))
    assert {r.group_id: r.error_code for r in answer.results} == {
        "simple": 0,
        G: ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }


async def test_offset_delete() -> None:
    c, topic_id = await client()
    await c.ask(8, 8, commit(8, topic_id))
    request = m.OffsetDeleteRequest(
        group_id=G,
        topics=[
            m.OffsetDeleteRequest_OffsetDeleteRequestTopic(
                name="orders",
                partitions=[m.OffsetDeleteRequest_OffsetDeleteRequestPartition(partition_index=p) for p in (0, 3, 7)],
            )
        ],
    )
    (topic,) = (await c.ask(47, 0, request)).topics
    assert [p.error_code for p in topic.partitions] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert c.world.groups.fetch(G, [(topic_id, 0)]) == [None]
    request.group_id = "none"
    assert (await c.ask(47, 0, request)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
