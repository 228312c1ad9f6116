"""Offline replicas in Metadata and DescribeTopicPartitions: exactly those whose broker is not alive, in sync or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.testing.cluster import Store
from tests.cluster.conftest import survives_two_losses
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.support.lives_in_cluster import Everywhere
from tests.support.replicas import offline


@pytest.fixture
def cluster(store: Store, tmp_path: Path) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path, survives_two_losses(store)) as running:
        yield running


@pytest.mark.checklist(325)
def test_replicas_of_dead_brokers_are_offline_and_no_others(cluster: BrokerCluster) -> None:
    brokers = Everywhere(cluster)
    controller = brokers.controller()
    first, second = sorted({1, 2, 3} - {controller})
    at = brokers.at(controller)
    at.create_on("led", [controller, first, second])
    at.create_on("left", [first, second])
    for name in ("led", "left"):
        brokers.written(name, "before")
        until(lambda name=name: offline(cluster, name, controller) == [[]])  # type: ignore[misc]
    # A follower is dead.
    cluster.brokers[second].kill()
    until(lambda: brokers.isr("left", controller) == {first})
    until(lambda: brokers.isr("led", controller) == {controller, first})
    assert offline(cluster, "led", controller) == offline(cluster, "left", controller) == [[second]]
    # A partition has no leader. The replica that is back is alive, but was not in sync.
    cluster.brokers[first].kill()
    until(lambda: at.metadata("left").partitions[0].leader_id == -1)
    assert offline(cluster, "left", controller) == [[first, second]]
    cluster.brokers[second].start()
    until(lambda: offline(cluster, "left", controller) == [[first]])
    assert at.metadata("left").partitions[0].leader_id == -1
    assert offline(cluster, "left", second) == [[first]]
    cluster.brokers[first].start()
    until(lambda: offline(cluster, "left", controller) == offline(cluster, "led", controller) == [[]])
