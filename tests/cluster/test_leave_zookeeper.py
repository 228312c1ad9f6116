"""A cluster leaves ZooKeeper: `pybroker metadata migrate --from zookeeper --to quorum`.

The migration dies by kill -9 at the end of each of its steps, and the next run continues it.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from pybroker.broker.metadata import znodes
from pybroker.broker.offline.quorum_directory import read_image
from pybroker.client import NewTopic, blocking
from pybroker.protocol.error_codes import ErrorCode
from tests.quorum.test_migrate import deleted, dies, migrate, refusal
from tests.support.cluster import BrokerCluster, ClusterBroker, until
from tests.support.zookeeper import ZooKeeperServer, zookeeper_client
from tests.topic_ids.lives import Lives
from tests.upgrade.stored import DELETED, FOR_EVER, facts, fill, records, undeleted

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: a cluster leaves it")

STEPS = ("marked", "written", "sealed", "opened")
OF_ZOOKEEPER = ("metadata.store", "zookeeper.connect", "zookeeper.session.timeout.ms")
FROM = ("--from", "zookeeper")


def of_quorum(broker: ClusterBroker, join: int | None) -> None:
    """Give a broker the settings for the metadata quorum. `join`: the inter-broker port of another broker."""
    for name in OF_ZOOKEEPER:
        broker.settings.pop(name)
    broker.settings |= {"metadata.store": "quorum", "controller.quorum.fetch.timeout.ms": "10000"}
    if join is not None:
        broker.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{join}"


def is_unknown(port: int, name: str) -> bool:
    """Whether the broker with this port shows no such topic."""
    return bool(Lives(port).metadata(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def last_epochs(server: ZooKeeperServer) -> tuple[int, dict[tuple[str, int], int]]:
    """Return ZooKeeper's last transaction, and the leader epoch of each partition."""
    with zookeeper_client(server.address) as client:
        running, leaders = 0, {}
        for number in client.get_children(znodes.RUNNING):
            running = max(running, client.get(f"{znodes.RUNNING}/{number}")[1].mzxid)
        for topic in client.get_children(znodes.TOPICS):
            for index in client.get_children(znodes.partitions_path(topic)):
                path = znodes.state_path(topic, int(index))
                leaders[topic, int(index)] = znodes.decode_state(path, client.get(path)[0]).leader_epoch
    return running, leaders


@pytest.mark.checklist("B17")
def test_cluster_moves_from_zookeeper_to_a_quorum(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "zookeeper")
    cluster = BrokerCluster(tmp_path, 3, server, FOR_EVER)
    first, second, third = cluster.brokers.values()
    server.start()
    try:
        cluster.start()
        fill(first, 3)
        topic_id, held = deleted(first)
        # The other brokers learn of the deletion a moment later.
        for broker in cluster.brokers.values():
            until(partial(is_unknown, broker.port, DELETED))
        before = facts(first)
        old = dict(first.settings)
        told = migrate(old, first.data_dir, *FROM, code=1)
        assert "is in use by a running broker" in told
        first.stop()
        told = migrate(old, first.data_dir, *FROM, code=1)
        assert "brokers are registered in ZooKeeper: 2, 3. Stop all brokers" in told
        # A refused command changes nothing.
        first.start()
        for broker in (first, second):
            broker.stop()
        # This broker hangs during the whole migration.
        os.kill(third.pid, signal.SIGSTOP)
        until(lambda: not registered(server))

        for step in STEPS[:2]:
            dies("migrate_cluster", old, first.data_dir, step)
            assert "is being moved from ZooKeeper to a metadata log" in refusal(second)
        told = migrate(dict(second.settings), second.data_dir, *FROM, code=1)
        assert "broker 1 has begun this migration" in told
        transaction, leader_epochs = last_epochs(server)
        for step in STEPS[2:]:
            dies("migrate_cluster", old, first.data_dir, step)
            for broker in (first, second):
                assert f"and all others also with --join 127.0.0.1:{first.between_port}" in refusal(broker)
        assert "has already moved to the metadata log of broker 1" in migrate(old, first.data_dir, *FROM, code=1)
        image = read_image(first.data_dir)
        assert image.offset > transaction
        found = {
            (topic.name, index): partition.leader_epoch
            for topic in image.topics.values()
            for index, partition in enumerate(topic.partitions)
        }
        assert found == {partition: epoch + 1 for partition, epoch in leader_epochs.items()}
        os.kill(third.pid, signal.SIGCONT)
        assert third.wait() != 0
        assert "has moved from ZooKeeper to the metadata log of broker 1" in third.log_tail()
        server.kill()
        assert not list(first.data_dir.glob(".quorum-migration*"))

        of_quorum(first, None)
        first.start()
        for broker in (second, third):
            of_quorum(broker, first.between_port)
            broker.launch()
        for broker in (second, third):
            broker.await_answers()
        until(lambda: all(facts(broker) == before for broker in cluster.brokers.values()))
        with blocking.AdminClient({"bootstrap.servers": first.bootstrap}) as admin:
            topics = [name for name in admin.list_topics() if not name.startswith("__")]

            def all_in_sync() -> bool:
                described = admin.describe_topics(topics).all_topic_names().values()
                return all(len(partition.isr) == 3 for topic in described for partition in topic.partitions)

            until(all_in_sync)
            admin.create_topics([NewTopic("later", 3, 3)]).all()
        assert undeleted(first, topic_id) == held
        until(lambda: "voters of the metadata log: 1, 2, 3 " in first.console.read_text())
        assert all(read_image(first.data_dir).brokers[number].epoch >= image.offset for number in cluster.brokers)
        first.kill()
        until(lambda: records(second, "plain", 3) == before["records"]["plain"])
    finally:
        cluster.kill()
        server.kill()


def registered(server: ZooKeeperServer) -> list[str]:
    with zookeeper_client(server.address) as client:
        return list(client.get_children(znodes.BROKER_IDS))
