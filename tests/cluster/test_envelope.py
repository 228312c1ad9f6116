"""A client sends a change to one broker, and another broker decides it. The change is decided once and answered with
its outcome, whichever broker is the controller by then. The receiving broker resolves a name once, so that a retry
never applies to a successor."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import pause
from pybroker.testing.cluster import Store
from tests.support.cluster import BrokerCluster, ClusterBroker, running_network, until
from tests.support.cluster_state import ClusterState, state_of
from tests.support.links import ZOOKEEPER, Links
from tests.support.lives_in_cluster import LivesAt
from tests.wire.client import WireClient

ANSWER_MS = 60_000
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ANYBODY = "User:ANONYMOUS"


class Network:
    """A cluster, its links, and ZooKeeper's view of it."""

    def __init__(self, cluster: BrokerCluster, links: Links, state: ClusterState) -> None:
        self.cluster = cluster
        self.links = links
        self.state = state

    def roles(self) -> tuple[int, int, int]:
        """Return the controller and the two other brokers, when all three are running."""
        until(lambda: self.state.brokers() == {1, 2, 3} and self.state.controller() is not None)
        controller = self.state.controller()
        assert controller is not None
        asked, third = sorted({1, 2, 3} - {controller})
        return controller, asked, third


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Network]:
    with (
        running_network(tmp_path_factory.mktemp("envelope"), RIGHTS, store=store) as (cluster, links),
        state_of(cluster) as state,
    ):
        yield Network(cluster, links, state)


@pytest.fixture(autouse=True)
def healed(network: Network) -> Iterator[None]:
    """A failed test leaves no broken links to the next test."""
    yield
    network.links.heal()


def create(broker: ClusterBroker, name: str, timeout_ms: int = ANSWER_MS) -> tuple[int, Uuid]:
    """Create a topic of one partition with one replica."""
    topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with WireClient(broker.port) as client:
        answer = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)
    return answer.topics[0].error_code, answer.topics[0].topic_id


def delete(broker: ClusterBroker, name: str) -> tuple[int, Uuid]:
    """Delete the topic by name."""
    topic = m.DeleteTopicsRequest_DeleteTopicState(name=name)
    with WireClient(broker.port) as client:
        (answer,) = client.call(m.DeleteTopicsRequest(topics=[topic], timeout_ms=ANSWER_MS), 6).responses
    return answer.error_code, answer.topic_id


def id_of(broker: ClusterBroker, name: str) -> Uuid | None:
    """Return the topic id that a broker shows."""
    with WireClient(broker.port) as client:
        request = m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=name)])
        (topic,) = client.call(request, 12).topics
    return topic.topic_id if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None


def create_everywhere(network: Network, name: str) -> Uuid:
    """Create a topic, and wait until every broker shows it."""
    brokers = network.cluster.brokers.values()
    code, topic_id = create(next(iter(brokers)), name)
    assert code == 0
    until(lambda: all(id_of(broker, name) == topic_id for broker in brokers))
    return topic_id


@contextmanager
def asked_meanwhile(ask: Callable[..., Any], *arguments: Any) -> Iterator[Future[Any]]:
    """Send a request in a separate thread."""
    with ThreadPoolExecutor(1) as threads:
        yield threads.submit(ask, *arguments)


@pytest.mark.checklist("R26", "B1")
def test_the_controller_dies_between_its_decision_and_the_answer(network: Network) -> None:
    """The request goes through another broker. A successor gets the topic's name meanwhile and stays; the next
    controller returns the outcome that its predecessor decided."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    old = create_everywhere(network, "passed-on")
    network.links.cut(controller, asked)
    with asked_meanwhile(delete, brokers[asked], "passed-on") as deleted:
        until(lambda: id_of(brokers[third], "passed-on") is None)

        def made() -> bool:
            # The request may have to go to the broker that gets no messages, and a slow machine may be too slow for
            # that.
            create(brokers[third], "passed-on", timeout_ms=500)
            return id_of(brokers[third], "passed-on") is not None

        until(made)
        successor = id_of(brokers[third], "passed-on")
        assert successor != old
        assert not deleted.done()
        brokers[controller].kill()
        assert deleted.result() == (0, old)
    network.links.heal()
    until(lambda: id_of(brokers[asked], "passed-on") == successor)
    brokers[controller].start()
    assert delete(brokers[controller], "passed-on") == (0, successor)


@pytest.mark.checklist("R26", "B2")
def test_a_controller_that_was_paused_returns(network: Network) -> None:
    """Its successor decides the requests that arrived during the pause. After the pause, the old controller decides
    nothing, and the successor of a topic that it was to delete stays."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    code, old = create(brokers[asked], "slept-over")
    assert code == 0
    pause(brokers[controller].pid)
    try:
        assert delete(brokers[asked], "slept-over") == (0, old)
        until(lambda: network.state.controller() not in (None, controller))
        code, successor = create(brokers[third], "slept-over")
        assert code == 0
    finally:
        os.kill(brokers[controller].pid, signal.SIGCONT)
    network.roles()
    until(lambda: all(id_of(broker, "slept-over") == successor for broker in brokers.values()))
    assert network.state.controller() != controller
    code, _ = create(brokers[controller], "after-its-sleep")
    assert code == 0


