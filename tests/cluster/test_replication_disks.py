"""Disks of one broker fail or return corrupt data: other brokers lead its partitions, and its replicas catch up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, ClusterBroker, running_cluster, until
from tests.support.disks import LoopDisk, can_mount
from tests.support.replicas import create, offline, produce_as_leader, read, same_logs, segments_of, state
from tests.topic_ids import kit
from tests.wire.client import WireClient


class TwoDisks:
    """The cluster, and the second log directory of broker 2, which fails on demand."""

    def __init__(self, cluster: BrokerCluster, directory: Path, disk: LoopDisk | None) -> None:
        self.cluster = cluster
        self.directory = directory
        self._disk = disk

    def fail(self) -> None:
        """Make every call on the disk fail; if no disk can be mounted, hide its files."""
        if self._disk is not None:
            self._disk.cut()
        else:
            self.directory.rename(self.directory.with_name("gone"))

    def mend(self) -> None:
        """Repair the disk. Call it after the broker has ended."""
        if self._disk is not None:
            self._disk.reboot()
        else:
            self.directory.with_name("gone").rename(self.directory)


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[TwoDisks]:
    """Three brokers, of which the second one has two log directories."""
    folder = tmp_path_factory.mktemp("disks")
    disk = LoopDisk(folder / "disk", 300) if can_mount() else None
    directory = (folder if disk is None else disk.path) / "second"

    def two(broker: ClusterBroker) -> None:
        if broker.broker_id == 2:
            broker.settings["log.dirs"] = f"{folder / 'first'},{directory}"

    try:
        settings = {"replica.lag.time.max.ms": "1000", "auto.leader.rebalance.enable": "false"}
        with running_cluster(folder, settings=settings, prepare=two, store=store) as cluster:
            yield TwoDisks(cluster, directory, disk)
    finally:
        if disk is not None:
            disk.close()


def led(cluster: BrokerCluster, topic: str) -> list[int]:
    """Return the leaders of all partitions, as broker 1 shows them."""
    with WireClient(cluster.brokers[1].port) as client:
        return [one.leader_id for one in kit.metadata(client, 12, topic).topics[0].partitions]


@pytest.mark.checklist("C9", "C11", "C12")
def test_others_lead_what_was_on_a_disk_that_fails(disks: TwoDisks) -> None:
    """Other brokers lead only the partitions of the failed disk: the broker continues with its other disk. A failed
    read or write is sufficient; the broker is not restarted."""
    cluster = disks.cluster
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics(
            [
                NewTopic("spread", replica_assignments={index: [2, 3, 1] for index in range(4)}),
                NewTopic("followed", replica_assignments={index: [3, 2] for index in range(4)}),
            ]
        )
    with blocking.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
        for number in range(400):
            producer.send("spread", str(number).encode(), partition=number % 4)
        bad = {int(path.name.rpartition("-")[2]) for path in disks.directory.glob("spread-*")}
        assert 0 < len(bad) < 4
        lost = {path.name for path in disks.directory.glob("followed-*")}
        assert 0 < len(lost) < 4
        disks.fail()
        for number in range(400, 800):
            producer.send("spread", str(number).encode(), partition=number % 4)
    until(lambda: led(cluster, "spread") == [3 if index in bad else 2 for index in range(4)])
    gone = [[2] if f"followed-{index}" in lost else [] for index in range(4)]
    until(lambda: offline(cluster, "followed") == gone)
    assert [bool(one) for one in offline(cluster, "spread")] == [index in bad for index in range(4)]
    create(cluster, "later", [2, 3, 1])
    produce_as_leader(cluster.brokers[2], "later", "on the other disk")
    cluster.brokers[2].stop()
    disks.mend()
    cluster.brokers[2].start()
    until(lambda: all(isr == {1, 2, 3} for isr in isrs(cluster, "spread")))
    until(lambda: offline(cluster, "followed") == offline(cluster, "spread") == 4 * [[]])
    assert sorted(map(int, everything(cluster, "spread"))) == list(range(800))
    assert read(cluster, "later") == ["on the other disk"]
    until(lambda: state(cluster, "later").isr == {1, 2, 3})


def isrs(cluster: BrokerCluster, topic: str) -> list[set[int]]:
    with WireClient(cluster.brokers[1].port) as client:
        return [set(one.isr_nodes) for one in kit.metadata(client, 12, topic).topics[0].partitions]


def everything(cluster: BrokerCluster, topic: str) -> list[bytes]:
    """Return all values of all partitions."""
    found: list[bytes] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest", "group.id": "all"}
    with blocking.Consumer(settings) as consumer:
        consumer.subscribe([topic])

        def enough() -> bool:
            found.extend(record.value for record in consumer.poll(1.0))
            return len(found) >= 800

        until(enough)
    return found


@pytest.mark.checklist("C6")
def test_a_leader_with_a_damaged_batch_gives_its_leadership_up(disks: TwoDisks) -> None:
    """The damaged batch is in a closed segment. A follower that copies it notices the damage; another replica leads
    then, and the damaged replica is copied again. No client gets the damaged batch, and no record is lost."""
    cluster = disks.cluster
    create(cluster, "damaged", [2, 1, 3], segment_bytes=str(1 << 20))
    wanted = [f"{number} " + 900_000 * "x" for number in range(4)]
    produce_as_leader(cluster.brokers[2], "damaged", wanted[0])
    same_logs(cluster, "damaged")
    cluster.brokers[3].stop()
    until(lambda: state(cluster, "damaged").isr == {1, 2})
    for value in wanted[1:]:
        produce_as_leader(cluster.brokers[2], "damaged", value)
    whole = b"".join(path.read_bytes() for path in segments_of(cluster.brokers[1], "damaged"))
    with segments_of(cluster.brokers[2], "damaged")[1].open("r+b") as file:
        file.seek(500_000)
        file.write(b"y")
    cluster.brokers[3].start()
    until(lambda: state(cluster, "damaged").leader == 1)
    until(lambda: 3 in state(cluster, "damaged").isr)
    assert read(cluster, "damaged") == wanted
    until(lambda: "is damaged on disk" in cluster.brokers[2].console.read_text())
    cluster.brokers[2].restart()
    assert same_logs(cluster, "damaged") == whole
    until(lambda: state(cluster, "damaged").isr == {1, 2, 3})
