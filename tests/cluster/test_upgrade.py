"""Brokers with `inter.broker.protocol.version` below 2.8 use no topic ids among themselves: they replicate, fail over
and delete by name, as Apache Kafka 2.7 does. The test raises the version on one broker after another while clients
continue (KIP-516)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.protocol import interbroker as wire
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import LIMIT_S, BrokerCluster, running_cluster, until
from tests.support.links import Links
from tests.support.replicas import (
    Writer,
    broker_epochs,
    controller,
    create,
    make_controller,
    produce,
    read,
    same_logs,
    state,
    topic_id,
)
from tests.support.zookeeper import zookeeper_client
from tests.topic_ids.kit import metadata
from tests.topic_ids.lives import Lives
from tests.topic_ids.without_ids import OLD, VERSION, alter
from tests.wire.client import WireClient

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: inter.broker.protocol.version below 2.8")

SETTINGS = {"replica.lag.time.max.ms": "1000", "replica.socket.timeout.ms": "1000", "replica.fetch.backoff.ms": "200"}
BY_NAME = {1: 12, 2: 5, 4: 4, 5: 3, 6: 6, 23: 3}
"""Kafka 2.7's version of each request that names topics: Fetch, ListOffsets, LeaderAndIsr, StopReplica, UpdateMetadata,
OffsetForLeaderEpoch."""


class Network:
    """The cluster, and the messages between its brokers."""

    def __init__(self, cluster: BrokerCluster, links: Links) -> None:
        self.cluster = cluster
        self.links = links

    def asked(self, key: int) -> set[int]:
        """Return the versions of requests that brokers have sent."""
        return {version for pairs in self.links.asked.values() for found, version in pairs if found == key}

    def nodes(self, path: str) -> dict[str, Any]:
        """The children of a node in ZooKeeper, read as JSON."""
        with zookeeper_client(self.cluster.zookeeper.address) as client:
            found = {}
            for name in client.get_children(path):
                with suppress(NoNodeError):  # the node has been removed meanwhile
                    found[name] = json.loads(client.get(f"{path}/{name}")[0] or b"null")
            return found

    def node(self, path: str) -> bytes:
        """Return a node in ZooKeeper."""
        with zookeeper_client(self.cluster.zookeeper.address) as client:
            found: bytes = client.get(path)[0]
            return found

    def between(self, source: int, target: int, key: int) -> set[int]:
        """Return the versions of requests that one broker has sent to another."""
        asked = self.links.asked.get((source, target), set())
        return {version for found, version in list(asked) if found == key}

    def raise_level(self, number: int) -> None:
        """Restart one broker with the newest version."""
        broker = self.cluster.brokers[number]
        broker.stop()
        broker.settings.pop(VERSION, None)
        for pair in [pair for pair in self.links.asked if number in pair]:
            del self.links.asked[pair]
        broker.start()

    def in_sync(self, topic: str) -> None:
        """Wait until all three replicas are in sync."""
        for number in self.cluster.brokers:
            until(partial(self._is_in_sync, topic, number))

    def _is_in_sync(self, topic: str, at: int) -> bool:
        with WireClient(self.cluster.brokers[at].port) as client:
            partitions = metadata(client, 9, topic).topics[0].partitions
        return bool(partitions) and set(partitions[0].isr_nodes) == {1, 2, 3}

    def recreate(self, name: str) -> int:
        """Create a topic on all brokers with version 6; return the error code."""
        topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=3)
        number = next(number for number, broker in self.cluster.brokers.items() if broker.running)
        with WireClient(self.cluster.brokers[number].port) as client:
            request = m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            return int(client.call(request, 6).topics[0].error_code)

    def delete(self, name: str, timeout_ms: int = 30_000) -> int:
        """Delete a topic by name with version 5; return the error code."""
        number = next(number for number, broker in self.cluster.brokers.items() if broker.running)
        with WireClient(self.cluster.brokers[number].port) as client:
            request = m.DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms)
            return int(client.call(request, 5).responses[0].error_code)


class Group(threading.Thread):
    """A consumer in a group that reads and commits until it has a number of records."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = cluster.bootstrap
        self._topic = topic
        self.read: list[str] = []
        self.wanted: int | None = None
        self.problem: BaseException | None = None

    def run(self) -> None:
        settings = {"bootstrap.servers": self._servers, "group.id": "upgrade", "auto.offset.reset": "earliest"}
        try:
            with blocking.Consumer(settings) as consumer:
                consumer.subscribe([self._topic])
                while self.wanted is None or len(set(self.read)) < self.wanted:
                    self.read += [record.value.decode() for record in consumer.poll(0.5)]
                    consumer.commit()
        except BaseException as problem:
            self.problem = problem

    def goes_on(self) -> None:
        """Wait until the consumer has read more records."""
        before = len(self.read)
        until(lambda: len(self.read) > before or self.problem)
        assert self.problem is None

    def finish(self, written: list[str]) -> None:
        """Wait until the consumer has read all written records."""
        self.wanted = len(written)
        self.join(LIMIT_S)
        assert self.problem is None
        assert set(self.read) == set(written)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Network]:
    """Three brokers with version 2.7."""
    links = Links(listens=True)
    try:
        folder = tmp_path_factory.mktemp("old")
        with running_cluster(folder, settings={**SETTINGS, **OLD}, links=links, store=store) as cluster:
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
    # The leader dies, restarts, and has the same records as the others.
    cluster.brokers[1].kill()
    writer.goes_on()
    until(lambda: state(cluster, "moved", 2).leader in (2, 3))
    cluster.brokers[1].start()
    until(lambda: state(cluster, "moved", 2).isr == {1, 2, 3})
    written = writer.finish()
    assert read(cluster, "moved") == written
    same_logs(cluster, "moved", 2)
    # The same holds for the controller.
    cluster.brokers[controller(cluster)].restart()
    same_logs(cluster, "moved")
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        # A replica is removed with its data.
        admin.alter_partition_reassignments({TopicPartition("moved", 0): [1, 2]})
        until(lambda: not (cluster.brokers[3].data_dir / "moved-0").exists())
        assert same_logs(cluster, "moved")
        admin.create_topics([NewTopic("again", 1, 3)])
        log_is_there = [broker.data_dir / "again-0" for broker in cluster.brokers.values()]
        until(lambda: all(path.exists() for path in log_is_there))
    assert network.delete("again") == 0
    until(lambda: not any(path.exists() for path in log_is_there))
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic("again", 1, 3)])
    assert read(cluster, "again") == []
    # None of the broker's messages had an id.
    assert {node["version"] for node in network.nodes("/brokers/topics").values()} == {2}
    assert not any("id" in node for node in network.nodes("/brokers/topics").values())
    for key in (1, 4, 5, 6):
        assert network.asked(key) == {BY_NAME[key]}, key


