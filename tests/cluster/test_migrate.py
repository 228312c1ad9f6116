"""A single broker becomes the first one of a cluster: `pybroker metadata migrate --to zookeeper`. The migration dies by
kill -9 at the end of each of its steps, and the next run continues it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pybroker
from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing import BrokerProcessError, Cluster
from pybroker.testing.cluster import cluster_settings
from tests.support.cluster import until

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: a single broker moves to it")

LIMIT_S = 120.0
STEPS = ("marked", "copied", "compared", "sealed", "opened", "put aside")
RECORDS = [b"record %03d" % number for number in range(200)]
ALONE = {
    "min.insync.replicas": 1,
    "offsets.topic.num.partitions": 2,
    "delete.topic.delay.ms": 3_600_000,
    "group.initial.rebalance.delay.ms": 0,
}
DYING = """
import asyncio, os, signal, sys
from pybroker.config import load_config
from pybroker.broker.offline.zookeeper_migration import migrate

def told(step):
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(migrate(load_config(None, sys.argv[2:]).config, told))
"""


def commands(broker: str, *arguments: str) -> Any:
    """Return the JSON output of a command."""
    done = CliRunner().invoke(cli, [*arguments, "--json", "--bootstrap-server", broker])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def known(bootstrap: str) -> dict[str, Any]:
    """Return all metadata that the migration must preserve."""
    deletions: Any = []

    def all_are_staged() -> bool:
        deletions[:] = commands(bootstrap, "topics", "deletions")
        return {each["state"] for each in deletions} == {"staged"}

    until(all_are_staged)
    for deletion in deletions:
        del deletion["remaining_ms"]
        for part in deletion["partitions"]:
            del part["remaining_ms"]
    # The broker epoch and its incarnation change; its data does not.
    return {
        "id": commands(bootstrap, "cluster", "id"),
        "topics": [
            (each["topic"], each["topic_id"], each["configs"], len(each["partitions"]))
            for each in commands(bootstrap, "topics", "describe")
        ],
        "histories": [commands(bootstrap, "topics", "history", name) for name in ("orders", "again", "gone")],
        "deletions": deletions,
        "users": commands(bootstrap, "users", "list"),
        "defaults": commands(bootstrap, "configs", "describe", "--entity-type", "brokers", "--entity-default"),
        "group": commands(bootstrap, "groups", "describe", "readers")["positions"],
    }


def read(bootstrap: str, topic: str) -> list[bytes]:
    """All records of a topic with one partition."""
    with blocking.Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[bytes] = []

        def all_are_read() -> bool:
            found.extend(record.value for record in consumer.poll(1))
            return len(found) >= len(RECORDS)

        until(all_are_read)
    return found


def fill(bootstrap: str, password: Path) -> None:
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic("orders", 1, config={"retention.ms": "86400000"})]).all()
        for name in ("again", "gone"):
            admin.create_topics([NewTopic(name, 3)]).all()
            admin.delete_topics([name])
        admin.create_topics([NewTopic("again", 2)]).all()
    with blocking.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True}) as producer:
        for record in RECORDS:
            producer.send("orders", record)
    commands(bootstrap, "groups", "reset-offsets", "readers", "--topic", "orders", "--to-offset", "123", "--execute")
    password.write_text("secret")
    commands(bootstrap, "users", "add", "ann", "--password-file", str(password))
    commands(bootstrap, "configs", "alter", "--entity-type", "brokers", "--entity-default", "--add-config", MIN_ISR)


MIN_ISR = "log.retention.ms=99000000"


def settings_of(cluster: Cluster, data: Path) -> list[str]:
    """The settings of broker 1 in the cluster."""
    return [f"{name}={value}" for name, value in cluster_settings(1, cluster.zookeeper.address).items()] + [
        f"log.dirs={data}"
    ]


def run(cluster: Cluster, data: Path, *, code: int = 0) -> str:
    """Run the command and return its output."""
    sets = [part for setting in settings_of(cluster, data) for part in ("--set", setting)]
    command = [sys.executable, "-m", "pybroker", "metadata", "migrate", "--to", "zookeeper", "--yes", *sets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def dies(cluster: Cluster, data: Path, step: str) -> None:
    command = [sys.executable, "-c", DYING, step, *settings_of(cluster, data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def refusal(broker: pybroker.Broker) -> str:
    """Return the reason why the broker does not start."""
    with pytest.raises(BrokerProcessError) as problem:
        broker.start()
    return str(problem.value)


@pytest.mark.checklist("B17")
def test_one_node_becomes_a_cluster(tmp_path: Path) -> None:
    cluster = Cluster(3, ALONE, data_dir=tmp_path, store="zookeeper")
    data = cluster.brokers[1].data_dir
    alone = pybroker.Broker({"node.id": 1, **ALONE}, data_dir=data)
    try:
        with alone:
            fill(alone.bootstrap, tmp_path / "password")
        cluster.zookeeper.start()
        assert "Move it with `pybroker metadata migrate --to zookeeper" in refusal(cluster.brokers[1])

        for step in STEPS[:3]:
            dies(cluster, data, step)
            # All brokers refuse this ZooKeeper: missing topics would look deleted.
            assert "metadata to this ZooKeeper is not complete" in refusal(cluster.brokers[2])
        # Until the seal, the broker may run alone, and the next run also copies its later changes.
        with alone:
            commands(alone.bootstrap, "topics", "create", "meanwhile")
            commands(alone.bootstrap, "topics", "delete", "meanwhile")
            before = known(alone.bootstrap)
        for step in STEPS[3:5]:
            dies(cluster, data, step)
            there = f"Start with metadata.store=zookeeper and zookeeper.connect={cluster.zookeeper.address}"
            assert there in refusal(alone)
            assert "repeat the command if it was interrupted" in refusal(cluster.brokers[1])
        assert "put aside: done" in run(cluster, data)
        assert "has already moved to ZooKeeper. Start with" in run(cluster, data, code=1)
        assert there in refusal(alone)

        first = cluster.brokers[1].start()
        assert known(first.bootstrap) == before
        assert read(first.bootstrap, "orders") == RECORDS
        (gone,) = [each["topic_id"] for each in before["deletions"] if each["topic"] == "gone"]
        commands(first.bootstrap, "topics", "undelete", gone)
        with blocking.Producer({"bootstrap.servers": first.bootstrap, "enable.idempotence": True}) as producer:
            assert producer.send("orders", b"more").offset == len(RECORDS)
        for number in (2, 3):
            cluster.start_broker(number)
        cluster.settle()
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics([NewTopic("spread", 3, 3)]).all()
        assert read(cluster.brokers[3].bootstrap, "orders")[: len(RECORDS)] == RECORDS
        assert commands(cluster.bootstrap, "cluster", "id") == before["id"]
    finally:
        alone.close()
        cluster.close()


def test_what_cannot_be_migrated(tmp_path: Path) -> None:
    cluster = Cluster(1, data_dir=tmp_path / "cluster", store="zookeeper")
    data = tmp_path / "alone"
    try:
        cluster.zookeeper.start()
        assert "there is nothing to migrate" in run(cluster, data, code=1)
        with pybroker.Broker({"node.id": 1}, data_dir=data):
            assert "is in use by a running broker" in run(cluster, data, code=1)
        cluster.brokers[1].start()
        assert f"already holds a cluster (id {cluster.cluster_id})" in run(cluster, data, code=1)
        with pybroker.Broker({"node.id": 1}, data_dir=data):
            pass
    finally:
        cluster.close()
