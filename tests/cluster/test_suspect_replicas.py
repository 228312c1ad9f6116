"""All replicas in sync may have lost records. When all have reported their log ends, the one with the longest log
leads. A replica whose log is missing does not become leader and does not count as in sync."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pybroker.client import AlterConfigOp, ConfigResource, blocking
from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.support.cluster import BrokerCluster, ClusterBroker, running_cluster, until
from tests.support.cluster_state import state_of
from tests.support.partition_states import PartitionState
from tests.support.replicas import (
    await_unregistered,
    create,
    log_of,
    produce_as_leader,
    read,
    same_logs,
    segments_of,
    state,
)
from tests.support.zookeeper import zookeeper_client

SETTINGS = {
    "replica.lag.time.max.ms": "1000",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "1",
    "log.flush.mode": "os",
}

MACHINES = 3
"""Brokers 1 to 3 have the replicas. A quorum has more brokers, which make a majority with one of them."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    def on_a_machine(broker: ClusterBroker) -> None:
        broker.boot_id = "boot 0"

    folder = tmp_path_factory.mktemp("suspect")
    size = survives_two_losses(store)
    with running_cluster(folder, size, SETTINGS, prepare=on_a_machine, store=store) as running:
        yield running


class PowerCut:
    """A power cut of all machines at once. The test sets what each log keeps."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        cluster.kill()
        for broker in cluster.brokers.values():
            broker.boot_id = f"after {broker.boot_id}"

    def keep(self, number: int, topic: str, batches: int) -> None:
        """Set how many batches of this replica's log were on disk."""
        (path,) = segments_of(self.cluster.brokers[number], topic)
        whole = path.read_bytes()
        at = 0
        for _ in range(batches):
            at += 12 + int.from_bytes(whole[at + 8 : at + 12], "big")
        path.write_bytes(whole[:at])

    def registrations_end(self) -> None:
        """Wait until the sessions have ended: machines take longer to start than a session lasts. A quorum without a
        majority ends no registration."""
        if self.cluster.on_quorum:
            return
        with state_of(self.cluster) as state:
            until(lambda: not state.brokers())

    def power_up(self, *numbers: int) -> None:
        """Start these brokers, and those that have no replicas: a quorum decides nothing before a majority runs."""
        self.launch(*numbers)
        for broker in self.cluster.brokers.values():
            if broker.running:
                broker.await_answers()

    def launch(self, *numbers: int) -> None:
        """Like `power_up`, without waiting."""
        for number, broker in self.cluster.brokers.items():
            if number in numbers or number > MACHINES:
                broker.launch()


def said(cluster: BrokerCluster) -> Callable[[], str]:
    """Return later log lines of brokers."""
    before = {number: broker.console.stat().st_size for number, broker in cluster.brokers.items()}
    return lambda: "".join(broker.console.read_text()[before[number] :] for number, broker in cluster.brokers.items())


def stored(cluster: BrokerCluster, topic: str) -> PartitionState:
    """Return the state of partition 0, even if no broker is running."""
    with state_of(cluster) as told:
        return told.partitions()[topic, 0]


def in_zookeeper(cluster: BrokerCluster, topic: str) -> dict[str, Any]:
    """Return the state of partition 0, even if no broker is running."""
    with zookeeper_client(cluster.zookeeper.address) as client:
        found: dict[str, Any] = json.loads(client.get(f"/brokers/topics/{topic}/partitions/0/state")[0])
    return found


def allow_unclean(cluster: BrokerCluster, at: int, topic: str) -> None:
    with blocking.AdminClient({"bootstrap.servers": cluster.brokers[at].bootstrap}) as admin:
        change = AlterConfigOp("unclean.leader.election.enable", "true")
        admin.incremental_alter_configs({ConfigResource.topic(topic): [change]})


