"""Brokers of a metadata quorum for a test, and client operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from pybroker.client import TopicPartition, blocking
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
    """The brokers, and client operations."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, kind: type[QuorumBroker] = QuorumBroker
    ) -> None:
        """`settings` are added to the settings of every broker."""
        between = {broker_id: free_port() for broker_id in range(1, SIZE + 1)}
        self.brokers = {
            broker_id: kind(folder / f"broker-{broker_id}", broker_id, between) for broker_id in between
        }
        for broker in self.brokers.values():
            broker.settings |= settings or {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def start(self) -> None:
        """Start all brokers that are not running."""
        started = [broker for broker in self.brokers.values() if not broker.running]
        for broker in started:
            broker.launch()
        for broker in started:
            broker.await_answers()

    def all_vote(self) -> bool:
        """Return whether every broker's status shows all brokers as voters: they become voters one at a time."""
        line = f"voters of the metadata log: {', '.join(map(str, self.brokers))} "
        return all(line in broker.console.read_text() for broker in self.brokers.values())

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.running)

    def controller(self) -> int:
        """Return the id of the running controller."""
        found: list[int] = []

        def known() -> bool:
            with blocking.AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
                controller = admin.describe_cluster().controller
                found.append(0 if controller is None else controller.id)
            return found[-1] in self.brokers and self.brokers[found[-1]].running

        until(known)
        return found[-1]

    def in_sync(self, topic: str) -> list[int]:
        """Return the number of in-sync replicas of each partition."""
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
        """Return all records up to the current end."""
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
    """Wait for a condition that no event announces."""
    give_up = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)
