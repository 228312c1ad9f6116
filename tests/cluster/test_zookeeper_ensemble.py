"""Three ZooKeeper servers: brokers do not act on the state of a server that lags, and without a majority records
continue while decisions wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.broker.metadata import znodes
from pybroker.client import TopicPartition, blocking
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.cluster.test_deadlines import create_at
from tests.support.cluster import BrokerCluster, isr, until
from tests.support.cluster_state import ZooKeeperState
from tests.support.links import Links
from tests.support.lives_in_cluster import Everywhere
from tests.support.replicas import Writer, create, read, same_logs, state
from tests.support.zookeeper import Ensemble, zookeeper_client

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: an ensemble")

SESSION_S = 6
LATE = 3
"""The server that can be delayed. Each broker knows only the server with its own number."""
DELAY_S = 14
"""Session timeout: a loaded machine can cut all links before the session ends."""


class Servers(Everywhere):
    """The cluster and its ZooKeeper servers."""

    def __init__(self, cluster: BrokerCluster, ensemble: Ensemble, links: Links) -> None:
        super().__init__(cluster)
        self.ensemble = ensemble
        self.links = links

    def noted(self, topic_id: Uuid) -> bool:
        """Return whether the late broker has stored when the delay of its data began, which it does a second later."""
        with zookeeper_client(self.ensemble.servers[LATE - 1].address) as client:
            stat = client.exists(f"{znodes.STAGED}/{LATE}/{topic_id}")
        return stat is not None and stat.version > 0

    def hold_back(self) -> None:
        """The ZooKeeper leader's messages do not reach the late server, which continues to serve its old state."""
        for leader in (1, 2):
            self.links.cut(f"server {leader}", f"server {LATE}")

@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("ensemble")
    ensemble, links = Ensemble(folder, 3), Links()
    late = ensemble.servers[LATE - 1]
    # No server or client drops a server that lags.
    for server in ensemble.servers:
        server.settings["syncLimit"] = "600"
    for number in (1, 2):
        address = late.settings[f"server.{number}"].split(":")
        address[1] = str(links.to(f"server {number}", int(address[1]), f"server {LATE}"))
        late.settings[f"server.{number}"] = ":".join(address)
    settings = {
        "zookeeper.session.timeout.ms": str(1_000 * SESSION_S),
        "delete.topic.delay.ms": str(1_000 * DELAY_S),
        "auto.leader.rebalance.enable": "false",
    }
    try:
        # One of the first two is ZooKeeper's leader: they have a majority.
        for server in ensemble.servers[:2]:
            server.launch()
        for server in ensemble.servers[:2]:
            server.wait()
        late.start()
        cluster = BrokerCluster(folder, 3, ensemble.servers[0], settings)
        for number, broker in cluster.brokers.items():
            broker.behind(links, ensemble.servers[number - 1].port)
        # Decisions must not wait for the late server.
        cluster.start(last=LATE)
        yield Servers(cluster, ensemble, links)
    finally:
        links.close()
        cluster.kill()
        for server in ensemble.servers:
            server.kill()


@pytest.mark.checklist("B7", "R30", "X38")
def test_what_a_server_that_is_behind_says_removes_nothing(servers: Servers) -> None:
    """A broker's replica was moved away and is moved back while the broker gets neither messages of the controller nor
    news from its ZooKeeper server. By that server's old state, the data may be removed after its deadline."""
    cluster = servers.cluster
    topic_id = servers.at(1).create_on("given-back", [1, LATE])
    servers.written("given-back", "kept", at=1)
    until(lambda: servers.isr("given-back", 1) == {1, LATE})
    with blocking.AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap}) as admin:
        where = TopicPartition("given-back", 0)
        admin.alter_partition_reassignments({where: [1, 2]})
        until(lambda: aside(cluster))
        moved = time.monotonic()
        # After a write of its own, the broker would wait in any case.
        until(lambda: servers.noted(topic_id))
        servers.hold_back()
        try:
            servers.links.cut_off(LATE, 1, 2)
            admin.alter_partition_reassignments({where: [1, 2, LATE]})
            # This is a second longer than the delay. The test must sleep, because it expects that nothing happens.
            until(lambda: time.monotonic() > moved + DELAY_S + 1)
            assert aside(cluster)
        finally:
            servers.links.heal()
    until(lambda: servers.isr("given-back", 1) == {1, 2, LATE})
    until(lambda: not aside(cluster))
    assert servers.records_of(LATE, "given-back-0") == servers.records_of(1, "given-back-0")


def aside(cluster: BrokerCluster) -> list[Path]:
    """Return the staged replicas of the broker whose ZooKeeper server lags."""
    return list((cluster.brokers[LATE].data_dir / "deleting").glob("*"))


@pytest.mark.checklist("B8", "R35")
def test_without_a_majority(servers: Servers) -> None:
    """The majority is missing for longer than a session: leaders lead, records are acknowledged and read, requests that
    need a decision fail within their timeout, and no leadership moves. Afterwards everything resumes."""
    cluster = servers.cluster
    create(cluster, "led-on", [1, 2, 3], min_insync_replicas="2")
    until(lambda: isr(cluster, "led-on") == [{1, 2, 3}])
    writer = Writer(cluster, "led-on")
    writer.start()
    writer.goes_on()
    before = state(cluster, "led-on")
    for server in servers.ensemble.servers[:2]:
        server.kill()
    lost = time.monotonic()
    while time.monotonic() < lost + 1.5 * SESSION_S:
        writer.goes_on()
    assert create_at(cluster.brokers[2], "undecided", 1, 1_500) == ErrorCode.REQUEST_TIMED_OUT
    assert state(cluster, "led-on") == before
    for server in servers.ensemble.servers[:2]:
        server.launch()
    with ZooKeeperState(servers.ensemble.connect) as told:
        until(lambda: told.brokers() == {1, 2, 3} and told.controller() is not None)
    until(lambda: create_at(cluster.brokers[2], "decided", 1, 5_000) in (0, ErrorCode.TOPIC_ALREADY_EXISTS))
    writer.goes_on()
    acknowledged = writer.finish()
    same_logs(cluster, "led-on")
    assert read(cluster, "led-on")[: len(acknowledged)] == acknowledged
