"""A stop: with a majority the controller moves leaders away; without one the broker does not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from tests.quorum.test_broker_cluster import Scene, until

WITHOUT_MAJORITY = "no majority of the other voters answers: the metadata does not record this stop"
RETRIES = ("cannot hand over leadership", "cannot record this stop", "is unreachable; leadership")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.start()
    until(scene.all_vote)
    yield scene
    for broker in scene.brokers.values():
        broker.kill()


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
