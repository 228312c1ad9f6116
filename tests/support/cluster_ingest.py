"""A client of staged ingests in a cluster. It sends each append to the partition's leader, and retries while the leader
changes. It sends other requests to any broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import COMMITTED, Attempt, FetchRefusedError, IngestClient, batch
from tests.support.cluster import LIMIT_S, BrokerCluster, described, until
from tests.support.walk import files

PASSING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which clients retry."""
PAUSE_S = 0.05


class ClusterIngest:
    """One ingest into a topic of a cluster."""

    def __init__(self, cluster: BrokerCluster, topic: str, ingest_id: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.ingest_id = ingest_id
        self.topic_id = topic_id(cluster, topic)
        self.epoch = -1
        self.last: Any = None
        """The last response with an error after which the client retries."""

    def begin(self, broker: int, **options: Any) -> Any:
        """Begin the ingest at a broker; retry temporary errors, and fail for others."""

        def once() -> Any:
            with client(self.cluster, broker) as connection:
                answer = connection.begin(self.topic_id, self.ingest_id, **options)
            if answer.error_code in PASSING:
                self.last = answer
                return None
            return answer

        answer = patiently(once, lambda: self.last)
        assert answer.error_code == 0, answer
        self.epoch = answer.epoch
        return answer

    def append(self, attempt: Attempt, partition: int, values: list[str]) -> None:
        """Stage one batch at the partition's leader, and record it for the commit. Retry temporary errors."""
        data = batch(values)
        sequence = attempt.rows.get(partition, 0)

        def once() -> Any:
            broker = leaders(self.cluster, self.topic)[partition]
            if broker < 0:
                return None
            with client(self.cluster, broker) as connection:
                answer = connection.append_raw(
                    self.topic_id, self.ingest_id, self.epoch, attempt, [(partition, sequence, data)]
                )
            if answer.error_code in PASSING:
                self.last = answer
                return None
            assert not answer.error_code, answer
            [part] = answer.partitions
            if part.error_code in PASSING:
                self.last = part
                return None
            assert not part.error_code, part
            return part

        part = patiently(once, lambda: self.last)
        attempt.add(partition, data, len(values))
        assert part.next_sequence == attempt.rows[partition]

    def commit(self, attempts: Iterable[Attempt], broker: int | None = None) -> Any:
        """Commit the ingest at a broker, or at any live one; retry temporary errors."""
        listed = list(attempts)

        def once() -> Any:
            for number in [broker] if broker is not None else list(self.cluster.brokers):
                try:
                    with client(self.cluster, number) as connection:
                        answer = connection.commit(self.topic_id, self.ingest_id, self.epoch, listed)
                except OSError:
                    continue
                if answer.error_code in PASSING:
                    self.last = answer
                    return None
                assert answer.error_code == 0, answer
                return answer
            return None

        answer = patiently(once, lambda: self.last)
        assert answer.state == COMMITTED
        return answer

    def state(self, broker: int) -> int | None:
        """Return the state of the ingest in a broker's list; None if it is not listed."""
        with client(self.cluster, broker) as connection:
            listed = connection.listing(committed=True, ingest_id=self.ingest_id)
        found = [one.state for one in listed if one.topic_id == self.topic_id]
        return found[0] if found else None


@contextmanager
def client(cluster: BrokerCluster, broker: int) -> Iterator[IngestClient]:
    """Return a connection to one broker. Raises OSError."""
    with IngestClient(cluster.brokers[broker].port) as connection:
        yield connection


def patiently(step: Callable[[], Any], last: Callable[[], Any] = lambda: None) -> Any:
    """Call `step` until it returns a value; retry while a broker is down."""
    give_up = time.monotonic() + LIMIT_S
    while True:
        try:
            if (found := step()) is not None:
                return found
        except OSError:
            pass
        assert time.monotonic() < give_up, f"it did not come to pass: {last()}"
        time.sleep(PAUSE_S)


def create(
    cluster: BrokerCluster, topic: str, partitions: int = 3, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic; return when all brokers show it and all replicas are in sync."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, partitions, len(cluster.brokers), config=dict(config or {}))])
    for broker in cluster.brokers.values():
        if broker.running:
            # The other brokers show the topic a moment later.
            with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
                until(lambda admin=admin: topic in admin.list_topics())  # type: ignore[misc]


def topic_id(cluster: BrokerCluster, topic: str) -> Uuid:
    """Return the id of a topic."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return described(admin, topic).topic_id


def leaders(cluster: BrokerCluster, topic: str) -> list[int]:
    """Return the leader of each partition; -1: none."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return [-1 if one.leader is None else one.leader.id for one in described(admin, topic).partitions]


def leader(cluster: BrokerCluster, topic: str, partition: int) -> int:
    """Return the leader of a partition; wait until there is one."""
    return int(patiently(lambda: found if (found := leaders(cluster, topic)[partition]) > 0 else None))


def records(cluster: BrokerCluster, topic: str, partitions: int) -> list[list[str]]:
    """Return all records that consumers see, by partition. Check that offsets have no gaps and checksums are right."""
    identity = topic_id(cluster, topic)
    found = []
    for partition in range(partitions):

        def once(partition: int = partition) -> list[str] | None:
            broker = leaders(cluster, topic)[partition]
            if broker < 0:
                return None
            with client(cluster, broker) as connection:
                try:
                    return [value for _, value in connection.read(identity, partition)]
                except FetchRefusedError as refused:
                    # The broker may not know yet that it is the leader.
                    if refused.code in PASSING:
                        return None
                    raise

        found.append(patiently(once))
    return found


def staged_files(cluster: BrokerCluster, broker: int) -> list[str]:
    """Return the staged logs on a broker's disk."""
    root = cluster.brokers[broker].data_dir / "ingest"
    return sorted(path.relative_to(root).as_posix() for path in files(root) if path.suffix == ".log")


def await_all_in_sync(cluster: BrokerCluster, topic: str) -> None:
    """Wait until every replica of every partition is in sync."""

    def whole() -> bool:
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            return all(len(one.isr) == len(cluster.brokers) for one in described(admin, topic).partitions)

    until(whole)


def logs(cluster: BrokerCluster, topic: str, partition: int) -> list[dict[str, bytes]]:
    """Return each broker's segments of a partition that are not empty: name → content."""

    def once() -> list[dict[str, bytes]]:
        found = []
        for broker in cluster.brokers.values():
            segments = sorted((broker.data_dir / f"{topic}-{partition}").glob("*.log"))
            found.append({path.name: data for path in segments if (data := path.read_bytes())})
        return found

    # A segment may be renamed during the read.
    whole: list[dict[str, bytes]] = patiently(once)
    return whole
