"""Groups of the consumer protocol (KIP-848) over several brokers. Their coordinator moves by kill -9 and by elections,
and members do not notice it. The new coordinator completes unfinished work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pybroker.client import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    NewTopic,
    TopicPartition,
    blocking,
)
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.groups.consumer_protocol_member import NEVER_MS, ConsumerProtocolMember, picture
from tests.groups.kit import Member, fill, members, shared_out, unique
from tests.support.cluster import BrokerCluster, isr, leaders, running_cluster, until
from tests.wire.client import WireClient

OFFSETS, PARTITIONS = "__consumer_offsets", 6
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "min.insync.replicas": "2",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    # The group keeps its heartbeat interval during a rebalance as well.
    "group.consumer.rebalance.heartbeat.interval.ms": "10000",
    "group.consumer.session.timeout.ms": str(NEVER_MS),
    "group.consumer.max.session.timeout.ms": str(NEVER_MS),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path_factory.mktemp("consumers"), 3, SETTINGS, store=store) as cluster:
        with WireClient(cluster.brokers[1].port) as client:
            # FindCoordinator creates the offsets topic.
            request = m.FindCoordinatorRequest(coordinator_keys=["any"])
            until(lambda: client.call(request, 4).coordinators[0].error_code == 0)
        yield cluster


@pytest.fixture
def topic(cluster: BrokerCluster) -> str:
    name = unique("read")
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])
    return name


def coordinator(cluster: BrokerCluster) -> int:
    """Return the leader of the only partition that stores groups, once all running brokers agree."""
    found: set[int | None] = set()

    def told() -> bool:
        found.clear()
        for broker in cluster.brokers.values():
            if broker.running:
                with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
                    (one,) = admin.describe_topics([OFFSETS]).all_topic_names()[OFFSETS].partitions
                found.add(None if one.leader is None else one.leader.id)
        return len(found) == 1 and None not in found

    until(told)
    (leader,) = found
    assert leader is not None
    return leader


def is_killed(cluster: BrokerCluster) -> None:
    """Kill the coordinator with kill -9, and start it again when another broker coordinates."""
    gone = coordinator(cluster)
    cluster.brokers[gone].kill()
    until(lambda: leaders(cluster, OFFSETS)[0] not in (gone, None))
    cluster.brokers[gone].start()
    until(lambda: isr(cluster, OFFSETS) == [{1, 2, 3}])


def is_replaced(cluster: BrokerCluster) -> None:
    """Make another replica the leader: it becomes the preferred one, and ElectLeaders elects it."""
    before = coordinator(cluster)
    where = TopicPartition(OFFSETS, 0)
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.alter_partition_reassignments({where: [before % 3 + 1, (before + 1) % 3 + 1, before]}).all()
        until(lambda: not admin.list_partition_reassignments())
        assert admin.elect_leaders(ElectionType.PREFERRED, [where])[where] is None
    until(lambda: coordinator(cluster) == before % 3 + 1)


def moves_away(cluster: BrokerCluster) -> None:
    """Move the coordinator's replica to another broker, and move it back later."""
    before = coordinator(cluster)
    where = TopicPartition(OFFSETS, 0)
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        for replicas in ([one for one in (1, 2, 3) if one != before], [before % 3 + 1, (before + 1) % 3 + 1, before]):
            admin.alter_partition_reassignments({where: replicas}).all()
            until(lambda: not admin.list_partition_reassignments())
            until(lambda: coordinator(cluster) != before)
    until(lambda: isr(cluster, OFFSETS) == [{1, 2, 3}])


Move = Callable[[BrokerCluster], None]
MOVES: list[Move] = [is_killed, is_replaced, moves_away]


def test_nobody_notices_that_the_coordinator_moves(cluster: BrokerCluster, topic: str) -> None:
    """Epochs and owners stay the same, no record is read twice, and commits still exist."""
    group = unique("group")

    def seen() -> dict[str, object]:
        return picture(lambda: cluster.brokers[coordinator(cluster)].port, group)

    def both_read(both: list[Member], count: int) -> bool:
        owned = [partition for member in both for partition in member.owned]
        assert len(owned) == len(set(owned)), "no partition has two owners"
        return sum(len(member.values) for member in both) >= count

    with members(2, cluster.bootstrap, group, topic, {"group.protocol": "consumer"}) as both:
        until(lambda: shared_out(both, PARTITIONS) and all(len(member.owned) == 3 for member in both))
        until(lambda: seen()["state"] == "Stable")
        # Write records only now: each member then reads some of them, and has offsets to commit.
        fill(cluster.bootstrap, topic, PARTITIONS, 5)
        until(lambda: both_read(both, 30))
        owned = [set(member.owned) for member in both]
        disturbed = [len(member.revocations) for member in both]
        for number, move in enumerate(MOVES, start=1):
            for member in both:
                member.commit()
            before = seen()
            assert before["offsets"] == dict.fromkeys(((topic, index) for index in range(PARTITIONS)), 5 * number)
            move(cluster)
            fill(cluster.bootstrap, topic, PARTITIONS, 5, f"{move.__name__} ")
            until(lambda number=number: both_read(both, 30 * (number + 1)))  # type: ignore[misc]
            assert seen() == before, move
            assert [set(member.owned) for member in both] == owned
            assert [len(member.revocations) for member in both] == disturbed
        read = [value for member in both for value in member.values]
        assert len(read) == len(set(read)) == 30 * (len(MOVES) + 1)
        assert not [error for member in both for error in member.errors if error.fatal()]


