"""A ZooKeeper that does not match the brokers: another path of it, that of another cluster, a wiped one, one restored
from an old backup. Brokers refuse it with one line and change nothing, until an operator accepts it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.broker.replicas.store_guard import accepted_before
from pybroker.native import Uuid
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, ClusterBroker, running_cluster, until
from tests.support.lives_in_cluster import Everywhere

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: a store that was wiped, or restored from a backup")

REMEDY = "`pybroker cluster accept-restored-store`"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Everywhere]:
    """Two brokers; every test leaves them running, with the topics that it found in service."""
    settings = {"delete.topic.delay.ms": "600000", "stale.replicas.max.percent": "100"}
    with running_cluster(tmp_path_factory.mktemp("guard"), size=2, settings=settings, store=store) as cluster:
        yield Everywhere(cluster)


def made(brokers: Everywhere, name: str) -> Uuid:
    topic_id = brokers.at(1).create(name, 1, replicas=2)
    brokers.written(name, f"of {name}")
    until(lambda: brokers.isr(name, 1) == {1, 2})
    return topic_id


def stop(cluster: BrokerCluster) -> None:
    for broker in cluster.brokers.values():
        broker.stop()
    cluster.zookeeper.stop()


def files(broker: ClusterBroker) -> dict[str, bytes]:
    """Return all files in the log directory except the record of the last stop."""
    found = {}
    for path in sorted(broker.data_dir.rglob("*")):
        if path.is_file() and path.name not in (".lock", ".kafka_cleanshutdown"):
            found[str(path.relative_to(broker.data_dir))] = path.read_bytes()
    return found


def refused(broker: ClusterBroker) -> str:
    """Return the one line of a refused start. Check that nothing has changed on the disk."""
    before = files(broker)
    broker.console.write_bytes(b"")
    with pytest.raises(RuntimeError):
        broker.start()
    assert files(broker) == before
    lines = broker.console.read_text().splitlines()
    assert not any(line.startswith("Traceback") for line in lines), lines
    return lines[-1]


def accept(broker: ClusterBroker) -> subprocess.CompletedProcess[str]:
    sets = broker.command()[4:]
    command = [sys.executable, "-m", "pybroker", "cluster", "accept-restored-store", "--yes", *sets]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def put_aside(broker: ClusterBroker, topic_id: Uuid) -> list[Path]:
    return list((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*"))


@pytest.mark.checklist(307, "B9", "B11")
def test_another_path_and_another_cluster_are_refused(brokers: Everywhere, tmp_path: Path) -> None:
    made(brokers, "kept")
    broker, connect = brokers.cluster.brokers[2], brokers.cluster.zookeeper.address
    broker.stop()
    broker.settings["zookeeper.connect"] = f"{connect}/another"
    line = refused(broker)
    assert f"ZooKeeper at {connect}/another holds no cluster" in line
    assert REMEDY in line
    stranger = ClusterBroker(tmp_path, 7, f"{connect}/another", {"offsets.topic.replication.factor": "1"})
    stranger.start()
    stranger.stop()
    assert "belongs to cluster" in refused(broker)
    broker.settings["zookeeper.connect"] = connect
    broker.start()
    until(lambda: brokers.isr("kept", 1) == {1, 2})
    assert "nothing to accept" in accept(stranger).stderr


@pytest.mark.checklist("B9", "R30")
def test_a_restored_store_is_refused_until_it_is_accepted(brokers: Everywhere, tmp_path: Path) -> None:
    cluster = brokers.cluster
    doomed = made(brokers, "doomed")
    stop(cluster)
    data = cluster.zookeeper.directory / "data"
    shutil.copytree(data, tmp_path / "backup")
    cluster.zookeeper.start()
    cluster.start()
    later = made(brokers, "later")
    assert brokers.at(1).delete(doomed).error_code == 0
    until(lambda: all(put_aside(broker, doomed) for broker in cluster.brokers.values()))
    stop(cluster)
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "backup", data)
    cluster.zookeeper.start()
    for broker in cluster.brokers.values():
        line = refused(broker)
        assert "restored from a backup" in line
        assert REMEDY in line
    done = accept(cluster.brokers[1])
    assert done.returncode == 0, done.stderr
    cluster.start()
    # Topics in the backup exist again; brokers keep other data without a deadline.
    until(lambda: brokers.read("doomed") == ["of doomed"])
    for broker in cluster.brokers.values():
        until(lambda broker=broker: put_aside(broker, later))
        line = f"(id {later}), partitions 0: the cluster's metadata does not know this id"
        until(lambda broker=broker, line=line: line in broker.console.read_text())
    assert "nothing to accept" in accept_again(cluster.brokers[2])
    until(lambda: brokers.isr("doomed", 1) == {1, 2})
    # A metadata quorum to which the metadata is migrated reads the time of the acceptance there.
    assert all(accepted_before(broker.data_dir) > 0 for broker in cluster.brokers.values())


def accept_again(broker: ClusterBroker) -> str:
    broker.stop()
    said = accept(broker).stderr
    broker.start()
    return said


@pytest.mark.checklist("B9", "R30")
def test_a_wiped_store_is_refused_until_it_is_accepted(brokers: Everywhere) -> None:
    cluster = brokers.cluster
    topic_id = made(brokers, "forgotten")
    stop(cluster)
    shutil.rmtree(cluster.zookeeper.directory / "data")
    cluster.zookeeper.start()
    for broker in cluster.brokers.values():
        line = refused(broker)
        assert "holds no cluster" in line
        assert REMEDY in line
    done = accept(cluster.brokers[2])
    assert done.returncode == 0, done.stderr
    cluster.start()
    assert brokers.at(1).metadata("forgotten").error_code != 0
    for number, broker in cluster.brokers.items():
        until(lambda broker=broker: put_aside(broker, topic_id))
        assert b"of forgotten" in brokers.records_of(number, f"deleting/{topic_id.hex}_0")
    made(brokers, "forgotten")