@pytest.mark.checklist("C2", "C4", "R29")
@pytest.mark.parametrize("sessions_end", [True, False], ids=["later", "within-the-session"])
def test_who_has_most_leads_after_a_power_cut(cluster: BrokerCluster, sessions_end: bool) -> None:
    """The replica with the longest log leads, whichever returns first, and even while sessions of the dead brokers are
    still registered."""
    name = f"most-{sessions_end}".lower()
    create(cluster, name, [2, 3, 1])
    for value in "abcd":
        produce_as_leader(cluster.brokers[2], name, value)
    whole = same_logs(cluster, name)
    told = said(cluster)
    cut = PowerCut(cluster)
    cut.keep(2, name, 1)
    cut.keep(3, name, 2)
    if sessions_end:
        cut.registrations_end()
    # Start the complete replica first: the controller must remember its report while later ones arrive.
    cut.launch(1)
    # If the others count as dead before it has registered, it is the last in the ISR and leads.
    until(lambda: 1 not in stored(cluster, name).isr or stored(cluster, name).leader == 1)
    if sessions_end and cluster.on_quorum:
        for number in (2, 3):
            await_unregistered(cluster, number)
    cluster.brokers[3].launch()
    # If this one was the last in the ISR, broker 1 leads as soon as both have reported.
    until(lambda: 3 not in stored(cluster, name).isr or stored(cluster, name).leader == 1)
    cluster.brokers[2].launch()
    for broker in cluster.brokers.values():
        broker.await_answers()
    until(lambda: state(cluster, name).isr == {1, 2, 3})
    assert same_logs(cluster, name)[: len(whole)] == whole
    assert read(cluster, name) == ["a", "b", "c", "d"]
    until(lambda: any(f"{name}-0" in line and "may be lost" in line for line in told().splitlines()))


@pytest.mark.checklist("C8", "R29")
def test_who_does_not_come_back_is_waited_for_until_an_operator_decides(cluster: BrokerCluster) -> None:
    """The log end of the missing replica is unknown. The broker's log names the replica, and the partitions that
    continue without it."""
    create(cluster, "waiting", [2, 3])
    produce_as_leader(cluster.brokers[2], "waiting", "a", "b")
    produce_as_leader(cluster.brokers[2], "waiting", "c")
    same_logs(cluster, "waiting")
    told = said(cluster)
    cut = PowerCut(cluster)
    cut.keep(2, "waiting", 1)
    # While its port accepts connections, broker 3 does not count as dead before its session ends. It would leave the
    # ISR if it did so before broker 2 has registered.
    with socket.create_server(("127.0.0.1", cluster.brokers[3].between_port)):
        cut.power_up(1, 2)
        until(lambda: "brokers 3 are back, which may have records" in told())
    # This broker may show it a moment after the controller's decision.
    until(lambda: state(cluster, "waiting").leader == -1)
    allow_unclean(cluster, 1, "waiting")
    until(lambda: state(cluster, "waiting").leader == 2)
    cluster.brokers[3].start()
    same_logs(cluster, "waiting")
    assert read(cluster, "waiting") == ["a", "b"]


@pytest.mark.checklist("C8", "R29")
def test_the_last_one_in_sync_is_short_and_says_so(cluster: BrokerCluster) -> None:
    """No other replica can lead: records that were not flushed are lost, and the log names the partitions. Such a loss
    is always logged, and is never caused by a replica that had left the ISR and returns first."""
    create(cluster, "standing", [2, 3], min_insync_replicas="1")
    produce_as_leader(cluster.brokers[2], "standing", "a")
    same_logs(cluster, "standing")
    cluster.brokers[3].stop()
    until(lambda: state(cluster, "standing").isr == {2})
    for value in "bc":
        produce_as_leader(cluster.brokers[2], "standing", value)
    told = said(cluster)
    cut = PowerCut(cluster)
    cut.keep(2, "standing", 2)
    cut.power_up(1, 3)
    # While its old session is still registered, it may be elected.
    until(lambda: state(cluster, "standing").leader == -1)
    assert "standing-0" not in told()
    cluster.brokers[2].start()
    until(lambda: state(cluster, "standing").isr == {2, 3})
    same_logs(cluster, "standing")
    assert read(cluster, "standing") == ["a", "b"]
    until(lambda: any("standing-0" in line and "lost" in line for line in told().splitlines()))


