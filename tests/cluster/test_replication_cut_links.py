"""Links between the processes of a cluster are cut in every pattern, one way and both ways. Acknowledged records exist
afterwards, once and in order. No two brokers accept records in one leader epoch. All replicas end with the same bytes.

The cases: one-way cuts, a bridge, a leader without ZooKeeper, without other brokers, without clients, a paused leader,
leaders that change without new records, and a leader that keeps accepting acks=1 without followers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from pybroker.testing.child_processes import pause
from pybroker.testing.cluster import Store
from tests.support.cluster import Network, running_network, until
from tests.support.links import CLIENTS, ZOOKEEPER
from tests.support.replicas import (
    Writer,
    create,
    epochs_of,
    log_of,
    make_controller,
    produce,
    produce_as_leader,
    read,
    same_logs,
    state,
)

SETTINGS = {
    "replica.lag.time.max.ms": "1000",
    "replica.socket.timeout.ms": "1000",
    "replica.fetch.backoff.ms": "200",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Network]:
    """Three brokers; broker 1 is the controller."""
    with running_network(tmp_path_factory.mktemp("cut"), SETTINGS, store=store) as network:
        # If the leader were cut off from the controller, the controller could not change its ISR; that is another case.
        make_controller(network.cluster, 1)
        yield network


def a_follower_leaves(network: Network, topic: str, writer: Writer) -> None:
    until(lambda: state(network.cluster, topic).isr == {1, 2})
    writer.goes_on()


def only_the_member_in_sync_leads(network: Network, topic: str, writer: Writer) -> None:
    """The leader dies in the bridge: the controller sees both followers, and elects the follower with the records."""
    a_follower_leaves(network, topic, writer)
    network.cluster.brokers[2].kill()
    until(lambda: state(network.cluster, topic).leader not in (-1, 2))
    assert state(network.cluster, topic).leader == 1
    network.cluster.brokers[2].start()
    writer.goes_on()


def another_leads(network: Network, topic: str, writer: Writer) -> None:
    def replaced() -> bool:
        found = state(network.cluster, topic)
        if found.isr == {2}:
            # The machine was paused for so long that both followers had left the ISR before: then the only member is
            # not replaced.
            network.links.heal()
            until(lambda: state(network.cluster, topic).isr == {1, 2, 3})
            network.links.cut_off(2, ZOOKEEPER)
        return found.leader not in (-1, 2)

    until(replaced)
    writer.goes_on()


def nobody_acknowledges(network: Network, topic: str, writer: Writer) -> None:
    """Check that the leader acknowledges nothing. Cut off, it cannot shrink the ISR: its proposals do not reach the
    controller."""
    before = writer.acknowledged
    answer = produce(network.cluster.brokers[2], topic, "alone", timeout_ms=1_500)
    assert answer.error_code in (7, 19, 20)  # timed out, or not enough replicas
    assert writer.acknowledged <= before + 1
    assert state(network.cluster, topic).leader == 2


def the_writer_waits(network: Network, topic: str, writer: Writer) -> None:
    """Check that the writer waits. No other broker notices that clients cannot reach the leader."""
    produce_as_leader(network.cluster.brokers[2], topic, "near")
    assert state(network.cluster, topic).isr == {1, 2, 3}


SHAPES: dict[str, tuple[list[tuple[int | str, int | str]], Callable[[Network, str, Writer], None]]] = {
    # First the leader's messages do not reach a follower, then a follower's messages do not reach the leader.
    "leader-unheard": ([(2, 3)], a_follower_leaves),
    "follower-unheard": ([(3, 2)], a_follower_leaves),
    # Brokers 2 and 3 cannot reach each other, but both reach 1: a bridge.
    "bridge": ([(2, 3), (3, 2)], only_the_member_in_sync_leads),
    # The leader's session ends, and it does not notice.
    "no-zookeeper": ([(2, ZOOKEEPER), (ZOOKEEPER, 2)], another_leads),
    # The leader's session stays alive.
    "no-peers": ([(2, 1), (1, 2), (2, 3), (3, 2)], nobody_acknowledges),
    # Brokers reach each other, but clients cannot reach the leader.
    "no-clients": ([(2, CLIENTS), (CLIENTS, 2)], the_writer_waits),
}


@pytest.mark.checklist("FD1", "FD2", "FD3", "FD4", "FD5", "FD6", "B3")
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "no-zookeeper"])
def test_what_was_acknowledged_is_there_once_when_links_are_cut(network: Network, shape: str) -> None:
    cut_links(network, shape)


@pytest.mark.only_on_zookeeper("ZooKeeper's own: the leader does not reach it")
def test_what_was_acknowledged_is_there_once_when_the_leader_does_not_reach_zookeeper(network: Network) -> None:
    cut_links(network, "no-zookeeper")


def cut_links(network: Network, shape: str) -> None:
    """Cut links while a client writes, then compare all replicas."""
    cuts, meanwhile = SHAPES[shape]
    make_controller(network.cluster, 1)
    create(network.cluster, shape, [2, 3, 1])
    writer = Writer(network.cluster, shape)
    writer.start()
    writer.goes_on()
    try:
        for cut in cuts:
            network.links.cut(*cut)
        meanwhile(network, shape, writer)
    finally:
        network.links.heal()
    writer.goes_on()
    acknowledged = writer.finish()
    log = same_logs(network.cluster, shape)
    # Each epoch has one leader, and epochs are in order: all replicas have the same bytes.
    epochs = epochs_of(log)
    assert epochs == sorted(epochs)
    found = [value for value in read(network.cluster, shape) if value not in ("alone", "near")]
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1, "the last one may have been written and not acknowledged"


@pytest.mark.checklist("R27", "FD1", "B3")
def test_a_paused_leader_is_replaced_and_its_word_is_void(network: Network) -> None:
    """The leader is stopped with SIGSTOP until its session ends. When it resumes, it believes for a moment that it
    still leads. (test_under_load.py kills leaders.)"""
    create(network.cluster, "paused", [2, 3, 1])
    writer = Writer(network.cluster, "paused")
    writer.start()
    writer.goes_on()
    pause(network.cluster.brokers[2].pid)
    try:
        until(lambda: state(network.cluster, "paused").leader not in (-1, 2))
        writer.goes_on()
    finally:
        os.kill(network.cluster.brokers[2].pid, signal.SIGCONT)
    acknowledged = writer.finish()
    same_logs(network.cluster, "paused")
    assert read(network.cluster, "paused")[: len(acknowledged)] == acknowledged


@pytest.mark.checklist("R28", "FD7")
def test_leaders_change_again_and_again_with_no_new_records(network: Network) -> None:
    """Leader epochs without records do not cause a wrong truncation (KIP-101, KIP-279)."""
    create(network.cluster, "restless", [2, 3])
    produce_as_leader(network.cluster.brokers[2], "restless", "first")
    before = same_logs(network.cluster, "restless")
    for number in (2, 3, 2):
        # The broker reconnects before its session ends, and leads again in a new epoch.
        network.cluster.brokers[number].restart(crash=True)
        # A clean stop hands over the leadership.
        network.cluster.brokers[number].restart()
        until(lambda number=number: state(network.cluster, "restless").leader not in (-1, number))
        until(lambda: state(network.cluster, "restless").isr == {2, 3})
    assert state(network.cluster, "restless").epoch >= 3
    assert same_logs(network.cluster, "restless") == before
    produce_as_leader(network.cluster.brokers[state(network.cluster, "restless").leader], "restless", "last")
    same_logs(network.cluster, "restless")
    assert read(network.cluster, "restless") == ["first", "last"]


@pytest.mark.checklist("FD8")
def test_what_an_isolated_leader_took_with_acks_1_is_cut_off(network: Network) -> None:
    """Only the isolated leader has acknowledged these records; with acks=all it acknowledges none."""
    create(network.cluster, "isolated", [2, 3, 1])
    produce_as_leader(network.cluster.brokers[2], "isolated", "kept")
    same_logs(network.cluster, "isolated")
    try:
        network.links.cut_off(2, 1, 3, ZOOKEEPER)
        assert produce(network.cluster.brokers[2], "isolated", "lost", acks=1).error_code == 0
        assert produce(network.cluster.brokers[2], "isolated", "never", timeout_ms=500).error_code == 7
        until(lambda: state(network.cluster, "isolated").leader == 3)
        assert produce_as_leader(network.cluster.brokers[3], "isolated", "newer").error_code == 0
        assert b"lost" in log_of(network.cluster.brokers[2], "isolated")
    finally:
        network.links.heal()
    same_logs(network.cluster, "isolated")
    assert read(network.cluster, "isolated") == ["kept", "newer"]
