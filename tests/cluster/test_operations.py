"""A broken cluster as operators see it: `pybroker cluster describe | health`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing import Cluster
from pybroker.testing.child_processes import free_port
from pybroker.testing.cluster import Store
from tests.support.cluster import SESSION_MS, until

SETTINGS = {"delete.topic.delay.ms": 600_000, "zookeeper.session.timeout.ms": SESSION_MS}


@pytest.fixture(scope="module")
def cluster(store: Store) -> Iterator[Cluster]:
    with Cluster(3, SETTINGS, racks=("a", "b", "c"), store=store) as running:
        with blocking.AdminClient({"bootstrap.servers": running.bootstrap}) as admin:
            admin.create_topics([NewTopic("orders", 3), NewTopic("alone", replica_assignments={0: [3]})]).all()
            admin.create_topics([NewTopic("alone-2", replica_assignments={0: [2]}, config=ONE)]).all()
            admin.delete_topics(["alone"])
        yield running


ONE = {"min.insync.replicas": "1"}


def run(cluster: Cluster, verb: str, *options: str, ask: int = 1) -> Result:
    """Run the command against one broker."""
    address = cluster.brokers[ask].bootstrap
    result = CliRunner().invoke(cli, ["cluster", verb, "--bootstrap-server", address, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def described(cluster: Cluster, ask: int = 1) -> Any:
    return json.loads(run(cluster, "describe", "--json", ask=ask).stdout)


def problems(cluster: Cluster, ask: int = 1) -> list[str]:
    """Return the lines of `health`."""
    result = run(cluster, "health", ask=ask)
    lines = result.stdout.splitlines()
    assert (result.exit_code == 0) == lines[0].startswith("healthy: ")
    return [] if result.exit_code == 0 else lines


def test_a_cluster_that_is_well(cluster: Cluster) -> None:
    cluster.settle()
    for ask in (1, 2, 3):
        until(lambda ask=ask: problems(cluster, ask) == [])
        shown = described(cluster, ask)
        assert (shown["cluster_id"], shown["controller"]) == (cluster.cluster_id, cluster.controller)
        brokers = {each["broker"]: each for each in shown["brokers"]}
        assert {number: each["rack"] for number, each in brokers.items()} == {1: "a", 2: "b", 3: "c"}
        assert {each["state"] for each in brokers.values()} == {"running"}
        assert {each["store"] for each in brokers.values()} <= {"connected", "reconnected"}
        assert len({each["broker_epoch"] for each in brokers.values()}) == 3
        assert [each["broker"] for each in brokers.values() if each["controller"]] == [cluster.controller]
        assert sum(each["leader_count"] for each in brokers.values()) == shown["partition_count"] == 4
        assert sum(each["replica_count"] for each in brokers.values()) == 10
        assert shown["partitions"] == []
    table = run(cluster, "describe").stdout
    assert f"Cluster id: {cluster.cluster_id}\n" in table
    assert "2 topics, 4 partitions: 0 offline, 0 under replicated" in table


def test_what_is_being_deleted_where(cluster: Cluster) -> None:
    def replica() -> Any:
        (deletion,) = described(cluster)["deletions"]
        assert (deletion["topic"], deletion["deleted_by"]) == ("alone", "User:ANONYMOUS")
        (only,) = deletion["partitions"]
        return only

    until(lambda: replica()["state"] == "staged")
    # The size comes from the broker that has the data, whichever broker gets the request.
    assert (replica()["broker"], replica()["partition"]) == (3, 0)
    assert replica()["bytes"] is not None
    assert "3:staged:" in run(cluster, "describe").stdout


def test_a_broker_that_is_dead(cluster: Cluster) -> None:
    cluster.kill(2)
    cluster.settle()
    shown = described(cluster)
    (dead,) = [each for each in shown["brokers"] if each["broker"] == 2]
    assert (dead["state"], dead["broker_epoch"], dead["replica_count"], dead["leader_count"]) == ("absent", None, 4, 0)
    assert shown["counts"] == {
        "offline": 1,
        "under_replicated": 4,
        "under_min_isr": 1,
        "at_min_isr": 3,
        "reassigning": 0,
        "too_few_replicas": 0,
    }
    assert [(each["topic"], each["partition"], each["is"]) for each in shown["partitions"]] == [
        ("alone-2", 0, ["offline", "under_replicated", "under_min_isr"]),
        *(("orders", number, ["under_replicated"]) for number in range(3)),
    ]
    lines = problems(cluster, ask=3)
    assert lines[:2] == [
        "broker 2 is not running but has 4 replicas",
        "alone-2-0 has no leader (replicas 2, last in sync: 2)",
    ]
    assert len(lines) == 5
    assert [line.partition(" (")[0] for line in lines[2:]] == [
        f"orders-{number} is under-replicated: 2 not in sync" for number in range(3)
    ]
    document = json.loads(run(cluster, "health", "--json").stdout)
    assert (document["healthy"], [each["what"] for each in document["problems"]]) == (
        False,
        ["absent", "offline", *["under_replicated"] * 3],
    )
    cluster.start_broker(2)
    cluster.settle()
    until(lambda: problems(cluster) == [])


def test_a_dead_machine_is_replaced(cluster: Cluster) -> None:
    """The broker returns with the same id and empty disks, and copies its data from the others."""
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        for number in range(30):
            producer.send("orders", b"%d" % number, partition=number % 3)
    cluster.kill(3)
    shutil.rmtree(cluster.brokers[3].data_dir)
    cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    until(lambda: problems(cluster) == [])
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        (directory,) = admin.describe_log_dirs([3])[3].values()
        assert min(directory.replicas[TopicPartition("orders", number)].size for number in range(3)) > 0


@pytest.mark.only_on_zookeeper("ZooKeeper's own: it is unreachable")
def test_zookeeper_that_is_gone(cluster: Cluster) -> None:
    cluster.zookeeper.kill()
    expected = [f"broker {number} cannot reach the metadata store (session suspended)" for number in (1, 2, 3)]
    until(lambda: problems(cluster) == expected)
    cluster.zookeeper.start()
    until(lambda: problems(cluster) == [])
    cluster.settle()


def test_nobody_answers() -> None:
    address = f"127.0.0.1:{free_port()}"
    result = CliRunner().invoke(cli, ["cluster", "health", "--bootstrap-server", address])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
