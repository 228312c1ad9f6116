"""Three brokers without ZooKeeper: they elect a controller, keep topics and records, and nothing acknowledged is lost
when the controller is killed, or all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.testing.child_processes import free_port
from tests.support.brokers import PybrokerProcess

SIZE = 3
PARTITIONS = 3
WAIT_S = 60


class QuorumBroker(PybrokerProcess):
    """One broker of the cluster."""

    def __init__(self, folder: Path, broker_id: int, between: dict[int, int]) -> None:
        super().__init__(folder)
        self.settings |= {
            "node.id": str(broker_id),
            "metadata.store": "quorum",
            "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{port}" for node, port in between.items()),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},BETWEEN://127.0.0.1:{between[broker_id]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
            "offsets.topic.replication.factor": "3",
            "min.insync.replicas": "2",
        }


class Scene:
    """The brokers and what a client does."""

    def __init__(self, folder: Path) -> None:
        between = {broker_id: free_port() for broker_id in range(1, SIZE + 1)}
        self.brokers = {one: QuorumBroker(folder / f"broker-{one}", one, between) for one in between}

    def start(self) -> None:
        """Start all brokers that do not run."""
        started = [broker for broker in self.brokers.values() if not broker.running]
        for broker in started:
            broker.launch()
        for broker in started:
            broker.await_answers()

    def all_vote(self) -> bool:
        """Whether every broker knows that all are voters: they become voters one at a time."""
        line = f"voters of the metadata log: {', '.join(map(str, self.brokers))} "
        return all(line in broker.console.read_text() for broker in self.brokers.values())

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.running)

    def controller(self) -> int:
        """The running controller."""
        found: list[int] = []

        def known() -> bool:
            with blocking.AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
                controller = admin.describe_cluster().controller
                found.append(0 if controller is None else controller.id)
            return found[-1] in self.brokers and self.brokers[found[-1]].running

        until(known)
        return found[-1]

    def in_sync(self, topic: str) -> list[int]:
        """How many replicas of each partition are in sync."""
        with blocking.AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
            described = admin.describe_topics([topic]).all_topic_names()[topic]
            return [len(partition.isr) for partition in described.partitions]

    def produce(self, topic: str, prefix: str, count: int) -> set[str]:
        """Produce records; all are acknowledged."""
        values = [f"{prefix}{number}" for number in range(count)]
        with blocking.Producer({"bootstrap.servers": self.bootstrap, "acks": "all"}) as producer:
            sent = [
                producer.enqueue(topic, value.encode(), partition=place % PARTITIONS)
                for place, value in enumerate(values)
            ]
            for each in sent:
                each.result()
        return set(values)

    def read(self, topic: str) -> set[str]:
        """All records up to the end as it is now."""
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        found: list[str] = []
        with blocking.Consumer({"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign(places)
            ends = consumer.end_offsets(places)

            def all_read() -> bool:
                found.extend(record.value.decode() for record in consumer.poll(1.0))
                return all((consumer.position(place) or 0) >= ends[place] for place in places)

            until(all_read)
        assert len(found) == len(set(found))
        return set(found)


def until(condition: Callable[[], object]) -> None:
    """Wait for what no event tells."""
    give_up = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.start()
    yield scene
    for broker in scene.brokers.values():
        broker.kill()


def test_topics_and_records_outlive_the_controller_and_all_brokers(scene: Scene) -> None:
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        until(lambda: len(admin.describe_cluster().nodes) == SIZE)
        topic_id = admin.create_topics([NewTopic("a", PARTITIONS, SIZE)]).all()["a"].topic_id
        records = scene.produce("a", "first-", 300)
        until(lambda: scene.read("a") == records)

        admin.delete_topics(["a"]).all()
        # The client may ask another broker, which applies the change a moment later, as in Kafka.
        until(lambda: "a" not in admin.list_topics())
        admin.undelete_topics([topic_id]).all()
        # A new leader shows records when its followers have fetched them.
        until(lambda: scene.read("a") == records)

    until(scene.all_vote)
    first = scene.controller()
    scene.brokers[first].kill()
    second = scene.controller()
    assert second != first
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic("b", PARTITIONS, 2)]).all()
    records |= scene.produce("a", "second-", 300)
    until(lambda: scene.read("a") == records)

    scene.start()
    until(lambda: scene.in_sync("a") == [SIZE] * PARTITIONS)
    for broker in scene.brokers.values():
        broker.kill()
    scene.start()
    until(lambda: scene.read("a") == records)
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        assert {"a", "b"} <= set(admin.list_topics())