@pytest.mark.checklist("C7", "R29")
def test_a_log_that_is_gone_does_not_lead(cluster: BrokerCluster) -> None:
    """The disk exists, but the partition's directory is missing. The designated leader lets another replica lead, and
    copies everything. A follower leaves the ISR before it copies."""
    for name, replicas in (("led", [2, 3, 1]), ("followed", [3, 2, 1])):
        create(cluster, name, replicas)
        produce_as_leader(cluster.brokers[replicas[0]], name, "kept")
    whole = {name: same_logs(cluster, name) for name in ("led", "followed")}
    cluster.kill()
    for name in whole:
        shutil.rmtree(cluster.brokers[2].data_dir / f"{name}-0")
    cluster.start()
    for name, kept in whole.items():
        until(lambda name=name: state(cluster, name).isr == {1, 2, 3})
        assert same_logs(cluster, name)[: len(kept)] == kept
        assert read(cluster, name) == ["kept"]


@pytest.mark.checklist("C8", "R29")
def test_the_last_log_in_sync_that_is_gone_is_not_begun_anew(cluster: BrokerCluster) -> None:
    """The other replicas keep their records. If all logs are missing, there is nothing to keep."""
    create(cluster, "last", [2, 3])
    produce_as_leader(cluster.brokers[2], "last", "kept")
    same_logs(cluster, "last")
    cluster.brokers[3].stop()
    until(lambda: state(cluster, "last").isr == {2})
    produce_as_leader(cluster.brokers[2], "last", "lost")
    told = said(cluster)
    cluster.brokers[2].kill()
    shutil.rmtree(cluster.brokers[2].data_dir / "last-0")
    cluster.brokers[2].start()
    cluster.brokers[3].start()
    until(lambda: state(cluster, "last").leader == -1)
    until(lambda: any("are gone" in line and "last-0" in line for line in told().splitlines()))
    assert b"kept" in log_of(cluster.brokers[3], "last")
    # The broker's next start finds no records either.
    cluster.brokers[2].restart(crash=True)
    if not cluster.on_quorum:
        until(lambda: in_zookeeper(cluster, "last").get("suspect") == [[2, -1, -2]])
    allow_unclean(cluster, 1, "last")
    until(lambda: state(cluster, "last").leader == 3)
    same_logs(cluster, "last")
    assert read(cluster, "last") == ["kept"]
    cluster.kill()
    for number in (2, 3):
        shutil.rmtree(cluster.brokers[number].data_dir / "last-0")
    cluster.start()
    until(lambda: state(cluster, "last").isr == {2, 3} and state(cluster, "last").leader > 0)
    produce_as_leader(cluster.brokers[state(cluster, "last").leader], "last", "anew")
    assert read(cluster, "last") == ["anew"]


@pytest.mark.checklist("C7", "R29")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: the node of the controller is taken")
def test_a_doubt_is_told_until_a_controller_has_heard_it(cluster: BrokerCluster) -> None:
    """The broker's first start after the power cut finds no controller and is killed; the machine then stays up. The
    broker still reports the records that were lost before."""
    create(cluster, "doubted", [2, 3])
    for value in "abc":
        produce_as_leader(cluster.brokers[2], "doubted", value)
    whole = same_logs(cluster, "doubted")
    PowerCut(cluster).keep(2, "doubted", 1)
    with zookeeper_client(cluster.zookeeper.address) as client:
        until(lambda: not client.exists("/controller"))
        office = {"version": 1, "brokerid": 1, "timestamp": "0"}
        client.create("/controller", json.dumps(office).encode(), ephemeral=True)
        for _ in range(2):
            before = client.exists("/brokers/ids/2")
            cluster.brokers[2].launch()
            until(lambda before=before: (now := client.exists("/brokers/ids/2")) and now != before)
            assert json.loads(client.get("/brokers/ids/2")[0])["intact"] is False
            cluster.brokers[2].kill()
    cluster.start()
    assert same_logs(cluster, "doubted")[: len(whole)] == whole