@pytest.mark.checklist(67, 68, 118, "R27", "R39")
def test_a_stale_word_by_name_is_fenced_by_epochs(network: Network) -> None:
    cluster = network.cluster
    # The name had a topic before: leader epochs continue.
    create(cluster, "fenced", [1, 2, 3])
    assert network.delete("fenced") == 0
    create(cluster, "fenced", [1, 2, 3])
    written_to(network, "fenced", "kept")
    network.in_sync("fenced")
    now = controller(cluster)
    target = next(number for number in cluster.brokers if number != now)
    before = state(cluster, "fenced", now)
    assert before.epoch > 0
    partition = cluster.brokers[target].data_dir / "fenced-0"
    current: dict[str, Any] = {
        "controller_id": now,
        "controller_epoch": int(network.node("/controller_epoch")),
        "broker_epoch": broker_epochs(cluster)[target],
    }
    gone = wire.StopReplicaRequest_StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    late = wire.StopReplicaRequest_StopReplicaPartitionState(
        partition_index=0, leader_epoch=before.epoch - 1, delete_partition=True
    )
    of_old = wire.LeaderAndIsrRequest_LeaderAndIsrPartitionState(
        partition_index=0, leader=now, leader_epoch=before.epoch - 1, isr=[now], replicas=[now, target]
    )
    topic_of_stop, topic_of_order = (
        wire.StopReplicaRequest_StopReplicaTopicState,
        wire.LeaderAndIsrRequest_LeaderAndIsrTopicState,
    )

    def stop(*, last_epoch: int = -1, replica: Any = gone, **epochs: Any) -> tuple[int, list[int]]:
        topic = topic_of_stop(topic_name="fenced", partition_states=[replica], last_epoch=last_epoch)
        answer = tell(wire.StopReplicaRequest(**current | epochs, topic_states=[topic]), 3)
        return answer.error_code, [one.error_code for one in answer.named_errors]

    def lead(name: str, **epochs: Any) -> tuple[int, list[int]]:
        topic = topic_of_order(topic_name=name, partition_states=[of_old])
        answer = tell(wire.LeaderAndIsrRequest(**current | epochs, topic_states=[topic]), 4)
        return answer.error_code, [one.error_code for one in answer.named_errors]

    def tell(order: Any, version: int) -> Any:
        with WireClient(cluster.brokers[target].between_port, client_id="broker-9", interbroker=True) as client:
            return client.call(order, version)

    for earlier, code in (
        ({"controller_epoch": current["controller_epoch"] - 1}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"broker_epoch": current["broker_epoch"] - 1}, ErrorCode.STALE_BROKER_EPOCH),
    ):
        assert stop(**earlier) == (code, [])
        assert lead("fenced", **earlier) == (code, [])
    assert lead("fenced") == (0, [ErrorCode.STALE_CONTROLLER_EPOCH])
    assert lead("nobody-knows") == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert stop(replica=late) == (0, [ErrorCode.FENCED_LEADER_EPOCH])
    # This is the topic that had the name before.
    assert stop(last_epoch=before.epoch - 1) == (0, [ErrorCode.FENCED_LEADER_EPOCH])
    assert partition.exists()
    # Compare its position in the replica list: on a loaded machine, a follower may be too slow for the ISR.
    assert state(cluster, "fenced", target)[:2] == before[:2]
    # The broker still follows this partition, too.
    written_to(network, "fenced", "more")
    same_logs(cluster, "fenced", target)
    assert read(cluster, "fenced") == ["kept", "more"]


