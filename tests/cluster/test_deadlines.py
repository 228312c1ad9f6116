"""A request gets its response within its timeout, even if ZooKeeper, the controller or another broker does not respond.
These pauses last longer than any of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.cluster.test_envelope import Network, create, id_of
from tests.support.cluster import ClusterBroker, running_cluster, until
from tests.support.cluster_state import state_of
from tests.support.links import ZOOKEEPER, Links
from tests.wire.client import WireClient

SHORT_MS = 2_000
LONG_MS = 100_000


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Network]:
    """A cluster whose sessions do not end while links are cut."""
    links = Links()
    settings = {"zookeeper.session.timeout.ms": "60000"}
    try:
        with (
            running_cluster(tmp_path_factory.mktemp("late"), settings=settings, links=links, store=store) as cluster,
            state_of(cluster) as state,
        ):
            yield Network(cluster, links, state)
    finally:
        links.close()


def create_at(broker: ClusterBroker, name: str, leader: int, timeout_ms: int) -> int:
    """Create a topic with one replica on that broker; return the error code."""
    placed = m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=0, broker_ids=[leader])
    topic = m.CreateTopicsRequest_CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[placed]
    )
    with WireClient(broker.port) as client:
        answer = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)
    code: int = answer.topics[0].error_code
    return code


@pytest.mark.checklist("R35")
def test_nobody_waits_behind_what_others_have_asked_for(network: Network) -> None:
    """One broker hangs. A request through a second broker for a topic on it waits. Requests to the second broker for
    other topics do not wait, and neither do changes of an ISR."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    network.links.cut_off(third, controller)
    with ThreadPoolExecutor(1) as threads:
        try:
            waits = threads.submit(create_at, brokers[asked], "far", third, LONG_MS)
            until(lambda: ("far", 0) in network.state.partitions())
            assert create_at(brokers[asked], "near", asked, LONG_MS) == 0
            assert create_at(brokers[asked], "far-too", third, SHORT_MS) == ErrorCode.REQUEST_TIMED_OUT
            assert not waits.done()
        finally:
            network.links.heal()
        assert waits.result() == 0


@pytest.mark.checklist("R35")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: the controller does not reach it")
def test_the_controller_does_not_reach_zookeeper(network: Network) -> None:
    """The request goes to the controller itself, and through another broker. A request that expired is not decided
    later."""
    controller, asked, _ = network.roles()
    brokers = network.cluster.brokers
    network.links.cut_off(controller, ZOOKEEPER)
    try:
        for number, broker in enumerate((brokers[controller], brokers[asked]) * 2):
            code, _ = create(broker, f"cut-{number}", SHORT_MS)
            assert code == ErrorCode.REQUEST_TIMED_OUT
        with WireClient(brokers[controller].port) as client:
            request = m.DeleteTopicsRequest(
                topics=[m.DeleteTopicsRequest_DeleteTopicState(name="nobody-knows")], timeout_ms=SHORT_MS
            )
            (answer,) = client.call(request, 6).responses
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT, "another controller may know it"
    finally:
        network.links.heal()
    code, _ = create(brokers[asked], "connected")
    assert code == 0
    assert [id_of(brokers[controller], f"cut-{number}") for number in (1, 2, 3)] == [None] * 3


@pytest.mark.checklist("R35")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: nobody reaches it")
def test_a_new_producer_while_zookeeper_is_away(network: Network) -> None:
    """The broker has a stock of producer ids, whether or not it has allocated one before."""
    brokers = network.cluster.brokers
    network.roles()
    for number in brokers:
        network.links.cut_off(number, ZOOKEEPER)
    try:
        for broker in brokers.values():
            with WireClient(broker.port) as client:
                request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=SHORT_MS)
                assert client.call(request, 4).error_code == 0
                # Only the store could know this producer id.
                request = m.InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=SHORT_MS, producer_id=10**6, producer_epoch=0
                )
                assert client.call(request, 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    finally:
        network.links.heal()


@pytest.mark.checklist("B6", "R27")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: the controller does not reach it")
def test_brokers_that_came_and_went_while_the_controller_did_not_hear_it(network: Network) -> None:
    """When the controller reconnects to ZooKeeper, it reads the changes that it has missed. One broker has
    re-registered and gets its replicas; all brokers know the topics that are created later."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    life = network.state.life(third)
    network.links.cut_off(controller, ZOOKEEPER)
    try:
        brokers[third].kill()
        brokers[third].launch()
        until(lambda: network.state.life(third) > life)
    finally:
        network.links.heal()
    brokers[third].await_answers()
    assert network.state.controller() == controller
    assert create_at(brokers[asked], "since", third, LONG_MS) == 0
    until(lambda: len({id_of(broker, "since") for broker in brokers.values()}) == 1)


def test_a_broker_that_reaches_nobody_stops(network: Network) -> None:
    """The broker does not wait for other brokers to take over its leaderships until its shutdown timeout ends: the
    timeout would turn the stop into a crash."""
    _, asked, _ = network.roles()
    broker = network.cluster.brokers[asked]
    network.links.cut_off(asked, ZOOKEEPER)
    controller, _, third = network.roles()
    network.links.cut_off(asked, controller, third)
    try:
        broker.stop()
        said = broker.log_tail(50)
    finally:
        network.links.heal()
    assert "the next start treats it as a crash" in said
    broker.start()
    network.roles()
