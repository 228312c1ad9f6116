"""`pybroker cluster drain | balance`: the plan first, then the replicas move, with records in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing import Cluster
from pybroker.testing.cluster import Store
from tests.support.cluster import SESSION_MS, described, until

OFFSETS = "__consumer_offsets"
SETTINGS = {
    "min.insync.replicas": 1,
    "group.initial.rebalance.delay.ms": 0,
    "zookeeper.session.timeout.ms": SESSION_MS,
}
PARTITIONS = 6
RECORDS = [b"record %03d" % number for number in range(120)]


@pytest.fixture(scope="module")
def cluster(store: Store) -> Iterator[Cluster]:
    with Cluster(3, SETTINGS, store=store) as running:
        with blocking.AdminClient({"bootstrap.servers": running.bootstrap}) as admin:
            admin.create_topics([NewTopic("orders", PARTITIONS, 2)]).all()
        with blocking.Producer({"bootstrap.servers": running.bootstrap}) as producer:
            for number, record in enumerate(RECORDS):
                producer.send("orders", record, partition=number % PARTITIONS)
        run(running, "groups", "reset-offsets", "readers", "--topic", "orders", "--to-latest", "--execute")
        running.settle()
        yield running


def run(cluster: Cluster, *arguments: str, code: int = 0) -> Result:
    address = cluster.brokers[1].bootstrap
    result = CliRunner().invoke(cli, [*arguments, "--bootstrap-server", address])
    assert result.exit_code == code, result.output
    return result


def replicas(cluster: Cluster, topic: str = "orders") -> list[list[int]]:
    with blocking.AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap}) as admin:
        return [[node.id for node in one.replicas] for one in described(admin, topic).partitions]


def on_each(cluster: Cluster, topic: str = "orders") -> Counter[int]:
    return Counter(broker for found in replicas(cluster, topic) for broker in found)


def read(cluster: Cluster) -> set[bytes]:
    found: set[bytes] = set()
    with blocking.Consumer({"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("orders", number) for number in range(PARTITIONS)])

        def all_are_read() -> bool:
            found.update(record.value for record in consumer.poll(1))
            return len(found) >= len(RECORDS)

        until(all_are_read)
    return found


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def test_three_replicas_do_not_fit_on_two_brokers(cluster: Cluster) -> None:
    assert f"{OFFSETS}-0 needs a broker" in run(cluster, "cluster", "drain", "3", "--yes", code=1).output


def test_a_broker_is_drained_and_comes_back_into_use(cluster: Cluster) -> None:
    """Internal topics are as after a migration: `health` reports problems until `balance` has raised their replication
    factor."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        alone = {TopicPartition(OFFSETS, number): [1 + number % 2] for number in range(4)}
        admin.alter_partition_reassignments(alone).all()
        until(lambda: not admin.list_partition_reassignments())
    cluster.settle()
    said = run(cluster, "cluster", "health", code=1).stdout.splitlines()
    assert said == [
        f"{OFFSETS}-{number} has 1 replicas instead of the configured 3; run `pybroker cluster balance`"
        for number in range(4)
    ]

    before = replicas(cluster)
    plan = document(run(cluster, "cluster", "drain", "3", "--dry-run", "--json"))
    assert plan["executed"] is False
    assert {(each["topic"], each["partition"]) for each in plan["partitions"] if each["topic"] == "orders"} == {
        ("orders", number) for number, found in enumerate(before) if 3 in found
    }
    assert all(each["removing"] == [3] and 3 not in each["to"] for each in plan["partitions"])
    assert plan["bytes"] > 0
    assert replicas(cluster) == before
    # Without confirmation the command changes nothing.
    refused = run(cluster, "cluster", "drain", "3", code=1)
    assert "replicas to copy" in refused.output
    assert replicas(cluster) == before

    assert "Moved." in run(cluster, "cluster", "drain", "3", "--yes", "--wait", "--timeout", "120").stdout
    # The command has asked the controller; this broker may apply the change a moment later.
    until(lambda: 3 not in on_each(cluster) and all(len(found) == 2 for found in replicas(cluster)))
    assert run(cluster, "cluster", "drain", "3", "--yes").stdout == "All replicas are already in place.\n"
    assert read(cluster) == set(RECORDS)

    done = document(run(cluster, "cluster", "balance", "--yes", "--wait", "--json"))
    assert done["executed"] is True
    # There are six partitions with two replicas on three brokers, and four with three.
    until(lambda: set(on_each(cluster).values()) == set(on_each(cluster, OFFSETS).values()) == {4})
    cluster.settle()
    until(lambda: run_health(cluster) == 0)
    assert read(cluster) == set(RECORDS)
    assert document(run(cluster, "groups", "describe", "readers", "--json"))["positions"][0]["offset"] == 20
    assert run(cluster, "cluster", "balance", "--yes").stdout == "All replicas are already in place.\n"


def run_health(cluster: Cluster) -> int:
    return CliRunner().invoke(cli, ["cluster", "health", "--bootstrap-server", cluster.bootstrap]).exit_code


def test_topics_get_more_replicas(cluster: Cluster) -> None:
    run(cluster, "cluster", "balance", "--replication-factor", "3", "--yes", "--wait")
    until(lambda: all(sorted(found) == [1, 2, 3] for found in replicas(cluster)))


def test_what_cannot_be_moved(cluster: Cluster) -> None:
    assert "There is no broker 9." in run(cluster, "cluster", "drain", "9", code=1).output
    assert "--timeout requires --wait" in run(cluster, "cluster", "balance", "--timeout", "1", code=2).output
    refused = run(cluster, "cluster", "balance", "--replication-factor", "4", "--yes", code=1)
    assert "needs a broker without a replica of it, but only 3 brokers are left" in refused.output
