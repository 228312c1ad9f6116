"""Sessions of brokers with ZooKeeper. Until a session ends, no broker loses leadership, and an id belongs to one
broker. A broker that ZooKeeper refuses changes nothing."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, ClusterBroker, running_cluster, until
from tests.support.cluster_state import state_of

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: sessions, and znodes with ACLs")

END_S = 120
DIGEST = "brokers:secret"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    """A cluster whose sessions last longer than the faults of these tests."""
    settings = {
        "zookeeper.session.timeout.ms": "20000",
        "zookeeper.digest": DIGEST,
        "zookeeper.set.acl": "true",
    }
    with running_cluster(tmp_path_factory.mktemp("sessions"), settings=settings, store=store) as running:
        yield running


def refused(broker: ClusterBroker) -> str:
    """Return the last output of a broker that does not start."""
    done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode not in (0, -signal.SIGKILL), "it has started"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.mark.checklist("B4")
def test_zookeeper_is_away_for_less_than_a_session(cluster: BrokerCluster) -> None:
    """No leadership moves: controller, broker epochs and leaders stay the same. Records are accepted, and decisions
    wait."""
    servers = {"bootstrap.servers": cluster.bootstrap}
    with (
        blocking.AdminClient(servers) as admin,
        blocking.Producer(servers) as producer,
        state_of(cluster, DIGEST) as state,
        ThreadPoolExecutor(1) as threads,
    ):
        admin.create_topics([NewTopic("calm", 3, 3, config={"min.insync.replicas": "2"})])
        producer.send("calm", b"0", partition=0)
        until(lambda: state.brokers() == {1, 2, 3})
        before = state.controller(), state.partitions()
        cluster.zookeeper.pause()
        try:
            waits = threads.submit(admin.create_topics, [NewTopic("later", 1, 1)])
            for number in range(1, 60):
                producer.send("calm", str(number).encode(), partition=number % 3)
            assert not waits.done()
        finally:
            cluster.zookeeper.resume()
        waits.result(END_S)
        until(lambda: state.brokers() == {1, 2, 3})
        after = {one: found for one, found in state.partitions().items() if one[0] == "calm"}
        assert (state.controller(), after) == before
    found: list[int] = []
    with blocking.Consumer({**servers, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("calm", number) for number in range(3)])
        until(lambda: found.extend(int(one.value) for one in consumer.poll(0.5)) or len(found) >= 60)
    assert sorted(found) == list(range(60))


@pytest.mark.checklist("B3", "B12")
def test_an_id_that_is_in_use_is_refused(cluster: BrokerCluster, tmp_path: Path) -> None:
    """A second broker with the same id does not start, and the first continues; leftovers of its own ended session do
    not stop a broker."""
    second = ClusterBroker(tmp_path / "second", 2, cluster.zookeeper.address, dict(cluster.brokers[2].settings))
    second.settings |= {"listeners": f"PLAINTEXT://127.0.0.1:{second.port},BETWEEN://127.0.0.1:{second.between_port}"}
    assert "broker id 2 is in use by a live broker of this cluster; choose another node.id" in refused(second)
    with blocking.AdminClient({"bootstrap.servers": cluster.brokers[2].bootstrap}) as admin:
        admin.create_topics([NewTopic("unmoved", 3, 3)])
    cluster.brokers[2].restart(crash=True)
    with blocking.AdminClient({"bootstrap.servers": cluster.brokers[2].bootstrap}) as admin:
        assert "unmoved" in admin.list_topics()


@pytest.mark.checklist("B11")
def test_who_may_not_write_to_zookeeper_does_not_start(cluster: BrokerCluster) -> None:
    """The broker has another password than the cluster. It logs one line, and its disk stays unchanged."""
    broker = cluster.brokers[3]
    broker.stop()
    held = sorted(path.name for path in broker.data_dir.iterdir() if path.is_dir())
    right = broker.settings["zookeeper.digest"]
    broker.settings["zookeeper.digest"] = "brokers:wrong"
    try:
        said = refused(broker)
    finally:
        broker.settings["zookeeper.digest"] = right
    assert "ZooKeeper denied access: the ACL of the node names another user than zookeeper.digest" in said
    assert "bug in pybroker" not in said
    assert sorted(path.name for path in broker.data_dir.iterdir() if path.is_dir()) == held
    broker.start()