@pytest.mark.checklist("B5", "R26")
def test_an_answer_of_zookeeper_is_lost(network: Network) -> None:
    """ZooKeeper has executed the controller's write, and the connection breaks before the response. The controller
    reads the store to find out. It neither repeats the write nor treats it as another program's."""
    controller, asked, _ = network.roles()
    brokers = network.cluster.brokers
    network.links.cut(ZOOKEEPER, controller)
    with asked_meanwhile(create, brokers[asked], "answer-lost") as made:
        try:
            until(lambda: ("answer-lost", 0) in network.state.partitions())
            network.links.hang_up(ZOOKEEPER, controller)
        finally:
            network.links.heal()
        code, topic_id = made.result()
    assert code == 0
    assert network.state.partitions()["answer-lost", 0].topic_id == topic_id.hex
    network.roles()
    until(lambda: all(id_of(broker, "answer-lost") == topic_id for broker in brokers.values()))
    code, _ = create(brokers[asked], "answer-lost")
    assert code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_broker_that_is_behind_knows_what_was_created_elsewhere(network: Network) -> None:
    """A name that a broker does not know may belong to a topic that another broker has just created."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    for number in range(10):
        name = f"just-made-{number}"
        code, made = create(brokers[(controller, third)[number % 2]], name)
        assert code == 0
        assert delete(brokers[asked], name) == (0, made)
    assert delete(brokers[asked], "never-made")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@contextmanager
def paused(broker: ClusterBroker) -> Iterator[None]:
    """A broker that gets no messages meanwhile. Requests to it wait."""
    pause(broker.pid)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_broker_that_is_behind_knows_what_was_deleted_elsewhere(network: Network) -> None:
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    for number in range(5):
        with WireClient(brokers[asked].port) as client, paused(brokers[asked]):
            other = LivesAt(brokers[third].port)
            made = other.create_on(f"just-deleted-{number}", [third, controller])
            assert other.delete(made).error_code == 0
            topic = m.UndeleteTopicsRequest_UndeletableTopic(topic_id=made)
            client.send(m.UndeleteTopicsRequest(topics=[topic], timeout_ms=ANSWER_MS), 0)
            os.kill(brokers[asked].pid, signal.SIGCONT)
            assert client.receive().topics[0].error_code == 0
    assert LivesAt(brokers[asked].port).undelete(Uuid.random()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_broker_that_is_behind_truncates_what_was_created_elsewhere(network: Network) -> None:
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    for number in range(6):
        name = f"to-truncate-{number}"
        with WireClient(brokers[asked].port) as client, paused(brokers[asked]):
            made = LivesAt(brokers[third].port).create_on(name, [third, controller])
            topic = m.TruncateTopicsRequest_TruncatableTopic(keep_offsets=False)
            if number % 2:
                topic.name = name
            else:
                topic.topic_id = made
            client.send(m.TruncateTopicsRequest(topics=[topic], timeout_ms=ANSWER_MS), 0)
            os.kill(brokers[asked].pid, signal.SIGCONT)
            assert client.receive().topics[0].error_code == 0


@pytest.mark.checklist("R26", "B2")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: the controller does not reach it")
def test_a_controller_that_was_replaced_refuses_nothing_from_what_it_remembers(network: Network) -> None:
    """The controller is cut off from ZooKeeper, and does not know that another controller leads. Its writes fail, and
    it must not send refusals that need no write either."""
    controller, asked, _ = network.roles()
    brokers = network.cluster.brokers
    network.links.cut_off(controller, ZOOKEEPER)
    until(lambda: network.state.controller() not in (None, controller))
    # The new controller learns of its brokers one after another.
    until(lambda: create(brokers[asked], "made-since")[0] in (0, ErrorCode.TOPIC_ALREADY_EXISTS))
    until(lambda: id_of(brokers[asked], "made-since") is not None)
    made = id_of(brokers[asked], "made-since")
    with WireClient(brokers[controller].port) as client:
        topic = m.DeleteTopicsRequest_DeleteTopicState(topic_id=made)
        client.send(m.DeleteTopicsRequest(topics=[topic], timeout_ms=ANSWER_MS), 6)
        # These requests give the controller enough time to respond.
        for _ in range(20):
            id_of(brokers[controller], "another")
        network.links.heal()
        assert client.receive().responses[0].error_code == 0, "the one in office was asked"
    assert id_of(brokers[controller], "made-since") is None


def allow(broker: ClusterBroker, topic: str, *operations: AclOperation) -> None:
    """Allow these operations on the topic, and no others."""
    request = m.CreateAclsRequest(
        creations=[
            m.CreateAclsRequest_AclCreation(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                resource_pattern_type=PatternType.LITERAL,
                principal=ANYBODY,
                host="*",
                operation=operation,
                permission_type=PermissionType.ALLOW,
            )
            for operation in operations
        ]
    )
    with WireClient(broker.port) as client:
        assert {result.error_code for result in client.call(request, 3).results} == {0}


def allowed(broker: ClusterBroker, topic: str) -> set[int]:
    """Return the operations that a broker's ACLs allow."""
    request = m.DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=PermissionType.ANY,
    )
    with WireClient(broker.port) as client:
        answer = client.call(request, 3)
    return {acl.operation for resource in answer.resources for acl in resource.acls}


