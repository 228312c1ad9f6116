"""One broker of a cluster decides, clients can send requests to any broker, and another broker takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from tests.support.brokers import BrokerProcess
from tests.support.cluster import BrokerCluster, leaders, running_cluster, until
from tests.support.cluster_state import state_of
from tests.support.lives_in_cluster import Everywhere


def create(broker: BrokerProcess, name: str, partitions: int = 6) -> None:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])


def listed(broker: BrokerProcess) -> set[str]:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        return set(admin.list_topics())


@pytest.mark.checklist("R26")
def test_any_broker_can_be_asked(cluster: BrokerCluster) -> None:
    for number in cluster.brokers:
        lives = Everywhere(cluster).at(number)
        lives.create(f"by-{number}", 6)
        # The receiving broker shows the change when it responds, the others a moment later.
        assert lives.metadata(f"by-{number}").error_code == 0
    for broker in cluster.brokers.values():
        until(lambda broker=broker: listed(broker) == {"by-1", "by-2", "by-3"})


def test_records_go_to_the_brokers_that_lead(cluster: BrokerCluster) -> None:
    create(cluster.brokers[1], "spread", 6)
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        for number in range(60):
            producer.send("spread", str(number).encode(), partition=number % 6)
    until(lambda: set(leaders(cluster, "spread")) == {1, 2, 3})


def test_another_broker_becomes_controller(cluster: BrokerCluster) -> None:
    create(cluster.brokers[1], "before")
    cluster.brokers[1].kill()
    create(cluster.brokers[2], "after", 4)
    for number in (2, 3):
        until(lambda number=number: listed(cluster.brokers[number]) == {"before", "after"})
    cluster.brokers[1].start()
    until(lambda: listed(cluster.brokers[1]) == {"before", "after"})


@pytest.mark.checklist(7, 66, "A12", "R30")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: a new controller loads the cluster")
def test_a_controller_that_has_not_loaded_yet_leaves_everything_as_it_is(tmp_path: Path) -> None:
    """A broker starts meanwhile and waits for the complete list of its replicas: with an incomplete list, it would
    stage the missing ones. The limit for staging (stale.replicas.max.percent) is off."""
    module = ("tests.cluster.loads_late", str(tmp_path))
    settings = {"stale.replicas.max.percent": "100"}
    with (
        running_cluster(tmp_path, settings=settings, module=module) as cluster,
        state_of(cluster) as state,
    ):
        brokers = Everywhere(cluster)
        brokers.create("held", 3)
        brokers.written("held", "kept")
        until(lambda: brokers.isr("held", 1) == {1, 2, 3})
        before = brokers.controller()
        cluster.brokers[before].kill()
        until((tmp_path / "loading").exists)
        until(lambda: state.controller() not in (None, before))
        (starting,) = {1, 2, 3} - {before, state.controller()}
        life = state.life(starting)
        cluster.brokers[starting].kill()
        cluster.brokers[starting].launch()
        until(lambda: state.life(starting) > life)
        (tmp_path / "go").touch()
        cluster.brokers[starting].await_answers()
        cluster.brokers[before].start()
        until(lambda: brokers.isr("held", 1) == {1, 2, 3})
        # A leader shows committed records only after its followers have fetched them.
        until(lambda: brokers.read("held") == ["kept"])
        for broker in cluster.brokers.values():
            assert len(list(broker.data_dir.glob("held-*/partition.metadata"))) == 3
            assert not list((broker.data_dir / "deleting").glob("*"))
