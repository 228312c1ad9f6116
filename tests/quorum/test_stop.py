"""Stops of brokers: with a majority, the controller moves leaders away; without one, the broker does not wait for
it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.broker.offline.quorum_directory import read_image
from pybroker.client import NewTopic, blocking
from pybroker.testing.child_processes import free_port
from tests.quorum.scene import QuorumBroker, Scene, until

WITHOUT_MAJORITY = "no majority of the other voters answers: the metadata does not record this stop"
RETRIES = ("cannot hand over leadership", "cannot record this stop", "is unreachable; leadership")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as scene:
        scene.start()
        until(scene.all_vote)
        yield scene


def test_the_only_voter_records_its_stop(tmp_path: Path) -> None:
    broker = QuorumBroker(tmp_path, 1, {1: free_port()})
    broker.settings["offsets.topic.replication.factor"] = "1"
    broker.start()
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic("a", 3, 1)]).all()
    broker.stop()
    assert WITHOUT_MAJORITY not in broker.console.read_text()
    image = read_image(broker.data_dir)
    assert image.running[1].stopped
    assert image.brokers == {}
    assert len(image.topics["a"].partitions) == 3


def test_the_last_brokers_stop_without_a_majority(scene: Scene) -> None:
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic("a", 3, 3)]).all()
    records = scene.produce("a", "first-", 30)
    first, second, third = scene.brokers.values()
    for broker, lines in ((first, 0), (second, 1), (third, 1)):
        broker.stop()
        console = broker.console.read_text()
        assert console.count(WITHOUT_MAJORITY) == lines
        assert not [line for line in RETRIES if line in console]
    scene.start()
    until(lambda: scene.in_sync("a") == [3, 3, 3])
    assert scene.read("a") == records
