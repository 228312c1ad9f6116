"""A killed broker is fenced at once; one that hangs, or that lost its session, is fenced when the session ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.testing.child_processes import pause
from tests.support.cluster import BrokerCluster, isr, leaders, running_cluster, until
from tests.support.zookeeper import zookeeper_client

SESSION_S = 60


@pytest.fixture
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """A cluster whose sessions end so late that they cannot be the cause of a fencing here."""
    settings = {"zookeeper.session.timeout.ms": str(1_000 * SESSION_S)}
    with running_cluster(tmp_path_factory.mktemp("fencing"), settings=settings) as running:
        yield running


@pytest.mark.checklist("R40")
def test_killed_brokers_are_missed_long_before_their_session_ends(patient: BrokerCluster) -> None:
    """The controller is among them: the first broker to be killed is the controller, because it was started first."""
    with blocking.AdminClient({"bootstrap.servers": patient.bootstrap}) as admin:
        admin.create_topics([NewTopic("led", 6, 3)])
    until(lambda: set(leaders(patient, "led")) == {1, 2, 3})
    for number in (1, 3):
        broker = patient.brokers[number]
        killed = time.monotonic()
        broker.kill()
        until(lambda number=number: number not in leaders(patient, "led"))
        missed_s = time.monotonic() - killed
        assert missed_s < SESSION_S, "the session may have ended by itself"
        print(f"broker {number} killed: others lead after {missed_s:.2f} s")
        with blocking.AdminClient({"bootstrap.servers": patient.bootstrap}) as admin:
            admin.create_topics([NewTopic(f"without-{number}", 1, 2)])
        broker.start()
        until(lambda: isr(patient, "led") == [{1, 2, 3}] * 6)


@pytest.mark.checklist("R40")
def test_a_broker_that_hangs_is_not_taken_for_dead(patient: BrokerCluster) -> None:
    with blocking.AdminClient({"bootstrap.servers": patient.bootstrap}) as admin:
        admin.create_topics([NewTopic("led", 6, 3)])
    pid = patient.brokers[2].pid
    pause(pid)
    try:
        # This is longer than any verdict takes. The test must sleep, because it expects that nothing happens.
        time.sleep(2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert 2 in leaders(patient, "led")


@pytest.mark.checklist("R40", "R27", "B3")
@pytest.mark.only_on_zookeeper("ZooKeeper's own: the node of a registration is removed")
def test_a_broker_that_was_taken_for_dead_and_lives_registers_again(patient: BrokerCluster) -> None:
    with blocking.AdminClient({"bootstrap.servers": patient.bootstrap}) as admin:
        admin.create_topics([NewTopic("led", 6, 3)])
    with zookeeper_client(patient.zookeeper.address) as client:
        client.delete("/brokers/ids/2")
        until(lambda: client.exists("/brokers/ids/2"))
    with blocking.Producer({"bootstrap.servers": patient.bootstrap, "acks": "all"}) as producer:
        for number in range(60):
            producer.enqueue("led", b"%d" % number, partition=number % 6)
        producer.flush()
    until(lambda: isr(patient, "led") == [{1, 2, 3}] * 6)
