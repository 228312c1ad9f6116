"""Clusters of three brokers on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from benches.cluster.kafka_on_zookeeper import KafkaOnZooKeeper
from benches.compare.peers import KafkaPeer
from pybroker.client import blocking
from pybroker.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequest_PartitionData,
    DescribeQuorumRequest_TopicData,
)
from tests.support.brokers import BrokerProcess
from tests.support.cluster import ClusterBroker, until
from tests.support.zookeeper import ZooKeeperServer

BROKERS = (1, 2, 3)
SESSION_MS = 6_000
"""Session timeout of brokers; the same for all systems."""

COMMON = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "50",
}


class ClusterPeer(ABC):
    """A cluster whose brokers can be stopped, killed and started individually."""

    name: str
    brokers: dict[int, BrokerProcess]

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers, running or not."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the processes of the brokers and of their dependencies."""
        return tuple(broker.pid for broker in self.brokers.values() if broker.running)

    def start(self) -> None:
        """Start all brokers at once and return when each answers."""
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.await_answers()

    def kill_brokers(self) -> None:
        """Kill all brokers with SIGKILL."""
        for broker in self.brokers.values():
            broker.kill()

    def kill(self) -> None:
        """Kill all processes."""
        self.kill_brokers()

    @abstractmethod
    def controller(self) -> int:
        """Return the id of the current controller."""

    def admin(self) -> blocking.AdminClient:
        """Return an admin client for the cases; the same client for all systems."""
        return blocking.AdminClient({"bootstrap.servers": self.bootstrap})


class KafkaCluster(ClusterPeer):
    """Apache Kafka in KRaft mode: each of the three is broker and controller."""

    name = "kafka"

    def __init__(self, folder: Path) -> None:
        made = {number: KafkaPeer(folder / str(number)) for number in BROKERS}
        voters = ",".join(f"{number}@127.0.0.1:{one.controller_port}" for number, one in made.items())
        for number, one in made.items():
            one.cluster_id = made[1].cluster_id
            one.settings |= {
                **COMMON,
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "broker.session.timeout.ms": str(SESSION_MS),
                "broker.heartbeat.interval.ms": "1000",
                "transaction.state.log.replication.factor": "3",
                "file.delete.delay.ms": "500",
            }
        self.brokers = {**made}

    def controller(self) -> int:
        partition = DescribeQuorumRequest_PartitionData(partition_index=0)
        topic = DescribeQuorumRequest_TopicData(topic_name="__cluster_metadata", partitions=[partition])
        with self.admin() as admin:
            answer = admin.send(DescribeQuorumRequest(topics=[topic]))
        leader: int = answer.topics[0].partitions[0].leader_id
        return leader


class OnZooKeeper(ClusterPeer):
    """A cluster with one ZooKeeper, whose CPU is added to the brokers'."""

    def __init__(self, folder: Path) -> None:
        self._zookeeper = ZooKeeperServer(folder / "zookeeper")

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the processes, including ZooKeeper's."""
        return (*super().pids, self._zookeeper.pid)

    def start(self) -> None:
        """Start ZooKeeper, then all brokers."""
        if not self._zookeeper.running:
            self._zookeeper.start()
        super().start()

    def kill(self) -> None:
        """Kill all processes."""
        self.kill_brokers()
        self._zookeeper.kill()

    def controller(self) -> int:
        with self.admin() as admin:
            found = admin.describe_cluster().controller
        assert found is not None, "a broker is the controller"
        return found.id


class KafkaOnZooKeeperCluster(OnZooKeeper):
    """Apache Kafka 3.9."""

    name = "kafka 3.9"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        settings = {
            **COMMON,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "transaction.state.log.replication.factor": "3",
            "file.delete.delay.ms": "500",
        }
        self.brokers = {
            number: KafkaOnZooKeeper(folder / str(number), number, self._zookeeper.address, settings)
            for number in BROKERS
        }

    def start(self) -> None:
        """Start, and return when all brokers know each other, which is after each answers."""
        super().start()
        until(lambda: all(self._shown_at(broker) == set(BROKERS) for broker in self.brokers.values()))

    def _shown_at(self, broker: BrokerProcess) -> set[int]:
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            return {node.id for node in admin.describe_cluster().nodes}


class PybrokerCluster(OnZooKeeper):
    """pybroker on ZooKeeper."""

    def __init__(self, folder: Path, flush_mode: str) -> None:
        super().__init__(folder)
        self.name = "pybroker" if flush_mode == "commit" else f"pybroker {flush_mode}"
        settings = {
            **COMMON,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "log.flush.mode": flush_mode,
            "delete.topic.delay.ms": "500",
        }
        self.brokers = {
            number: ClusterBroker(folder / str(number), number, self._zookeeper.address, settings) for number in BROKERS
        }


KAFKA, KAFKA_39, OS, DURABLE = "kafka", "kafka 3.9", "pybroker os", "pybroker"
PEERS: Mapping[str, Callable[[Path], ClusterPeer]] = {
    KAFKA: KafkaCluster,
    KAFKA_39: KafkaOnZooKeeperCluster,
    OS: lambda folder: PybrokerCluster(folder, "os"),
    DURABLE: lambda folder: PybrokerCluster(folder, "commit"),
}
