"""The incarnations of topics in a cluster, as clients of its brokers see them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pybroker.client import TopicPartition, blocking
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.cluster import BrokerCluster, until
from tests.support.replicas import PASSING
from tests.topic_ids import kit
from tests.topic_ids.lives import TIMEOUT_MS, Lives
from tests.wire.client import WireClient


class LivesAt(Lives):
    """An admin client, producer and consumer of one broker."""

    def create_on(self, name: str, *replicas: list[int]) -> Uuid:
        """Create a topic with these replicas by partition; the first replica leads."""
        answer = self.try_create_on(name, *replicas)
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        topic_id: Uuid = answer.topic_id
        return topic_id

    def try_create_on(self, name: str, *replicas: list[int], timeout_ms: int = TIMEOUT_MS) -> Any:
        """Request a topic with these replicas; return the row of the response."""
        assignments = [
            m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(replicas)
        ]
        topic = m.CreateTopicsRequest_CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        return self.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7).topics[0]


class Everywhere:
    """The clients of all brokers of a cluster."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster

    def at(self, number: int) -> LivesAt:
        """Return the clients of one broker."""
        return LivesAt(self.cluster.brokers[number].port)

    def up(self) -> int:
        """Return a broker that runs."""
        return next(number for number, broker in self.cluster.brokers.items() if broker.running)

    def controller(self, at: int | None = None) -> int:
        """Return the controller that a broker reports; wait until it reports one."""
        found: list[int] = []

        def told() -> bool:
            found.append(self.at(at or self.up()).call(m.MetadataRequest(topics=[]), 12).controller_id)
            return found[-1] in self.cluster.brokers

        until(told)
        return found[-1]

    def live(self, at: int) -> set[int]:
        """Return the live brokers in a broker's metadata."""
        return {one.node_id for one in self.at(at).call(m.MetadataRequest(topics=[]), 12).brokers}

    def create(self, name: str, partitions: int = 1) -> Uuid:
        """Create a topic on brokers 1, 2 and 3."""
        orders = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        return self.at(self.up()).create_on(name, *(orders[index % 3] for index in range(partitions)))

    def leader(self, name: str, at: int | None = None) -> int | None:
        """Return the leader of partition 0; None if that broker is not running."""
        shown = self.at(at or self.up()).metadata(name)
        leader: int = shown.partitions[0].leader_id if shown.partitions else -1
        return leader if leader in self.cluster.brokers and self.cluster.brokers[leader].running else None

    def isr(self, name: str, at: int) -> set[int]:
        """Return the ISR of partition 0 in a broker's metadata."""
        shown = self.at(at).metadata(name)
        return set(shown.partitions[0].isr_nodes) if shown.partitions else set()

    def written(self, name: str, value: str, at: int | None = None) -> None:
        """Write a record to partition 0, once, to every in-sync replica. at: the broker whose metadata is used."""
        records = kit.once(value.encode())

        def done() -> bool:
            leader = self.leader(name, at)
            if leader is None:
                return False
            with WireClient(self.cluster.brokers[leader].port) as client:
                code = kit.produce(client, name, records, version=9).error_code
            assert code in (ErrorCode.NONE, *PASSING), code
            return bool(code == ErrorCode.NONE)

        until(done)

    def read(self, name: str) -> list[str]:
        """Return all records of partition 0; none while it has no leader."""
        leader = self.leader(name)
        if leader is None or self.at(leader).fetch(name).error_code:
            return []
        return self.at(leader).read(name)

    def records_of(self, number: int, directory: str) -> bytes:
        """Return the bytes of the segments in a directory of a broker."""
        path = self.cluster.brokers[number].data_dir / directory
        return b"".join(one.read_bytes() for one in sorted(path.glob("*.log")))

    def staged(self, number: int, topic_id: Uuid) -> list[Path]:
        """Return the staged directories of a deleted topic on a broker."""
        return sorted((self.cluster.brokers[number].data_dir / "deleting").glob(f"{topic_id.hex}_*"))

    def move(self, name: str, replicas: Sequence[int], partitions: int = 1) -> None:
        """Move all partitions of a topic; return when the first broker of `replicas` shows the reassignment done."""
        at = replicas[0]
        with blocking.AdminClient({"bootstrap.servers": self.cluster.brokers[at].bootstrap}) as admin:
            admin.alter_partition_reassignments(
                {TopicPartition(name, index): list(replicas) for index in range(partitions)}
            )

            def done() -> bool:
                shown = self.at(at).metadata(name).partitions
                return all(sorted(one.replica_nodes) == sorted(replicas) for one in shown)

            until(done)
