"""Three brokers without ZooKeeper elect a controller and keep topics and records. No acknowledged data is lost when the
controller, or every broker, is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from tests.quorum.scene import PARTITIONS, SIZE, Scene, until


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as scene:
        scene.start()
        yield scene


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
        # A new leader shows records after its followers have fetched them.
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
