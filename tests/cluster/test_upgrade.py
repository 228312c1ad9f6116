"""Brokers whose `inter.broker.protocol.version` is below 2.8 know no topic ids among themselves: they replicate, fail
over and delete by name, as Apache Kafka 2.7 does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pybroker.client import NewTopic, blocking
from pybroker.protocol import messages as m
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.support.links import Links
from tests.support.replicas import Writer, controller, create, read, same_logs, state
from tests.topic_ids.without_ids import OLD
from tests.wire.client import WireClient

SETTINGS = {"replica.lag.time.max.ms": "1000", "replica.socket.timeout.ms": "1000", "replica.fetch.backoff.ms": "200"}
BY_NAME = {1: 12, 2: 5, 4: 4, 5: 3, 6: 6, 23: 3}
"""Kafka 2.7's version of each request that names topics: Fetch, ListOffsets, LeaderAndIsr, StopReplica, UpdateMetadata,
OffsetForLeaderEpoch."""


class Network:
    """The cluster, and what its brokers say to each other."""

    def __init__(self, cluster: BrokerCluster, links: Links) -> None:
        self.cluster = cluster
        self.links = links

    def asked(self, key: int) -> set[int]:
        """The versions in which anybody has asked."""
        return {version for pairs in self.links.asked.values() for found, version in pairs if found == key}

    def nodes(self, path: str) -> dict[str, Any]:
        """The children of a node in ZooKeeper, read as JSON."""
        client = KazooClient(self.cluster.zookeeper.address)
        client.start()
        try:
            names = client.get_children(path)
            return {name: json.loads(client.get(f"{path}/{name}")[0] or b"null") for name in names}
        finally:
            client.stop()
            client.close()

    def delete(self, name: str, timeout_ms: int = 30_000) -> int:
        """DeleteTopics by name, in version 5; its error code."""
        number = next(number for number, broker in self.cluster.brokers.items() if broker.running)
        with WireClient(self.cluster.brokers[number].port) as client:
            request = m.DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms)
            return int(client.call(request, 5).responses[0].error_code)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Three brokers at 2.7."""
    links = Links(listens=True)
    try:
        with running_cluster(tmp_path_factory.mktemp("old"), settings={**SETTINGS, **OLD}, links=links) as cluster:
            yield Network(cluster, links)
    finally:
        links.close()


@pytest.mark.checklist(67, 68, 118, "R39")
def test_old_brokers_replicate_fail_over_and_delete_by_name(network: Network) -> None:
    cluster = network.cluster
    create(cluster, "moved", [1, 2, 3], min_insync_replicas="2")
    writer = Writer(cluster, "moved")
    writer.start()
    writer.goes_on()
    # The leader dies, comes back, and has what the others have.
    cluster.brokers[1].kill()
    writer.goes_on()
    assert state(cluster, "moved", 2).leader in (2, 3)
    cluster.brokers[1].start()
    until(lambda: state(cluster, "moved", 2).isr == {1, 2, 3})
    written = writer.finish()
    assert read(cluster, "moved") == written
    same_logs(cluster, "moved", 2)
    # So it is with the controller.
    cluster.brokers[controller(cluster)].restart()
    same_logs(cluster, "moved")
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("again", 1, 3)])
        log_is_there = [broker.data_dir / "again-0" for broker in cluster.brokers.values()]
        until(lambda: all(path.exists() for path in log_is_there))
    assert network.delete("again") == 0
    until(lambda: not any(path.exists() for path in log_is_there))
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("again", 1, 3)])
    assert read(cluster, "again") == []
    # Nothing of it showed an id.
    assert {node["version"] for node in network.nodes("/brokers/topics").values()} == {2}
    assert not any("id" in node for node in network.nodes("/brokers/topics").values())
    for key in (1, 4, 5, 6):
        assert network.asked(key) == {BY_NAME[key]}, key
