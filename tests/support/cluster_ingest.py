"""A client of staged ingests in a cluster: each append goes to the leader of its partition, and again while that
changes; any broker is asked the rest."""

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
"""What clients try again after."""
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
        """What was answered last that may pass."""

    def begin(self, broker: int, **options: Any) -> Any:
        """Begins it at a broker, which must take it; what may pass is tried again."""

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
        """Stages one batch at whoever leads, however long that takes to come to pass, and takes it into account."""
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
        """Commits it at a broker, or at any that lives; what may pass is tried again."""
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
        """As that broker lists it; None if it does not."""
        with client(self.cluster, broker) as connection:
            listed = connection.listing(committed=True, ingest_id=self.ingest_id)
        found = [one.state for one in listed if one.topic_id == self.topic_id]
        return found[0] if found else None


@contextmanager
def client(cluster: BrokerCluster, broker: int) -> Iterator[IngestClient]:
    """A connection to one broker. Raises OSError."""
    with IngestClient(cluster.brokers[broker].port) as connection:
        yield connection


def patiently(step: Callable[[], Any], last: Callable[[], Any] = lambda: None) -> Any:
    """What a step gives, once it gives something; a broker that is away may come back."""
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
    """A topic on all brokers, all of whose replicas are in sync."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, partitions, len(cluster.brokers), config=dict(config or {}))])
    for broker in cluster.brokers.values():
        if broker.running:
            # The others show it a moment after the one that was asked.
            with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
                until(lambda admin=admin: topic in admin.list_topics())  # type: ignore[misc]


def topic_id(cluster: BrokerCluster, topic: str) -> Uuid:
    """The id of a topic."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return described(admin, topic).topic_id


def leaders(cluster: BrokerCluster, topic: str) -> list[int]:
    """Who leads each partition; -1: nobody."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        return [-1 if one.leader is None else one.leader.id for one in described(admin, topic).partitions]


def leader(cluster: BrokerCluster, topic: str, partition: int) -> int:
    """Who leads a partition, once somebody does."""
    return int(patiently(lambda: found if (found := leaders(cluster, topic)[partition]) > 0 else None))


def records(cluster: BrokerCluster, topic: str, partitions: int) -> list[list[str]]:
    """All records that consumers see, by partition: dense offsets, sound checksums."""
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
                    # It may not have heard yet that it leads.
                    if refused.code in PASSING:
                        return None
                    raise

        found.append(patiently(once))
    return found


def staged_files(cluster: BrokerCluster, broker: int) -> list[str]:
    """The logs that lie staged on a broker's disk."""
    root = cluster.brokers[broker].data_dir / "ingest"
    return sorted(path.relative_to(root).as_posix() for path in files(root) if path.suffix == ".log")


def await_all_in_sync(cluster: BrokerCluster, topic: str) -> None:
    """Until every replica of every partition is."""

    def whole() -> bool:
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            return all(len(one.isr) == len(cluster.brokers) for one in described(admin, topic).partitions)

    until(whole)


def logs(cluster: BrokerCluster, topic: str, partition: int) -> list[dict[str, bytes]]:
    """What each broker has on disk of a partition: the segments that are not empty, by name."""

    def once() -> list[dict[str, bytes]]:
        found = []
        for broker in cluster.brokers.values():
            segments = sorted((broker.data_dir / f"{topic}-{partition}").glob("*.log"))
            found.append({path.name: data for path in segments if (data := path.read_bytes())})
        return found

    # A segment may get another name while it is looked at.
    whole: list[dict[str, bytes]] = patiently(once)
    return whole
