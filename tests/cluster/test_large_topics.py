"""Topics that are too large for one multi of ZooKeeper, and a controller that is killed while it creates or deletes
them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from pybroker.protocol.error_codes import ErrorCode
from tests.support.cluster import running_cluster, until
from tests.support.lives_in_cluster import Everywhere
from tests.support.zookeeper import zookeeper_client

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: the size of znodes")

NAME = "n" * 249
TOPIC = f"/brokers/topics/{NAME}"


class Large:
    """A cluster of two, its store, and one topic."""

    def __init__(self, brokers: Everywhere, store: Any, partitions: int) -> None:
        self.brokers = brokers
        self.store = store
        self.partitions = partitions

    def killed_when(self, asks: Callable[[int], object], seen: Callable[[], object]) -> int:
        """Send a request through the controller, and kill the controller when the store shows a condition. Return the
        other broker."""
        controller = self.brokers.controller()

        def ask() -> None:
            try:
                asks(controller)
            except OSError:
                return  # killed

        thread = threading.Thread(target=ask)
        thread.start()
        until(seen)
        self.brokers.cluster.brokers[controller].kill()
        thread.join()
        other = 3 - controller
        until(lambda: self.brokers.controller(other) == other)
        return other

    def led(self, at: int) -> int:
        """Return the number of partitions with a leader."""
        return sum(one.leader_id > 0 for one in self.brokers.at(at).metadata(NAME).partitions)

    def data(self) -> bytes:
        try:
            found: bytes = self.store.get(TOPIC)[0]
        except NoNodeError:
            return b""
        return found


def lives_and_dies(folder: Path, partitions: int) -> None:
    with (
        running_cluster(folder, size=2, settings={"num.partitions": "1"}) as cluster,
        zookeeper_client(cluster.zookeeper.address) as store,
    ):
        _lives_and_dies(Large(Everywhere(cluster), store, partitions))


def _lives_and_dies(large: Large) -> None:
    brokers = large.brokers
    left = large.killed_when(
        lambda at: brokers.at(at).try_create(NAME, large.partitions, replicas=2), lambda: large.store.exists(TOPIC)
    )
    # A missing log may have been lost, until every replica in sync has reported that it has none.
    brokers.cluster.brokers[3 - left].start()
    until(lambda: large.led(left) == large.partitions)
    topic_id = brokers.at(left).metadata(NAME).topic_id
    until(lambda: all(large.led(number) == large.partitions for number in (1, 2)))
    # The topic is deleted and its name is free, but leftovers are in the store.
    left = large.killed_when(lambda at: brokers.at(at).delete(topic_id), lambda: b'"id"' not in large.data())
    until(lambda: brokers.at(left).metadata(NAME).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    again = brokers.at(left).create(NAME, 2)
    assert again != topic_id
    brokers.written(NAME, "new", at=left)
    brokers.cluster.brokers[3 - left].start()
    for number, broker in brokers.cluster.brokers.items():
        until(lambda number=number: brokers.at(number).metadata(NAME).topic_id == again)
        staged = broker.data_dir / "deleting"
        until(lambda staged=staged: len(list(staged.glob(f"{topic_id.hex}_*"))) == large.partitions)
    until(lambda: [one.state for one in brokers.at(left).deletions(topic_id)] == ["staged"])
    assert brokers.at(left).delete(again).error_code == 0
    until(lambda: not large.store.exists(TOPIC))


@pytest.mark.checklist(4, 110, 111, 113, "R38", "A1", "A2", "B1", "B10")
def test_the_controller_is_killed_while_a_large_topic_is_made_and_deleted(tmp_path: Path) -> None:
    lives_and_dies(tmp_path, 1_400)


@pytest.mark.slow
@pytest.mark.checklist("R38", "B10")
def test_ten_thousand_partitions(tmp_path: Path) -> None:
    lives_and_dies(tmp_path, 10_000)
