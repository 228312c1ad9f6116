"""Inspects the replicas of partition 0 in a cluster: its leader, and each replica's log and responses."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pybroker import native
from pybroker.client import NewTopic, TopicPartition, blocking
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.support.cluster import LIMIT_S, BrokerCluster, ClusterBroker, until
from tests.support.cluster_state import state_of
from tests.topic_ids import kit
from tests.wire.client import WireClient


def create(cluster: BrokerCluster, name: str, replicas: Sequence[int], **config: str) -> None:
    """Create a topic with one partition, which the first replica leads. Return when all running brokers show it."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, replica_assignments={0: list(replicas)}, config=settings)])
    for number, broker in cluster.brokers.items():
        if broker.running:
            state(cluster, name, number)


class State(NamedTuple):
    """The state of partition 0 in a broker's metadata."""

    leader: int
    epoch: int
    isr: frozenset[int]
    replicas: tuple[int, ...]


def state(cluster: BrokerCluster, topic: str, at: int = 1) -> State:
    """Return the state at broker `at`, without its links; wait until the broker knows the topic."""
    rows: list[Any] = []

    def shown() -> bool:
        with WireClient(cluster.brokers[at].port) as client:
            rows[:] = kit.metadata(client, 9, topic).topics[0].partitions
        return bool(rows)

    until(shown)
    (found,) = (row for row in rows if row.partition_index == 0)
    return State(found.leader_id, found.leader_epoch, frozenset(found.isr_nodes), tuple(found.replica_nodes))


def offline(cluster: BrokerCluster, topic: str, at: int = 1) -> list[list[int]]:
    """Return the offline replicas of each partition in the metadata of broker `at`; they must be the same in Metadata
    and in DescribeTopicPartitions."""
    asked = m.DescribeTopicPartitionsRequest(topics=[m.DescribeTopicPartitionsRequest_TopicRequest(name=topic)])
    with WireClient(cluster.brokers[at].port) as client:
        shown = kit.metadata(client, 12, topic).topics[0].partitions
        described = client.call(asked, 0).topics[0].partitions
    found = [one.offline_replicas for one in sorted(shown, key=lambda one: one.partition_index)]
    if found != [one.offline_replicas for one in described]:
        # A broker has started or ended between the two requests.
        return offline(cluster, topic, at)
    return found


def produce(
    broker: ClusterBroker, topic: str, *values: str, acks: int = -1, timeout_ms: int = 30_000, records: bytes = b""
) -> Any:
    """Produce one batch at this broker, without its links; return the partition's row of the response."""
    data = m.ProduceRequest_TopicProduceData(
        name=topic,
        partition_data=[
            m.ProduceRequest_PartitionProduceData(
                index=0, records=records or kit.batch(*(value.encode() for value in values))
            )
        ],
    )
    with WireClient(broker.port) as client:
        answer = client.call(m.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data]), 9)
    return answer.responses[0].partition_responses[0]


PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Errors of a leader that does not know the latest metadata, or whose followers hang."""


def produce_as_leader(broker: ClusterBroker, topic: str, *values: str, acks: int = -1, records: bytes = b"") -> Any:
    """Like `produce`, but retry until the broker accepts the batch: it may not know yet that it is the leader. The
    batch is written once, however often it is sent."""
    batch = records or kit.once(*(value.encode() for value in values))
    rows: list[Any] = []

    def taken() -> bool:
        rows.append(produce(broker, topic, acks=acks, records=batch))
        return rows[-1].error_code not in PASSING

    until(taken)
    assert rows[-1].error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER), rows[-1]
    return rows[-1]


def broker_epochs(cluster: BrokerCluster) -> dict[int, int]:
    """Return the epochs of all registered brokers, from the metadata store."""
    with state_of(cluster) as told:
        return {number: told.life(number) for number in told.brokers()}


def controller(cluster: BrokerCluster) -> int:
    """Wait for a controller and return its id."""
    found: list[int | None] = []
    with state_of(cluster) as told:

        def elected() -> bool:
            found.append(told.controller())
            return found[-1] is not None

        until(elected)
    assert found[-1] is not None
    return found[-1]


def await_unregistered(cluster: BrokerCluster, number: int) -> None:
    """Wait until a stopped broker is fenced: it may then start with other directories."""
    with state_of(cluster) as told:
        until(lambda: number not in told.brokers())


def state_version(cluster: BrokerCluster, topic: str) -> int:
    """Return the number of writes of the partition's state."""
    with state_of(cluster) as told:
        return told.partitions()[topic, 0].changes


