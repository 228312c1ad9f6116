"""`controller_mutation_rate` in a cluster (KIP-599): counted by the controller, so that a client has one quota,
whichever broker it asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.client import QuotaEntity, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing import Cluster
from pybroker.testing.cluster import Store
from tests.support.cluster import SESSION_MS, until
from tests.wire.client import WireClient

RATE = 0.01
"""One partition per hundred seconds: a client stays over its quota for the whole test."""


@pytest.fixture(scope="module")
def cluster(store: Store) -> Iterator[Cluster]:
    with Cluster(3, {"zookeeper.session.timeout.ms": SESSION_MS}, store=store) as running:
        until(lambda: running.controller in running.brokers)
        yield running


def bounded(cluster: Cluster, client_id: str, **names: str) -> None:
    """Set the client's quota; on return each broker has applied it."""
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        entity = QuotaEntity(**names) if names else QuotaEntity(client_id=client_id)
        admin.alter_client_quotas({entity: {"controller_mutation_rate": RATE}}).all()


def ask(cluster: Cluster, broker: int, client_id: str, request: Any, version: int) -> Any:
    """Use a separate connection: the broker does not read from a throttled client."""
    with WireClient(cluster.brokers[broker].port, client_id=client_id) as wire:
        return wire.call(request, version)


def creation(*names: str, partitions: int = 4, validate_only: bool = False) -> m.CreateTopicsRequest:
    topics = [
        m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    return m.CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=validate_only)


def deletion(*names: str) -> m.DeleteTopicsRequest:
    return m.DeleteTopicsRequest(topic_names=list(names), timeout_ms=60_000)


def growth(name: str, count: int) -> m.CreatePartitionsRequest:
    topic = m.CreatePartitionsRequest_CreatePartitionsTopic(name=name, count=count, assignments=None)
    return m.CreatePartitionsRequest(topics=[topic], timeout_ms=60_000, validate_only=False)


def codes(answer: Any) -> list[int]:
    return [one.error_code for one in answer.topics]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_client_that_goes_from_broker_to_broker_has_one_quota(cluster: Cluster, first: int) -> None:
    client_id = f"wanderer-{first}"
    bounded(cluster, client_id)
    accepted = ask(cluster, first, client_id, creation(f"first-{first}"), 7)
    assert (codes(accepted), accepted.throttle_time_ms) == ([0], 0)
    for broker in cluster.brokers:
        refused = ask(cluster, broker, client_id, creation(f"more-{first}-{broker}"), 7)
        assert codes(refused) == [ErrorCode.THROTTLING_QUOTA_EXCEEDED], broker
        assert refused.throttle_time_ms > 100_000, "more than three partitions are owed"
        grown = ask(cluster, broker, client_id, growth(f"first-{first}", 5), 3)
        assert [one.error_code for one in grown.results] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert grown.throttle_time_ms > 100_000
        deleted = ask(cluster, broker, client_id, deletion(f"first-{first}"), 5)
        assert [one.error_code for one in deleted.responses] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert deleted.throttle_time_ms > 100_000
        assert codes(ask(cluster, broker, "neighbour", creation(f"neighbour-{first}-{broker}"), 7)) == [0]
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        names = set(admin.list_topics())
    assert f"first-{first}" in names, "what was refused did not happen"
    assert not [name for name in names if name.startswith(f"more-{first}-")]


def test_versions_that_do_not_know_the_error_are_slowed_down(cluster: Cluster) -> None:
    bounded(cluster, "old")
    waits = []
    for broker in cluster.brokers:
        name = f"old-{broker}"
        made = ask(cluster, broker, "old", creation(name), 5)
        assert codes(made) == [0]
        grown = ask(cluster, broker, "old", growth(name, 6), 2)
        assert [one.error_code for one in grown.results] == [0]
        gone = ask(cluster, broker, "old", deletion(name), 4)
        assert [one.error_code for one in gone.responses] == [0]
        waits += [made.throttle_time_ms, grown.throttle_time_ms, gone.throttle_time_ms]
    assert waits == sorted(waits), "what was done elsewhere is owed here"
    assert waits[0] > 100_000
    assert waits[-1] > 3_000_000, "36 partitions"


def test_what_is_not_done_costs_nothing(cluster: Cluster) -> None:
    bounded(cluster, "clumsy")
    assert codes(ask(cluster, 1, "neighbour", creation("taken"), 7)) == [0]
    for broker in cluster.brokers:
        taken = ask(cluster, broker, "clumsy", creation("taken", partitions=50), 7)
        assert (codes(taken), taken.throttle_time_ms) == ([ErrorCode.TOPIC_ALREADY_EXISTS], 0)
        tried = ask(cluster, broker, "clumsy", creation("tried", partitions=50, validate_only=True), 7)
        assert (codes(tried), tried.throttle_time_ms) == ([0], 0)
        unknown = ask(cluster, broker, "clumsy", deletion("unknown"), 5)
        assert [one.error_code for one in unknown.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    # The items of a request succeed as long as the quota allows.
    both = ask(cluster, 2, "clumsy", creation("taken", "served", "late"), 7)
    assert {one.name: one.error_code for one in both.topics} == {
        "taken": ErrorCode.TOPIC_ALREADY_EXISTS,
        "served": 0,
        "late": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }


def test_a_users_quota_goes_with_the_user(cluster: Cluster) -> None:
    try:
        bounded(cluster, "", user="ANONYMOUS")
        assert codes(ask(cluster, 1, "a", creation("of-a"), 7)) == [0]
        for broker, client_id in ((2, "b"), (3, "c"), (1, "d")):
            refused = ask(cluster, broker, client_id, creation(f"of-{client_id}"), 7)
            assert codes(refused) == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        # Topics that are created on first use count as well; the client gets a retriable error.
        wanted = m.MetadataRequest_MetadataRequestTopic(name="wished")
        asked = m.MetadataRequest(topics=[wanted], allow_auto_topic_creation=True)
        (topic,) = ask(cluster, 2, "e", asked, 9).topics
        assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    finally:
        with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.alter_client_quotas({QuotaEntity(user="ANONYMOUS"): {"controller_mutation_rate": None}}).all()
