"""The memory for the members' metadata is limited."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.broker.coordinators.group_base.metadata_size import metadata_size
from pybroker.broker.coordinators.streams.topology import CopartitionGroup, Subtopology, Topology
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.conftest import StartBroker
from tests.groups.consumer_protocol_member import ask
from tests.groups.kit import unique
from tests.groups.requests import join
from tests.groups.test_storm import metrics
from tests.support.brokers import BrokerProcess
from tests.support.cluster import until
from tests.wire.client import WireClient

MEMBER_MAX, TOTAL_MAX = 10_000, 25_000
GAUGE = "pybroker_group_member_metadata_bytes"


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    broker = start_broker(
        {
            "group.max.metadata.bytes": str(MEMBER_MAX),
            "group.max.metadata.bytes.total": str(TOTAL_MAX),
            "metrics.listener": f"127.0.0.1:{free_port()}",
        }
    )
    with WireClient(broker.port) as client:
        client.call(m.FindCoordinatorRequest(coordinator_keys=["any"]), 4)
    return broker


def joined(broker: BrokerProcess, size: int, protocols: int = 1) -> ErrorCode:
    """Return the response to the JoinGroup of a group's only member."""
    said = [
        m.JoinGroupRequest_JoinGroupRequestProtocol(name=f"p{number}", metadata=bytes(size))
        for number in range(protocols)
    ]
    # Before version 4, the request needs no member id.
    request = join(unique("group"), protocols=said, protocol_type="own", session_timeout_ms=60_000)
    return ErrorCode(ask(lambda: broker.port, request, 3, lambda answer: int(answer.error_code)).error_code)


def test_a_member_and_all_members_have_a_limit(broker: BrokerProcess) -> None:
    port = int(broker.settings["metrics.listener"].rpartition(":")[2])
    assert joined(broker, MEMBER_MAX + 1) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(broker, 4_000, protocols=3) is ErrorCode.GROUP_MAX_SIZE_REACHED, "all protocols count"
    assert metrics(port)[GAUGE] == 0
    assert joined(broker, 9_000) is joined(broker, 4_500, protocols=2) is ErrorCode.NONE
    assert metrics(port)[GAUGE] == 18_000 + 3 * len("p0")
    assert joined(broker, 9_000) is ErrorCode.GROUP_MAX_SIZE_REACHED, "together they would have too much"
    assert joined(broker, 1_000) is ErrorCode.NONE
    assert metrics(port)["pybroker_group_joins_refused_total"] == 3


def heartbeat(kind: str, group: str, member: str, topics: list[str]) -> Any:
    """Return the first heartbeat of a member."""
    if kind == "consumer":
        return m.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
    if kind == "share":
        return m.ShareGroupHeartbeatRequest(group_id=group, member_id=member, subscribed_topic_names=topics)
    subtopology = m.StreamsGroupHeartbeatRequest_Subtopology(subtopology_id="0", source_topics=topics)
    return m.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=60_000,
        topology=m.StreamsGroupHeartbeatRequest_Topology(epoch=1, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
    )


@pytest.mark.parametrize(("kind", "version"), [("consumer", 1), ("share", 1), ("streams", 0)])
def test_members_of_all_protocols_count(broker: BrokerProcess, kind: str, version: int) -> None:
    port = int(broker.settings["metrics.listener"].rpartition(":")[2])

    def said(group: str, member: str, size: int) -> ErrorCode:
        names = [f"{number:0100}" for number in range(size // 100)]
        request = heartbeat(kind, group, member, names)
        return ErrorCode(ask(lambda: broker.port, request, version, lambda answer: int(answer.error_code)).error_code)

    first, second, third = unique("group"), unique("group"), unique("group")
    assert said(first, "a", MEMBER_MAX + 1_000) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert metrics(port)[GAUGE] == 0
    assert said(first, "a", 9_000) is said(second, "a", 9_000) is ErrorCode.NONE
    assert 18_000 < metrics(port)[GAUGE] < 21_000
    assert said(third, "a", 9_000) is ErrorCode.GROUP_MAX_SIZE_REACHED, "together they would have too much"
    assert said(first, "a", 9_000) is ErrorCode.NONE, "it joins again, and brings nothing new"
    assert said(third, "a", 1_000) is ErrorCode.NONE
    assert joined(broker, 9_000) is ErrorCode.GROUP_MAX_SIZE_REACHED, "those of the classic protocol count with them"
    assert metrics(port)["pybroker_group_joins_refused_total"] == 3


def test_the_topology_of_a_streams_group_without_members_counts(broker: BrokerProcess) -> None:
    port = int(broker.settings["metrics.listener"].rpartition(":")[2])
    names = [f"{number:0100}" for number in range(90)]

    def said(group: str, epoch: int = 0) -> ErrorCode:
        request = heartbeat("streams", group, "a", names)
        request.member_epoch = epoch
        if epoch:
            request.topology = None
        return ErrorCode(ask(lambda: broker.port, request, 0, lambda answer: int(answer.error_code)).error_code)

    for _ in range(2):
        group = unique("group")
        assert said(group) is ErrorCode.NONE
        assert said(group, -1) is ErrorCode.NONE, "it leaves"
    assert metrics(port)[GAUGE] > 18_000
    assert said(unique("group")) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_structures_and_numbers_of_metadata_count() -> None:
    """Clients can send many of them without any text."""
    copartition = CopartitionGroup(tuple(range(10)), (), ())
    assert metadata_size(copartition) > 10 * 24
    assert metadata_size(Topology(1, (Subtopology("", copartition_groups=(copartition,)),) * 100)) > 100 * 350


def long_named(kind: str) -> Any:
    """Return the first request of a new group's only member; the group's name is long."""
    group = unique("group").rjust(5_000, "g")
    if kind == "classic":
        said = [m.JoinGroupRequest_JoinGroupRequestProtocol(name="p", metadata=b"")]
        return join(group, protocols=said, protocol_type="own", session_timeout_ms=60_000)
    return heartbeat(kind, group, unique("member"), ["t"])


@pytest.mark.parametrize(("kind", "version"), [("classic", 9), ("classic", 3), ("consumer", 1), ("share", 1)])
def test_groups_themselves_count(broker: BrokerProcess, kind: str, version: int) -> None:
    """A group counts even if its only member has an id and has not joined: each request can name a new group."""
    with WireClient(broker.port, client_id="short") as client:
        codes = []
        while ErrorCode.GROUP_MAX_SIZE_REACHED not in codes:
            codes.append(client.call(long_named(kind), version).error_code)
            assert len(codes) < 100, set(codes)
    assert len([code for code in codes if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)]) == 4


@pytest.mark.parametrize("version", [9, 3])
def test_client_ids_of_classic_members_count(broker: BrokerProcess, version: int) -> None:
    said = [m.JoinGroupRequest_JoinGroupRequestProtocol(name="p", metadata=b"")]
    request = join(unique("group"), protocols=said, protocol_type="own", session_timeout_ms=60_000)
    with WireClient(broker.port, client_id="c" * 20_000) as client:
        assert client.call(request, version).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_unused_member_id_counts_until_its_session_ends(broker: BrokerProcess) -> None:
    said = [m.JoinGroupRequest_JoinGroupRequestProtocol(name="p", metadata=b"")]
    with WireClient(broker.port) as client:
        for _ in range(4):
            name = unique("group").rjust(5_000, "g")
            request = join(name, protocols=said, protocol_type="own", session_timeout_ms=6_000)
            assert client.call(request, 9).error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert client.call(long_named("classic"), 9).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        until(lambda: client.call(long_named("classic"), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED)
