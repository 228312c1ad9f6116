"""A restarted broker handles the replicas on its disk: of topics that were deleted, or deleted and re-created, while it
was down, and unknown directories."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import pause
from pybroker.testing.cluster import Store
from tests.support.cluster import running_cluster, until
from tests.support.lives_in_cluster import Everywhere


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Everywhere]:
    """Three brokers for all tests here; every test leaves them running. The cluster notices a paused one late."""
    settings = {"zookeeper.session.timeout.ms": "30000", "replica.lag.time.max.ms": "1000"}
    with running_cluster(tmp_path_factory.mktemp("reconcile"), settings=settings, store=store) as cluster:
        yield Everywhere(cluster)


@pytest.mark.checklist(3, 4, 6, 7, 65, 66, 69, 79, 105, 110, 112, 113, 114, 119, 128)
@pytest.mark.checklist(52, *range(60, 64), 83, 84, 103, "A5", "R11", "R30", "A4")
def test_a_broker_that_was_down_while_topics_were_deleted_and_made_again(brokers: Everywhere) -> None:
    """The broker no longer responds, and no broker has noticed it yet: the new incarnation gets a replica on it,
    too."""
    controller = brokers.controller()
    number, other = sorted({1, 2, 3} - {controller})
    away, lives = brokers.cluster.brokers[number], brokers.at(controller)
    replicas = [[controller, other, number], [other, number, controller]]
    gone, old = (lives.create_on(name, *replicas) for name in ("gone", "again"))
    for name in ("gone", "again"):
        brokers.written(name, "old", at=controller)
        until(lambda name=name: brokers.isr(name, controller) == {1, 2, 3})
    pause(away.pid)
    assert [lives.delete(one).error_code for one in (gone, old)] == [0, 0]
    new = lives.create_on("again", *replicas)
    assert new != old
    away.kill()
    until(lambda: brokers.isr("again", controller) == {controller, other})
    brokers.written("again", "new", at=controller)
    away.start()
    until(lambda: brokers.isr("again", controller) == {1, 2, 3})
    for partition in range(2):
        kept = brokers.records_of(number, f"again-{partition}")
        assert (b"old" in kept, b"new" in kept) == (False, partition == 0)
    for topic_id in (gone, old):
        assert len(brokers.staged(number, topic_id)) == 2, "moved aside, and its delay runs"
        assert b"old" in brokers.records_of(number, f"deleting/{topic_id.hex}_0")
    assert not list(away.data_dir.glob("gone-*"))
    assert brokers.at(number).produce(old, "late").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    until(lambda: {one.state for one in lives.deletions(gone, old)} == {"staged"})


@pytest.mark.checklist(5, 59, 65, 70, 124, "X38", "R30", "A10")
def test_a_replica_that_was_moved_away_while_its_broker_was_down(brokers: Everywhere) -> None:
    """The topic exists; the broker's data of it is removed after the delay, or returns when the broker gets a replica
    again."""
    controller = brokers.controller()
    number, other = sorted({1, 2, 3} - {controller})
    away, lives = brokers.cluster.brokers[number], brokers.at(controller)
    topic_id = lives.create_on("moved", [controller, number])
    brokers.written("moved", "one", at=controller)
    until(lambda: brokers.isr("moved", controller) == {controller, number})
    away.stop()
    brokers.move("moved", [controller, other])
    until(lambda: brokers.isr("moved", controller) == {controller, other})
    brokers.written("moved", "two", at=controller)
    away.start()
    until(lambda: brokers.staged(number, topic_id))
    (aside,) = brokers.staged(number, topic_id)
    assert b"one" in brokers.records_of(number, f"deleting/{aside.name}")
    assert not (away.data_dir / "moved-0").exists()
    # The request had only the id; the log line also has the name.
    line = f"topic moved (id {topic_id}), partitions 0 will be removed from disk after"
    until(lambda: line in away.console.read_text())
    until(lambda: lives.deletions(topic_id) == [])
    brokers.move("moved", [controller, other, number])
    until(lambda: brokers.isr("moved", controller) == {1, 2, 3})
    assert brokers.staged(number, topic_id) == []
    assert brokers.records_of(number, "moved-0") == brokers.records_of(controller, "moved-0")


@pytest.mark.checklist(70, "X38", "R30")
def test_what_nobody_knows_of_is_put_aside_and_never_removed(brokers: Everywhere) -> None:
    controller = brokers.controller()
    number = max({1, 2, 3} - {controller})
    away = brokers.cluster.brokers[number]
    brokers.create("known")
    brokers.written("known", "kept")
    until(lambda: brokers.isr("known", controller) == {1, 2, 3})
    away.stop()
    unknown = Uuid.random()
    ghost = away.data_dir / "ghost-0"
    shutil.copytree(away.data_dir / "known-0", ghost)
    (ghost / "partition.metadata").write_text(f"version: 0\ntopic_id: {unknown}")
    away.settings["delete.topic.delay.ms"] = "0"
    for _ in range(2):
        away.start()
        until(lambda: brokers.staged(number, unknown))
        (aside,) = brokers.staged(number, unknown)
        assert b"kept" in brokers.records_of(number, f"deleting/{aside.name}")
        assert not ghost.exists()
        line = f"(id {unknown}), partitions 0: the cluster's metadata does not know this id"
        until(lambda line=line: line in away.console.read_text())
        away.stop()
    del away.settings["delete.topic.delay.ms"]
    away.start()
    assert brokers.staged(number, unknown) == [aside]
    until(lambda: brokers.isr("known", controller) == {1, 2, 3})
    # The replica is listed as a deletion, and an operator decides whether it is restored or removed.
    until(lambda: [one.state for one in brokers.at(controller).deletions(unknown)] == ["found"])
    (found,) = brokers.at(controller).deletions(unknown)
    assert (found.name, [(one.partition_index, one.broker_id) for one in found.partitions]) == ("ghost", [(0, number)])
    assert brokers.at(controller).undelete(unknown, "was-ghost").error_code == 0
    until(lambda: brokers.read("was-ghost") == ["kept"])
    assert brokers.at(controller).metadata("was-ghost").topic_id == unknown
    assert brokers.staged(number, unknown) == []
    assert brokers.at(controller).delete(unknown).error_code == 0


@pytest.mark.checklist(70, "A11", "X27", "R30")
def test_more_than_a_tenth_that_nobody_knows_of_waits_for_an_operator(brokers: Everywhere) -> None:
    """The broker stages no stray replica and serves the rest. It stages all strays after the operator has confirmed
    it."""
    controller = brokers.controller()
    number = max({1, 2, 3} - {controller})
    away = brokers.cluster.brokers[number]
    brokers.create("among-them")
    brokers.written("among-them", "kept")
    until(lambda: brokers.isr("among-them", controller) == {1, 2, 3})
    away.stop()
    unknown = Uuid.random()
    many = [away.data_dir / f"crowd-{index}" for index in range(11)]
    for one in many:
        shutil.copytree(away.data_dir / "among-them-0", one)
        (one / "partition.metadata").write_text(f"version: 0\ntopic_id: {unknown}")
    away.start()
    assert all(one.exists() for one in many)
    assert brokers.staged(number, unknown) == []
    until(lambda: "local replicas would be staged for deletion" in away.console.read_text())
    until(lambda: brokers.isr("among-them", controller) == {1, 2, 3})
    away.stop()
    away.settings["stale.replicas.max.percent"] = "100"
    away.start()
    until(lambda: len(brokers.staged(number, unknown)) == len(many))
    assert not any(one.exists() for one in many)
    del away.settings["stale.replicas.max.percent"]


@pytest.mark.checklist(70, "X38", "R30", "U4")
def test_what_nobody_knows_of_is_removed_by_order(brokers: Everywhere) -> None:
    controller = brokers.controller()
    number = max({1, 2, 3} - {controller})
    away = brokers.cluster.brokers[number]
    brokers.at(controller).create_on("another", [number])
    brokers.written("another", "kept", at=controller)
    away.stop()
    unknown = Uuid.random()
    shutil.copytree(away.data_dir / "another-0", away.data_dir / "spectre-0")
    (away.data_dir / "spectre-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {unknown}")
    away.settings["delete.topic.delay.ms"] = "0"
    away.start()
    address = ["--bootstrap-server", brokers.cluster.brokers[controller].bootstrap]

    def discard(topic_id: Uuid) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pybroker", "topics", "deletions", "--discard", str(topic_id), *address]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    until(lambda: [one.state for one in brokers.at(controller).deletions(unknown)] == ["found"])
    assert "No broker has data of an unknown topic" in discard(Uuid.random()).stderr
    assert brokers.staged(number, unknown) != []
    done = discard(unknown)
    assert done.returncode == 0, done.stderr
    until(lambda: [one.state for one in brokers.at(controller).deletions(unknown)] == ["removed"])
    until(lambda: brokers.staged(number, unknown) == [])
    del away.settings["delete.topic.delay.ms"]