@pytest.mark.checklist(67, 68, 115, 116, 117, 118, 119, 120, 206, 210, "R39")
def test_one_after_another_is_raised_while_clients_go_on(network: Network) -> None:
    cluster = network.cluster
    old = controller(cluster)
    first, last = sorted({1, 2, 3} - {old})
    create(cluster, "stream", [last, first, old], min_insync_replicas="2")
    assert network.recreate("doomed") == 0
    create(cluster, "kept", [1, 2, 3])
    network.in_sync("stream")
    writer, group = Writer(cluster, "stream"), Group(cluster, "stream")
    writer.start()
    group.start()
    writer.goes_on()
    # A deletion begins and cannot finish, because the broker of a replica is down.
    doomed = [broker.data_dir / "doomed-0" for broker in cluster.brokers.values()]
    until(lambda: all(path.exists() for path in doomed))
    cluster.brokers[last].kill()
    assert network.delete("doomed", timeout_ms=5_000) == ErrorCode.REQUEST_TIMED_OUT
    assert network.recreate("doomed") == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "doomed" in network.nodes("/admin/delete_topics")
    writer.goes_on()
    # The first raised broker gets messages by name, because the controller knows no ids, and sends requests by name.
    network.raise_level(first)
    writer.goes_on()
    group.goes_on()
    until(lambda: network.between(old, first, 4) == {4})
    assert network.between(first, old, 1) <= {12}
    hidden = {name: node["id"] for name, node in network.nodes("/admin/topic_ids").items()}
    assert {node["version"] for node in network.nodes("/brokers/topics").values()} == {2}
    # It becomes the controller: from now on topics show the ids that they always had.
    cluster.brokers[old].stop()
    until(lambda: controller(cluster) == first)
    cluster.brokers[old].start()
    until(lambda: "id" in network.nodes("/brokers/topics")["stream"])
    shown = network.nodes("/brokers/topics")
    assert all(shown[name]["id"] == hidden[name] for name in ("stream", "kept"))
    assert "doomed" in network.nodes("/admin/delete_topics")
    # The stopped broker returns with a version below 2.8: it gets the deletion by name, which completes the deletion.
    assert network.recreate("doomed") == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.brokers[last].start()
    until(lambda: network.recreate("doomed") == 0)
    assert network.nodes("/admin/delete_topics") == {}
    until(lambda: all(path.exists() for path in doomed))
    assert (network.between(first, last, 4), network.between(first, last, 5)) == ({4}, {3})
    # A name was deleted and re-created while it was down: the order about the earlier topic does not apply to the next.
    written_to(network, "kept", "old")
    network.in_sync("kept")
    cluster.brokers[last].kill()
    until(lambda: state(cluster, "kept", first).leader != last)
    assert network.delete("kept") == 0
    create(cluster, "kept", [first, old, last])
    written_to(network, "kept", "new")
    cluster.brokers[last].start()
    network.in_sync("kept")
    assert network.between(first, last, 5) == {3}
    network.raise_level(old)
    network.in_sync("kept")
    assert read(cluster, "kept") == ["new"]
    until(lambda: network.between(first, old, 4) == {5})
    group.goes_on()
    # The last controller below 2.8: ids stay, also of topics that it creates, and topics that it deletes are gone at
    # once.
    make_controller(cluster, last)
    network.in_sync("stream")
    create(cluster, "late", [first, old, last])
    assert network.delete("late") == 0
    assert network.recreate("late") == 0
    assert {node["version"] for node in network.nodes("/brokers/topics").values()} == {3}
    assert network.nodes("/brokers/topics")["stream"]["id"] == hidden["stream"]
    assert network.between(last, first, 4) == {4}
    # All brokers have the new version: no message has a name, and no broker uses the old version again.
    network.raise_level(last)
    network.in_sync("stream")
    network.links.asked.clear()
    writer.goes_on()
    until(lambda: network.asked(1) == {13})
    assert network.asked(4) <= {5}
    lowered = cluster.brokers[first]
    lowered.stop()
    lowered.settings[VERSION] = OLD[VERSION]
    with pytest.raises(RuntimeError, match=r"below 2\.8, but topic .* has a topic id"):
        lowered.start()
    del lowered.settings[VERSION]
    lowered.start()
    # Deleted replicas are staged everywhere by now.
    until(lambda: {one.state for found in Lives(lowered.port).deletions() for one in found.partitions} == {"staged"})
    # No data is lost, and no deleted data has returned.
    written = writer.finish()
    assert read(cluster, "stream") == written
    group.finish(written)
    for name in ("stream", "kept", "doomed", "late"):
        same_logs(cluster, name)
        for broker in cluster.brokers.values():
            told = (broker.data_dir / f"{name}-0" / "partition.metadata").read_text()
            assert told == f"version: 0\ntopic_id: {topic_id(broker, name)}"