@pytest.mark.parametrize("move", MOVES)
def test_a_rebalance_that_is_half_done_goes_on(cluster: BrokerCluster, topic: str, move: Move) -> None:
    """One member has all partitions, and another one joins. The coordinator moves after each step. The new coordinator
    requests the release of the remaining partitions, and assigns none that another member may be reading."""
    group = unique("group")

    def port() -> int:
        return cluster.brokers[coordinator(cluster)].port

    first, second = (ConsumerProtocolMember(port, group, name, (topic,)) for name in ("first", "second"))
    first.beat()
    first.obey()
    assert len(first.owned) == PARTITIONS
    second.beat()

    move(cluster)
    second.beat()
    assert (first.epoch, second.epoch, second.told) == (2, 3, frozenset())
    first.beat()
    assert len(first.told) == PARTITIONS // 2

    move(cluster)
    second.beat()
    assert not second.told, "the first may still read everything"
    first.beat()
    assert (first.epoch, len(first.told)) == (2, PARTITIONS // 2)
    first.obey()
    first.beat()
    assert first.epoch == 3

    move(cluster)
    second.beat()
    assert len(second.told) == PARTITIONS // 2
    assert not second.told & first.owned
    second.obey()
    for member in (first, second):
        before = (member.epoch, member.owned)
        member.beat()
        assert (member.epoch, member.told) == before == (3, member.owned)
    shown = picture(port, group)
    assert (shown["state"], shown["epochs"]) == ("Stable", (3, 3))


def test_who_is_no_coordinator_any_more_says_so(cluster: BrokerCluster, topic: str) -> None:
    """The error makes members look for the next coordinator."""
    member = ConsumerProtocolMember(
        lambda: cluster.brokers[coordinator(cluster)].port, unique("group"), "member", (topic,)
    )
    member.beat()
    before = cluster.brokers[coordinator(cluster)]
    is_replaced(cluster)
    with WireClient(before.port) as client:
        request = m.ConsumerGroupHeartbeatRequest(group_id=member.group, member_id="member", member_epoch=2)
        until(lambda: client.call(request, 1).error_code == ErrorCode.NOT_COORDINATOR)
    member.beat()
    assert member.epoch == 2


def test_settings_of_a_group_hold_wherever_it_is_coordinated(cluster: BrokerCluster, topic: str) -> None:
    """The setting is changed at a broker that does not coordinate the group. It also applies at the broker that takes
    the group over, and at one that was down."""
    member = ConsumerProtocolMember(
        lambda: cluster.brokers[coordinator(cluster)].port, unique("group"), "member", (topic,)
    )
    member.beat()
    member.obey()

    def told() -> int:
        member.beat()
        return member.interval_ms

    def set_to(interval_ms: int, at: int) -> None:
        with blocking.AdminClient({"bootstrap.servers": cluster.brokers[at].bootstrap}) as admin:
            group = ConfigResource(ConfigResourceType.GROUP, member.group)
            change = AlterConfigOp("consumer.heartbeat.interval.ms", f"{interval_ms}")
            admin.incremental_alter_configs({group: [change]}).all()

    assert told() == 200
    set_to(400, coordinator(cluster) % 3 + 1)
    assert told() == 400
    is_replaced(cluster)
    assert told() == 400
    gone = coordinator(cluster)
    cluster.brokers[gone].kill()
    until(lambda: leaders(cluster, OFFSETS)[0] not in (gone, None))
    set_to(600, coordinator(cluster))
    assert told() == 600
    cluster.brokers[gone].start()
    until(lambda: isr(cluster, OFFSETS) == [{1, 2, 3}])
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        where = TopicPartition(OFFSETS, 0)
        others = [one for one in (1, 2, 3) if one != gone]
        admin.alter_partition_reassignments({where: [gone, *others]}).all()
        until(lambda: not admin.list_partition_reassignments())
        admin.elect_leaders(ElectionType.PREFERRED, [where])
    until(lambda: coordinator(cluster) == gone)
    assert told() == 600
