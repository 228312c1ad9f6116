"""`pybroker cluster drain` of a broker that was lost for good: the other brokers create its replicas."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing import Cluster
from tests.support.cluster import SESSION_MS, described, until

PLACES = {0: [1, 3], 1: [3, 2], 2: [2, 1]}


def run(cluster: Cluster, *arguments: str) -> Result:
    address = cluster.brokers[1].bootstrap
    return CliRunner().invoke(cli, ["cluster", *arguments, "--bootstrap-server", address])


def test_a_dead_broker_is_drained() -> None:
    with Cluster(3, {"min.insync.replicas": 1, "zookeeper.session.timeout.ms": SESSION_MS}) as cluster:
        with (
            blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin,
            blocking.Producer({"bootstrap.servers": cluster.bootstrap}) as producer,
        ):
            admin.create_topics([NewTopic("left", replica_assignments=PLACES)])
            for number in range(30):
                producer.send("left", b"%d" % number, partition=number % 3)
        cluster.settle()
        cluster.kill(3)
        cluster.settle()
        plan = run(cluster, "drain", "3", "--dry-run", "--json")
        assert plan.exit_code == 0, plan.output
        assert {each["partition"]: sorted(each["to"]) for each in json.loads(plan.stdout)["partitions"]} == {
            0: [1, 2],
            1: [1, 2],
        }
        drained = run(cluster, "drain", "3", "--yes", "--wait", "--timeout", "120")
        assert (drained.exit_code, "Moved." in drained.stdout) == (0, True), drained.output
        until(lambda: run(cluster, "health").exit_code == 0)
        with (
            blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin,
            blocking.Consumer({"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"}) as consumer,
        ):
            assert [sorted(node.id for node in one.isr) for one in described(admin, "left").partitions] == [[1, 2]] * 3
            consumer.assign([TopicPartition("left", number) for number in PLACES])
            found: list[int] = []
            until(lambda: found.extend(int(one.value) for one in consumer.poll(0.5)) or len(found) >= 30)
        assert sorted(found) == list(range(30))