def make_controller(cluster: BrokerCluster, number: int) -> None:
    """Make a broker the controller, by restarting each other controller. Return when all other brokers know it."""
    while (now := controller(cluster)) != number:
        cluster.brokers[now].restart()
    for broker in cluster.brokers.values():
        until(lambda broker=broker: shown_controller(broker) == number)  # type: ignore[misc]


def shown_controller(broker: ClusterBroker) -> int:
    """Return the controller in a broker's metadata; -1: none."""
    with WireClient(broker.port) as client:
        found: int = kit.metadata(client, 9).controller_id
    return found


def topic_id(broker: ClusterBroker, topic: str) -> Uuid:
    """Return the topic's id in this broker's metadata."""
    with WireClient(broker.port) as client:
        found: Uuid = kit.metadata(client, 12, topic).topics[0].topic_id
    return found


def log_of(broker: ClusterBroker, topic: str) -> bytes:
    """Return the records on the broker's disk: all segments."""
    while True:
        # Retention may have removed a file since it was listed.
        with suppress(FileNotFoundError):
            return b"".join(path.read_bytes() for path in segments_of(broker, topic))


def segments_of(broker: ClusterBroker, topic: str) -> list[Path]:
    """Return the files of the log, the oldest first."""
    directories = broker.settings.get("log.dirs", str(broker.data_dir)).split(",")
    return sorted(path for directory in directories for path in Path(directory).glob(f"{topic}-0/*.log"))


def same_logs(cluster: BrokerCluster, topic: str, at: int = 1) -> bytes:
    """Wait until every replica is in sync and has the same bytes; return them."""
    found: set[bytes] = set()

    def are_same() -> bool:
        # Repeat the request: the broker may get changes of other replicas late.
        now = state(cluster, topic, at)
        found.clear()
        found.update(log_of(cluster.brokers[number], topic) for number in now.replicas)
        return now.isr == set(now.replicas) and len(found) == 1

    until(are_same)
    return found.pop()


def read(cluster: BrokerCluster, topic: str, **settings: Any) -> list[str]:
    """Return all values in order, up to the current end."""
    found: list[str] = []
    config = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest", **settings}
    where = TopicPartition(topic, 0)
    with blocking.Consumer(config) as consumer:
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]

        def all_read() -> bool:
            found.extend(one.value.decode() for one in consumer.poll(1.0))
            return bool(consumer.position(where) >= end)

        until(all_read)
    return found


class Writer(threading.Thread):
    """Writes numbers to partition 0 until it is stopped, each number once. `acknowledged`: how many were acknowledged.
    """

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = cluster.bootstrap
        self._topic = topic
        self._enough = threading.Event()
        self.acknowledged = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        settings = {
            "bootstrap.servers": self._servers,
            "acks": "all",
            # Requests for the new leader wait behind requests that the former leader does not answer.
            "request.timeout.ms": 1_000,
            "delivery.timeout.ms": 120_000,
        }
        try:
            with blocking.Producer(settings) as producer:
                while not self._enough.is_set():
                    producer.send(self._topic, str(self.acknowledged).encode(), partition=0)
                    self.acknowledged += 1
        except BaseException as problem:
            self.problem = problem

    def goes_on(self, records: int = 20) -> None:
        """Wait until that many more records are acknowledged."""
        before = self.acknowledged
        until(lambda: self.acknowledged >= before + records or self.problem)
        assert self.problem is None

    def finish(self) -> list[str]:
        """Stop; return the acknowledged values in order."""
        self._enough.set()
        self.join(LIMIT_S)
        assert self.problem is None
        return [str(number) for number in range(self.acknowledged)]


def epochs_of(log: bytes) -> list[int]:
    """Return the leader epochs of the log's batches."""
    found = []
    while log:
        size = int.from_bytes(log[8:12], "big") + 12
        found.append(int.from_bytes(log[12:16], "big"))
        log = log[size:]
    return found


def first_offset(log: bytes) -> int:
    """Return the offset of the log's first batch; -1: the log is empty."""
    return int.from_bytes(log[:8], "big") if log else -1


def batch_of(size: int) -> bytes:
    """Return one batch with an incompressible record of that many bytes. Its timestamp is the current time: retention
    would remove old records."""
    return native.build_batch([(None, bytes(size))], int(time.time() * 1000))
