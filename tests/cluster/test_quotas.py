"""Client quotas in a cluster: a quota set at one broker applies at each broker separately, also after restarts and
under another controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.client import NewTopic, QuotaEntity, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing import Cluster
from pybroker.testing.cluster import Store
from tests.quotas.test_enforced import KILOBYTE, produce
from tests.support.cluster import SESSION_MS, until
from tests.wire.client import WireClient

RATE = 10 * KILOBYTE
"""The burst: ten seconds' worth of bytes is accepted at once."""


@pytest.fixture(scope="module")
def cluster(store: Store) -> Iterator[Cluster]:
    with Cluster(3, {"zookeeper.session.timeout.ms": SESSION_MS}, store=store) as running:
        yield running


def topics_led_by(cluster: Cluster, name: str) -> dict[int, str]:
    """Return broker → a topic that only this broker leads."""
    made = {broker: f"{name}-{broker}" for broker in cluster.brokers}
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(each, replica_assignments={0: [broker]}) for broker, each in made.items()]).all()
    return made


def alter(bootstrap: str, client_id: str, **values: float | None) -> None:
    with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id=client_id): values}).all()


def connected(cluster: Cluster, broker: int, client_id: str) -> WireClient:
    return WireClient(cluster.brokers[broker].port, client_id=client_id)


def waits_after(cluster: Cluster, broker: int, client_id: str, topic: str) -> int:
    """Return the throttle time of a client that has used up its burst and a little more."""
    with connected(cluster, broker, client_id) as wire:
        assert produce(wire, topic, 9 * RATE) == 0
        return produce(wire, topic, 2 * RATE)


@pytest.mark.parametrize("at", [1, 2])
def test_what_is_set_at_one_broker_holds_at_each(cluster: Cluster, at: int) -> None:
    topics, client_id = topics_led_by(cluster, f"set-at-{at}"), f"app-{at}"
    alter(cluster.brokers[at].bootstrap, client_id, producer_byte_rate=RATE)
    other = 3 - at
    with connected(cluster, other, client_id) as wire:
        # The other broker gets the quota from the controller.
        until(lambda: produce(wire, topics[other], 12 * RATE) > 0)
    assert waits_after(cluster, at, client_id, topics[at]) > 0, "each for itself: here nothing was used yet"


def test_it_holds_after_a_restart_and_at_another_controller(cluster: Cluster) -> None:
    topics = topics_led_by(cluster, "restarted")
    alter(cluster.bootstrap, "steady", producer_byte_rate=RATE)
    until(lambda: cluster.controller in cluster.brokers)
    controller = cluster.controller or 0
    cluster.kill(controller)
    other = min({1, 2, 3} - {controller})
    until(lambda: cluster.controller not in (None, controller))
    alter(cluster.brokers[other].bootstrap, "meanwhile", producer_byte_rate=RATE)
    cluster.start_broker(controller)
    cluster.settle()
    for client_id in ("steady", "meanwhile"):
        assert waits_after(cluster, controller, client_id, topics[controller]) > 0, client_id
    with blocking.AdminClient({"bootstrap.servers": cluster.brokers[controller].bootstrap}) as admin:
        found = admin.describe_client_quotas(QuotaEntity(client_id="meanwhile"))
    assert [each.limits for each in found] == [{"producer_byte_rate": RATE}]
    alter(cluster.bootstrap, "steady", producer_byte_rate=None)
    with connected(cluster, other, "steady") as wire:
        until(lambda: produce(wire, topics[other], 12 * RATE) == 0)


def test_partitions_are_counted_by_the_broker_that_is_asked(cluster: Cluster) -> None:
    """The receiving broker counts the partitions, although the controller creates them."""
    alter(cluster.bootstrap, "maker", controller_mutation_rate=0.5)

    def create(broker: int, name: str) -> tuple[int, int]:
        wanted = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=8, replication_factor=1)
        with connected(cluster, broker, "maker") as wire:
            answer = wire.call(m.CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7)
        return answer.topics[0].error_code, answer.throttle_time_ms

    for broker in cluster.brokers:
        told: list[tuple[int, int]] = []
        until(lambda broker=broker, told=told: told.append(create(broker, f"made-{broker}-{len(told)}")) or told[-1][0])
        assert told[-1][0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert told[-1][1] > 0
