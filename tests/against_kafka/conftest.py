"""Both brokers, for all stories of a run, and two more with an authorizer and users."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.sides import MOVING, Side, differences
from tests.groups.kit import unique, until
from tests.security.kit import ROOT, jaas
from tests.streams.kit import QUICK
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.wire import free_port
from tests.wire.client import WireClient

INTERVAL_MS = "600000"
SETTINGS = {
    # Assign it on the first request, as pybroker does; otherwise the time of the assignment is random.
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignor.offload.enable": "false",
    # An assignment interval ends after all requests of a story, on a slow machine, too.
    "group.consumer.max.assignment.interval.ms": INTERVAL_MS,
    "group.share.max.assignment.interval.ms": INTERVAL_MS,
    # The same pace whether partitions change hands or not: a setting that Kafka does not have.
    "group.consumer.rebalance.heartbeat.interval.ms": "5000",
    # Groups without members and offsets expire at each broker's own time.
    "offsets.retention.check.interval.ms": "86400000",
    **QUICK,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.max.session.timeout.ms": "60000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
OURS = {"group.consumer.rebalance.heartbeat.interval.ms"}
OF_KAFKA = {name: value for name, value in SETTINGS.items() if name not in OURS}
COORDINATORS = range(3)
"""Internal topics of groups, transactions and share partitions."""

Story = Callable[[Side, str], None]
"""A sequence of requests, which gets a unique name."""


@pytest.fixture(scope="package")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    folder = tmp_path_factory.mktemp("both")
    brokers: list[BrokerProcess] = [
        PybrokerProcess(folder / "pybroker", SETTINGS),
        KafkaProcess(folder / "kafka", OF_KAFKA),
    ]
    with started(brokers):
        yield brokers


@contextlib.contextmanager
def started(brokers: Collection[BrokerProcess]) -> Iterator[None]:
    """Run the brokers; they coordinate all kinds of groups."""
    try:
        for broker in brokers:
            broker.start()
            coordinate(broker)
        yield
    finally:
        for broker in brokers:
            broker.kill()


def coordinate(broker: BrokerProcess) -> None:
    """Wait until the broker coordinates all kinds of groups."""
    for kind in COORDINATORS:
        until(lambda kind=kind: _coordinated(broker, kind), "it coordinates")  # type: ignore[misc]


def _coordinated(broker: BrokerProcess, kind: int) -> bool:
    """FindCoordinator creates the internal topic."""
    key = "any" if kind < 2 else "any:AAAAAAAAAAAAAAAAAAAAAQ:0"
    with WireClient(broker.port) as client:
        answer = client.call(m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
    return answer.coordinators[0].error_code not in MOVING


USERS = ("alice", "bob")
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas([ROOT, *USERS]),
    "delegation.token.secret.key": "secret",
}


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[BrokerProcess, int]]:
    """Brokers with an authorizer, and their ports for users. Clients of the other port have all permissions."""
    folder = tmp_path_factory.mktemp("guarded")
    ours = PybrokerProcess(folder / "pybroker", {**SETTINGS, **GUARDED})
    kafka = KafkaProcess(folder / "kafka", {**OF_KAFKA, **GUARDED})
    brokers: dict[BrokerProcess, int] = {ours: free_port(), kafka: free_port()}
    for broker, port in brokers.items():
        broker.settings["listeners"] = f"PLAINTEXT://{broker.bootstrap},SASL_PLAINTEXT://127.0.0.1:{port}"
    kafka.settings["advertised.listeners"] = kafka.settings["listeners"]
    kafka.settings["listeners"] += f",CONTROLLER://127.0.0.1:{kafka.controller_port}"
    kafka.settings["listener.security.protocol.map"] = (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    )
    with started(brokers):
        yield brokers


def tell(story: Story, ours: Side, kafkas: Side) -> None:
    """Run a story against both brokers, and fail with each differing field."""
    name = unique("story")
    for side in (ours, kafkas):
        try:
            story(side, name)
        finally:
            side.close()
    found = differences(ours, kafkas)
    assert not found, f"{story.__name__}:\n{found}"


@pytest.fixture
def compare(both: list[BrokerProcess]) -> Callable[[Story], None]:
    """Compares the responses of both brokers in a story."""
    return lambda story: tell(story, *(Side(broker) for broker in both))


@pytest.fixture
def compare_guarded(guarded: dict[BrokerProcess, int]) -> Callable[[Story], None]:
    """Like `compare`, with an authorizer and users."""
    return lambda story: tell(story, *(Side(broker, port) for broker, port in guarded.items()))
