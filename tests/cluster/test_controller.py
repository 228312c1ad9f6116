"""One broker of a cluster decides; any broker can be asked; another one takes over."""

from __future__ import annotations

import pytest

from pybroker.client import NewTopic, blocking
from tests.support.brokers import BrokerProcess
from tests.support.cluster import BrokerCluster, until


def create(broker: BrokerProcess, name: str, partitions: int = 6) -> None:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])


def listed(broker: BrokerProcess) -> set[str]:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        return set(admin.list_topics())


@pytest.mark.checklist("R26")
def test_any_broker_can_be_asked(cluster: BrokerCluster) -> None:
    for number, broker in cluster.brokers.items():
        create(broker, f"by-{number}")
        # Who was asked shows it when it answers; the others a moment later.
        assert f"by-{number}" in listed(broker)
    for broker in cluster.brokers.values():
        until(lambda broker=broker: listed(broker) == {"by-1", "by-2", "by-3"})


def test_records_go_to_the_brokers_that_lead(cluster: BrokerCluster) -> None:
    create(cluster.brokers[1], "spread", 6)
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
        for number in range(60):
            producer.send("spread", str(number).encode(), partition=number % 6)
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        described = admin.describe_topics(["spread"]).all_topic_names()["spread"]
        assert {one.leader.id for one in described.partitions} == {1, 2, 3}


def test_another_broker_becomes_controller(cluster: BrokerCluster) -> None:
    create(cluster.brokers[1], "before")
    cluster.brokers[1].kill()
    create(cluster.brokers[2], "after", 4)
    for number in (2, 3):
        until(lambda number=number: listed(cluster.brokers[number]) == {"before", "after"})
    cluster.brokers[1].start()
    until(lambda: listed(cluster.brokers[1]) == {"before", "after"})
