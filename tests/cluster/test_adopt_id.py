"""`pybroker cluster adopt-id` with the metadata in ZooKeeper: a broker's directories get the cluster's id."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.broker.offline.offline_directories import read_properties_of, write_properties_of
from tests.support.cluster import ClusterBroker, running_cluster

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: a topic without an id")


def adopt(broker: ClusterBroker, cluster_id: str) -> subprocess.CompletedProcess[str]:
    sets = broker.command()[4:]
    command = [sys.executable, "-m", "pybroker", "cluster", "adopt-id", cluster_id, "--yes", *sets]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_directories_take_the_id_of_the_cluster_over(tmp_path: Path) -> None:
    """The error of a refused start recommends this command. The command accepts only the id that the brokers share."""
    with running_cluster(tmp_path, size=1) as cluster:
        (broker,) = cluster.brokers.values()
        own = (read_properties_of(broker.data_dir) or {})["cluster.id"]
        in_use = adopt(broker, own)
        assert (in_use.returncode, "in use by a running broker" in in_use.stderr) == (1, True)
        broker.stop()
        properties = read_properties_of(broker.data_dir) or {}
        write_properties_of(broker.data_dir, {**properties, "cluster.id": "elsewhere"})
        with pytest.raises(RuntimeError) as refused:
            broker.start()
        assert f"`pybroker cluster adopt-id {own} --config FILE`" in str(refused.value)
        wrong = adopt(broker, "third")
        assert (wrong.returncode, f"holds cluster {own}, whose brokers share that id" in wrong.stderr) == (1, True)
        assert (read_properties_of(broker.data_dir) or {})["cluster.id"] == "elsewhere"
        done = adopt(broker, own)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"elsewhere -> {own}" in done.stdout
        assert read_properties_of(broker.data_dir) == properties
        broker.start()
