"""Staged ingests over several brokers: a commit is visible completely on every replica, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pybroker.client import blocking
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.ingest.client import ABSENT, COMMITTED, OPEN, Attempt
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.support.cluster_ingest import ClusterIngest, client, create, leaders, logs, records, staged_files

PARTITIONS = 3
LINKED = {"ingest.copy.bytes.max": "0"}
"""A setting that makes brokers copy no segment, however small."""
TTL_MS = 8_000
"""Expiry of an ingest: longer than a slow machine pauses between two appends."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[BrokerCluster]:
    """Three brokers that link the segments of ingests."""
    with running_cluster(tmp_path_factory.mktemp("ingest"), settings=LINKED, store=store) as running:
        yield running


def values(name: str, count: int = 20) -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


@pytest.mark.checklist("R33")
def test_what_is_committed_at_any_broker_is_on_all_replicas_of_all_partitions(cluster: BrokerCluster) -> None:
    create(cluster, "spread", config={"min.insync.replicas": "2"})
    until(lambda: set(leaders(cluster, "spread")) == {1, 2, 3})
    ingest = ClusterIngest(cluster, "spread", "job")
    ingest.begin(1)
    one, two = Attempt(0), Attempt(1)
    for partition in range(PARTITIONS):
        ingest.append(one, partition, values(f"one-{partition}"))
        ingest.append(two, partition, values(f"two-{partition}", 5))
        ingest.append(one, partition, values(f"more-{partition}"))
    # Acknowledged records are staged on every in-sync replica before any commit.
    staged = [staged_files(cluster, broker) for broker in cluster.brokers]
    assert staged[0] == staged[1] == staged[2]
    assert len(staged[0]) == 2 * PARTITIONS
    assert records(cluster, "spread", PARTITIONS) == [[]] * PARTITIONS

    ingest.last = None
    answer = ingest.commit([one, two], broker=2)
    assert not answer.repeated or ingest.last, "at the first attempt"
    assert [(part.partition, part.base_offset, part.end_offset) for part in answer.partitions] == [
        (partition, 0, 45) for partition in range(PARTITIONS)
    ]
    expected = [
        values(f"one-{partition}") + values(f"more-{partition}") + values(f"two-{partition}", 5)
        for partition in range(PARTITIONS)
    ]
    assert records(cluster, "spread", PARTITIONS) == expected
    again = ingest.commit([one, two], broker=3)
    assert again.repeated
    assert [(part.base_offset, part.end_offset) for part in again.partitions] == [(0, 45)] * PARTITIONS
    for broker in cluster.brokers:
        until(lambda broker=broker: ingest.state(broker) == COMMITTED)
        until(lambda broker=broker: not staged_files(cluster, broker))
    for partition in range(PARTITIONS):


        def attached(partition: int = partition) -> bool:
            mine, *others = logs(cluster, "spread", partition)
            # One file for each writer: the followers have linked their staged segments, too.
            return list(mine) == [f"{0:020}.log", f"{40:020}.log"] and all(other == mine for other in others)

        until(attached)


def test_an_abort_at_any_broker_removes_what_is_staged_everywhere(cluster: BrokerCluster) -> None:
    create(cluster, "aborted")
    ingest = ClusterIngest(cluster, "aborted", "job")
    ingest.begin(1)
    attempt = Attempt(0)
    for partition in range(PARTITIONS):
        ingest.append(attempt, partition, values("never"))
    with client(cluster, 3) as connection:
        assert connection.abort(ingest.topic_id, "job").state == ABSENT
    for broker in cluster.brokers:
        until(lambda broker=broker: ingest.state(broker) is None and not staged_files(cluster, broker))
    assert records(cluster, "aborted", PARTITIONS) == [[]] * PARTITIONS


def test_an_ingest_expires_everywhere_when_no_broker_takes_anything_of_it(cluster: BrokerCluster) -> None:
    create(cluster, "idle")
    ingest = ClusterIngest(cluster, "idle", "job")
    ingest.begin(2, ttl_ms=TTL_MS)
    begun, number = time.monotonic(), 0
    attempt = Attempt(0)
    # Append to the leader of a partition other than the first: that broker must know that the ingest continues.
    while time.monotonic() < begun + 1.2 * TTL_MS / 1000:
        ingest.append(attempt, 2, values(f"part-{number}"))
        number += 1
        time.sleep(0.3)
    assert ingest.state(1) == OPEN
    for broker in cluster.brokers:
        until(lambda broker=broker: ingest.state(broker) is None and not staged_files(cluster, broker))


def test_a_topic_that_is_deleted_takes_its_ingest_with_it_everywhere(cluster: BrokerCluster) -> None:
    create(cluster, "deleted")
    ingest = ClusterIngest(cluster, "deleted", "job")
    ingest.begin(1)
    attempt = Attempt(0)
    for partition in range(PARTITIONS):
        ingest.append(attempt, partition, values("never"))
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.delete_topics(["deleted"])
    create(cluster, "deleted")
    with client(cluster, 2) as connection:
        refused = connection.commit(ingest.topic_id, "job", ingest.epoch, [attempt])
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    for broker in cluster.brokers:
        until(lambda broker=broker: ingest.state(broker) is None and not staged_files(cluster, broker))
    assert records(cluster, "deleted", PARTITIONS) == [[]] * PARTITIONS