@pytest.mark.checklist("R26")
def test_a_right_is_gone_though_the_broker_that_is_asked_has_not_heard_of_it(network: Network) -> None:
    """By its own ACLs the broker lets the request pass; the controller refuses it (KIP-590)."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    kept = create_everywhere(network, "kept")
    allow(brokers[asked], "kept", AclOperation.DESCRIBE, AclOperation.DELETE)
    network.links.cut(controller, asked)
    taken = m.DeleteAclsRequest_DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="kept",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.DELETE,
        permission_type=PermissionType.ANY,
    )
    with WireClient(brokers[controller].port) as client:
        # The response waits for the broker that gets no messages.
        client.send(m.DeleteAclsRequest(filters=[taken]), 3)
        until(lambda: allowed(brokers[third], "kept") == {AclOperation.DESCRIBE})
        assert allowed(brokers[asked], "kept") == {AclOperation.DESCRIBE, AclOperation.DELETE}
        with asked_meanwhile(delete, brokers[asked], "kept") as answer:
            refused = "operation=DELETE resource=TOPIC:'kept' request=DeleteTopics forwarded_by="
            until(lambda: refused in brokers[controller].console.read_text() or id_of(brokers[third], "kept") is None)
            network.links.heal()
            assert answer.result()[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert client.receive().filter_results[0].error_code == 0
    assert id_of(brokers[third], "kept") == kept


@pytest.mark.checklist("R26")
@pytest.mark.parametrize("how", ["killed", pytest.param("paused", marks=pytest.mark.slow)])
@pytest.mark.only_on_zookeeper("ZooKeeper's own: a broker does not reach it")
def test_a_broker_that_hears_of_no_election_finds_the_next_controller(network: Network, how: str) -> None:
    """ZooKeeper cannot reach the broker, but other brokers can."""
    controller, asked, third = network.roles()
    brokers = network.cluster.brokers
    assert create(brokers[asked], f"before-{how}")[0] == 0
    network.links.cut_off(asked, ZOOKEEPER)
    if how == "killed":
        brokers[controller].kill()
    else:
        pause(brokers[controller].pid)
    until(lambda: network.state.controller() == third)
    with asked_meanwhile(create, brokers[asked], how) as made:
        until(lambda: made.done() or id_of(brokers[third], how) is not None)
        assert id_of(brokers[third], how) is not None, made.result()
        network.links.heal()
        if how == "killed":
            brokers[controller].start()
        else:
            os.kill(brokers[controller].pid, signal.SIGCONT)
        assert made.result()[0] == 0
    network.roles()
