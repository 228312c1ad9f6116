"""Streams groups (KIP-1071) over several brokers. Their coordinator moves, by kill -9 and by a reassignment, and an
application of two instances keeps counting. When one of the instances dies, its tasks go to the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.protocol import messages as m
from tests.cluster.test_consumer_groups import OFFSETS, coordinator, is_killed, is_replaced, moves_away
from tests.groups.kit import unique
from tests.streams.kit import QUICK, Counts, Instance, say
from tests.streams.kit import until as until_they
from tests.streams.member import picture
from tests.support.cluster import BrokerCluster, isr, leaders, running_cluster, until
from tests.wire.client import WireClient

PARTITIONS = 4
ALL = {f"a{part}_{index}" for part in (0, 1) for index in range(PARTITIONS)}
COPIES = {f"s1_{index}" for index in range(PARTITIONS)}
SETTINGS = {
    **QUICK,
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "group.streams.session.timeout.ms": "10000",
    "group.streams.num.standby.replicas": "1",
}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path_factory.mktemp("streams"), 3, SETTINGS) as cluster:
        with WireClient(cluster.brokers[1].port) as client:
            # FindCoordinator creates the offsets topic.
            request = m.FindCoordinatorRequest(coordinator_keys=["any"])
            until(lambda: client.call(request, 4).coordinators[0].error_code == 0)
        until(lambda: isr(cluster, OFFSETS) == [{1, 2, 3}])
        yield cluster


def test_an_application_counts_on_while_its_coordinator_moves(cluster: BrokerCluster, tmp_path: Path) -> None:
    application, topics = unique("words"), (unique("lines"), unique("counted"))
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in topics])
    with (
        Instance(cluster.bootstrap, application, topics, tmp_path) as one,
        Instance(cluster.bootstrap, application, topics, tmp_path) as two,
        Counts(cluster.bootstrap, topics[1]) as counts,
    ):

        def shared() -> bool:
            """Return whether each instance has four active tasks, and standby copies of the other's tasks."""
            return (
                one.tasks | two.tasks == ALL | COPIES
                and not one.tasks & two.tasks
                and len(one.tasks) == len(two.tasks) == 6
            )

        until_they(shared, "the tasks are shared out", one, two)
        wanted: dict[str, int] = {}

        def counted(word: str) -> None:
            say(cluster.bootstrap, topics[0], [f"every {word}"] * PARTITIONS)
            wanted.update({"every": wanted.get("every", 0) + PARTITIONS, word: PARTITIONS})
            counts.reach(wanted, one, two)

        counted("first")
        epochs = picture(lambda: cluster.brokers[coordinator(cluster)].port, application)["epochs"]
        for move in (is_killed, is_replaced, moves_away):
            move(cluster)
            counted(move.__name__)
        assert shared()
        assert picture(lambda: cluster.brokers[coordinator(cluster)].port, application)["epochs"] == epochs
        one.kill()
        until_they(lambda: two.tasks == ALL, "the other one takes over, and has nobody for copies", two)
        counted("last")
        two.stop()
    assert all(leader is not None for leader in leaders(cluster, f"{application}-counts-changelog"))
