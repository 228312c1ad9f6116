"""One of three brokers dies when it writes a record of a transaction. The next coordinator, or the next leader,
continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing.cluster import Store
from tests.cluster.test_transactions import SETTINGS
from tests.support.cluster import BrokerCluster, ClusterBroker, isr, running_cluster, until
from tests.transactions.dies_writing import DIED
from tests.transactions.test_straight_path import committed, read

TOPIC, SOURCE, GROUP = "target", "source", "group"
PARTITIONS = 3
STEPS = [
    "ONGOING after",
    "OFFSETS after",
    "PREPARE_COMMIT before",
    "PREPARE_COMMIT after",
    "PREPARE_ABORT after",
    "MARKER between",
    "COMPLETE_COMMIT before",
]


class DyingCluster(NamedTuple):
    """A cluster, and the file that names the place at which one of its brokers dies."""

    cluster: BrokerCluster
    where: Path


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[DyingCluster]:
    folder = tmp_path_factory.mktemp("deaths")
    where = folder / "dies"
    module = ("tests.transactions.dies_writing", str(where))
    with running_cluster(folder, 3, SETTINGS, module=module, store=store) as cluster:
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3), NewTopic(SOURCE, 1, 3)])
        yield DyingCluster(cluster, where)


def revive(cluster: BrokerCluster) -> None:
    """Wait until a broker has died, and start it again."""
    dead: list[ClusterBroker] = []

    def died() -> bool:
        dead.extend(broker for broker in cluster.brokers.values() if broker.ended() == DIED)
        return bool(dead)

    until(died)
    dead[0].start()
    for topic in ("__transaction_state", "__consumer_offsets", TOPIC):
        until(lambda topic=topic: all(one == {1, 2, 3} for one in isr(cluster, topic)))


@pytest.mark.checklist("E7", "E11", "E12", "E13")
def test_a_broker_dies_at_a_record(dying: DyingCluster) -> None:
    cluster, where = dying
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "t", "default.api.timeout.ms": 120_000}
    expected: list[str] = []
    with blocking.TransactionalProducer(settings) as producer:
        for number, step in enumerate(["", *STEPS]):
            producer.begin()
            if step:
                where.write_text(step)
            for partition in range(PARTITIONS):
                producer.enqueue(TOPIC, f"{number} {step}", partition=partition)
            producer.send_offsets({TopicPartition(SOURCE, 0): number}, GROUP)
            if "ABORT" in step:
                producer.abort()
            else:
                producer.commit()
                expected.append(f"{number} {step}")
            if step:
                revive(cluster)
    for partition in range(PARTITIONS):
        until(lambda partition=partition: read(cluster.bootstrap, TOPIC, partition=partition) == expected)
    assert committed(cluster.bootstrap, GROUP, SOURCE) == len(STEPS)