def written_to(network: Network, name: str, value: str) -> None:
    """Write a record to partition 0. All in-sync replicas have it, so readers see it."""

    def done() -> bool:
        up = next(number for number, broker in network.cluster.brokers.items() if broker.running)
        with WireClient(network.cluster.brokers[up].port) as client:
            partitions = metadata(client, 9, name).topics[0].partitions
        leader = network.cluster.brokers.get(partitions[0].leader_id) if partitions else None
        return leader is not None and produce(leader, name, value).error_code == 0

    until(done)


@pytest.mark.checklist(67, 115, 206, 210, "R39")
def test_all_are_raised_at_once_without_a_stop(tmp_path: Path) -> None:
    links = Links(listens=True)
    try:
        with running_cluster(tmp_path, settings={**SETTINGS, **OLD}, links=links) as cluster:
            network = Network(cluster, links)
            create(cluster, "stream", [1, 2, 3])
            network.in_sync("stream")
            writer = Writer(cluster, "stream")
            writer.start()
            writer.goes_on()
            assert network.asked(1) == {12}
            assert alter(cluster.brokers[2].port, "2.8").error_code == 0
            assert network.nodes("/brokers/topics")["stream"]["version"] == 3
            # By now, connections that use names are known to be between brokers that support ids.
            until(lambda: all(13 in network.between(follower, 1, 1) for follower in (2, 3)))
            assert network.recreate("new") == 0
            now = controller(cluster)
            until(lambda: all(5 in network.between(now, one, 4) for one in {1, 2, 3} - {now}))
            links.asked.clear()
            writer.goes_on()
            assert network.asked(1) == {13}
            written = writer.finish()
            assert read(cluster, "stream") == written
            same_logs(cluster, "stream")
    finally:
        links.close()
