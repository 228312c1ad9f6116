"""Replicas that were moved away while their broker was down. The topic, or its deletion record, remembers them until
the broker has staged its data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import running_cluster, until
from tests.support.cluster_state import state_of
from tests.support.lives_in_cluster import Everywhere

SETTINGS = {"replica.lag.time.max.ms": "1000"}
MANY = 12
"""Number of partitions: more than a broker stages without an order."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Everywhere]:
    """Each test leaves all of them up."""
    with running_cluster(tmp_path_factory.mktemp("departed"), settings=SETTINGS, store=store) as cluster:
        yield Everywhere(cluster)


def left(brokers: Everywhere, name: str) -> dict[int, list[int]]:
    """Return partition → brokers from which it was moved away, as in the metadata store."""
    with state_of(brokers.cluster) as state:
        return state.departed(name)


def receipt(brokers: Everywhere, at: int, topic_id: Uuid) -> dict[int, str]:
    """Return broker → state of its part of a deleted topic."""
    return {
        one.broker_id: one.state for deletion in brokers.at(at).deletions(topic_id) for one in deletion.partitions
    }


def roles(brokers: Everywhere) -> tuple[int, int, int]:
    """The controller, another broker, and a third one that will be down."""
    controller = brokers.controller()
    other, away = sorted({1, 2, 3} - {controller})
    return controller, other, away


@pytest.mark.checklist(59, 65, 70, 105, "X38", "R30", "A10")
def test_a_deletion_waits_for_who_was_down_when_its_replica_left(tmp_path: Path) -> None:
    """The name exists again, and old deletions are forgotten, except the one that a broker which is down has not
    confirmed."""
    settings = {**SETTINGS, "delete.topic.delay.ms": "0", "topic.history.max.incarnations": "1"}
    with running_cluster(tmp_path, settings=settings) as cluster:
        brokers = Everywhere(cluster)
        controller, other, number = roles(brokers)
        away, lives = cluster.brokers[number], brokers.at(controller)
        topic_id = lives.create_on("moved", [controller, number])
        brokers.written("moved", "old", at=controller)
        until(lambda: brokers.isr("moved", controller) == {controller, number})
        away.kill()
        brokers.move("moved", [controller, other])
        assert lives.delete(topic_id).error_code == 0
        assert lives.create_on("moved", [controller, other]) != topic_id
        brokers.written("moved", "new", at=controller)
        passed = [lives.create_on(f"passing-{index}", [controller, other]) for index in range(3)]
        for one in passed:
            assert lives.delete(one).error_code == 0
        until(lambda: sum(len(lives.deletions(one)) for one in passed) == 1)
        until(lambda: set(receipt(brokers, controller, topic_id).values()) == {"removed", "deleting"})
        assert receipt(brokers, controller, topic_id)[number] == "deleting"
        assert (away.data_dir / "moved-0").exists()
        # The broker applies the delay in its own settings.
        away.settings["delete.topic.delay.ms"] = "3000"
        away.start()
        line = f"topic moved (id {topic_id}), partitions 0 will be removed from disk after"
        until(lambda: line in away.console.read_text())
        assert not (away.data_dir / "moved-0").exists()
        until(lambda: not brokers.staged(number, topic_id))
        until(lambda: [one.state for one in lives.deletions(topic_id)] in ([], ["removed"]))
        assert brokers.read("moved") == ["new"]


@pytest.mark.checklist(5, 70, 105, "R30")
def test_a_topic_comes_back_without_what_was_moved_away(brokers: Everywhere) -> None:
    controller, other, number = roles(brokers)
    away, lives = brokers.cluster.brokers[number], brokers.at(controller)
    topic_id = lives.create_on("returned", [controller, number])
    brokers.written("returned", "one", at=controller)
    until(lambda: brokers.isr("returned", controller) == {controller, number})
    away.kill()
    brokers.move("returned", [controller, other])
    brokers.written("returned", "two", at=controller)
    assert lives.delete(topic_id).error_code == 0
    until(lambda: receipt(brokers, controller, topic_id) == {controller: "staged", other: "staged", number: "deleting"})
    assert lives.undelete(topic_id).error_code == 0
    assert left(brokers, "returned") == {0: [number]}
    away.start()
    until(lambda: left(brokers, "returned") == {})
    (aside,) = brokers.staged(number, topic_id)
    assert b"one" in brokers.records_of(number, f"deleting/{aside.name}")
    assert not (away.data_dir / "returned-0").exists()
    until(lambda: lives.deletions(topic_id) == [])
    until(lambda: brokers.read("returned") == ["one", "two"])
    assert brokers.at(number).fetch("returned").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.checklist(5, 70, "R30", "A32")
def test_a_broker_that_was_away_gives_up_all_that_was_moved(brokers: Everywhere) -> None:
    """The broker removes any number of replicas, because each was moved by a command. A new controller knows that,
    too."""
    controller, other, number = roles(brokers)
    away, lives = brokers.cluster.brokers[number], brokers.at(controller)
    topic_id = lives.create_on("many", *[[controller, number]] * MANY)
    brokers.written("many", "kept", at=controller)

    def in_sync(*members: int) -> bool:
        return all(set(one.isr_nodes) == set(members) for one in lives.metadata("many").partitions)

    until(lambda: in_sync(controller, number))
    away.kill()
    brokers.move("many", [controller, other], MANY)
    assert left(brokers, "many") == {index: [number] for index in range(MANY)}
    brokers.cluster.brokers[controller].kill()
    away.launch()
    if brokers.cluster.on_quorum:  # a majority elects the next controller
        until(lambda: brokers.controller(other) != controller)
    else:
        until(lambda: brokers.controller(other) == other)
    brokers.cluster.brokers[controller].start()
    away.await_answers()
    until(lambda: left(brokers, "many") == {})
    assert len(brokers.staged(number, topic_id)) == MANY
    assert not list(away.data_dir.glob("many-*"))
    # It gets all replicas back. A replica that moves away from a running broker is removed and confirmed at once.
    brokers.move("many", [controller, number], MANY)
    until(lambda: in_sync(controller, number) and left(brokers, "many") == {})
    assert not list(brokers.cluster.brokers[other].data_dir.glob("many-*"))
    assert brokers.staged(number, topic_id) == []
    assert brokers.records_of(number, "many-0") == brokers.records_of(controller, "many-0")
