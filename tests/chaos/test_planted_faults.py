"""Faults that brokers had, or nearly had. A run with the planted fault fails, and the same run without it succeeds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker.protocol import interbroker as wire
from tests.chaos.history import Delivered, Place, Session
from tests.chaos.planted import FAULTS
from tests.chaos.scenes import TOPIC, Scene, scene
from tests.chaos.writers import LibrdkafkaWriter
from tests.support.cluster import LIMIT_S, until
from tests.support.cluster_state import ZooKeeperState
from tests.support.links import ZOOKEEPER
from tests.support.wire import answers_metadata
from tests.wire.client import WireClient

GROUP = "g"
CAUGHT_S = 12.0
"""A partition that is not in sync after this time counts as broken in runs with a planted fault."""


def followers_cut_off(scene: Scene) -> None:
    """Kill the leader while it cannot reach its followers, before another broker has noticed that."""
    # As the controller, the leader would remove the followers from the ISR itself.
    scene.controller_is_not(1)
    topic = scene.create()
    scene.write_some(1, 1, topic)
    scene.links.cut_off(1, 2, 3)
    scene.write(1, 20, topic)
    scene.kill(1)
    scene.leader_is_not(1)


def leader_without_anybody(scene: Scene) -> None:
    """Leave a leader that only clients can reach, while the others elect another one."""
    topic = scene.create(insync=1)
    scene.isolate(1)
    give_up = time.monotonic() + 2 * CAUGHT_S
    while not scene.write(1, 20, topic) and time.monotonic() < give_up and scene.partition().leader == 1:
        pass
    scene.leader_is_not(1)
    scene.write(1, 20, topic)


def created_again_before_it_was_stopped(scene: Scene) -> None:
    """Let a follower get the deletion of a topic after the creation of the next topic with the same name."""
    first = scene.create()
    scene.write(1, 5, first)
    controller = scene.controller()
    late = next(number for number in (2, 3) if number != controller)
    scene.links.cut_off(late, controller)
    assert scene.delete(1, first) == 0
    second = scene.create(whole=False)
    scene.links.cut_off(late, ZOOKEEPER)
    until(lambda: late not in scene.state.brokers())
    scene.write(1, 5, second)
    scene.links.heal()
    # No message confirms that the order about the first topic has arrived: the controller repeats it until it is
    # executed.
    until(lambda: scene.lives[1].deletions(first)[0].state == "staged" or late not in scene.state.brokers())


def the_controller_is_killed(scene: Scene) -> None:
    topic = scene.create()
    scene.write(1, 5, topic)
    controller = scene.controller()
    scene.kill(controller)
    until(lambda: scene.state.controller() not in (None, controller))
    scene.run(controller)


def said_to_a_life_before(scene: Scene) -> None:
    """Send an order of the current controller to an earlier broker epoch."""
    topic = scene.create()
    scene.write(1, 5, topic)
    before = scene.state.life(2)
    scene.kill(2)
    until(lambda: scene.partition().isr == {1, 3})
    scene.run(2)
    until(lambda: scene.partition().isr == {1, 2, 3})
    assert scene.state.life(2) > before
    replica = wire.StopReplicaRequest_StopReplicaPartitionState(
        partition_index=0, leader_epoch=-2, delete_partition=True
    )
    order = wire.StopReplicaRequest(
        controller_id=scene.controller(),
        controller_epoch=scene.state.controller_epoch(),
        broker_epoch=before,
        delete_partitions=True,
        topic_states=[wire.StopReplicaRequest_StopReplicaTopicState(topic_id=topic, partition_states=[replica])],
    )
    with WireClient(scene.cluster.brokers[2].between_port, client_id="broker-9", interbroker=True) as client:
        client.call(order, 4)
    scene.write(1, 5, topic)


def in_sync_in_a_life_before(scene: Scene) -> None:
    """Let a leader's proposal for a follower's earlier broker epoch arrive in a later one, which lacks records."""
    scene.controller_is_not(1)
    topic = scene.create()
    scene.write(1, 5, topic)
    controller = scene.controller()
    late = next(number for number in (3, 2) if number != controller)
    before = scene.state.life(late)
    scene.kill(late)
    until(lambda: scene.partition().isr == {1, controller})
    scene.links.cut_off(late, 1)
    assert scene.write(1, 20, topic) == 20
    scene.run(late)
    assert scene.state.life(late) > before
    now = scene.partition()
    members = [wire.AlterPartitionRequest_BrokerState(broker_id=one) for one in now.isr]
    members.append(wire.AlterPartitionRequest_BrokerState(broker_id=late, broker_epoch=before))
    change = wire.AlterPartitionRequest_AlterPartitionPartition(
        leader_epoch=now.leader_epoch, partition_epoch=now.changes, new_isr_with_epochs=members
    )
    asked = wire.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=scene.state.life(1),
        topics=[wire.AlterPartitionRequest_AlterPartitionTopic(topic_id=topic, partitions=[change])],
    )
    with WireClient(scene.cluster.brokers[controller].between_port, client_id="broker-1", interbroker=True) as client:
        assert client.call(asked, 3).error_code == 0
    scene.kill(1, controller)
    until(lambda: scene.state.controller() == late and scene.partition().leader in (late, -1))


def written_by_a_leader_that_was_replaced(scene: Scene) -> None:
    """Give a replaced leader records that no other replica has, at offsets where the next leader has different ones."""
    # A broker whose links are cut must not be able to remove others from the ISR.
    scene.controller_is_not(1)
    topic = scene.create()
    scene.write(1, 5, topic)
    scene.links.cut_off(1, 2, 3)
    assert scene.write(1, 1, topic) == 0
    scene.kill(1)
    scene.leader_is_not(1)
    leader = scene.partition().leader
    assert scene.write_some(leader, 5, topic) == 5
    scene.links.heal()
    scene.run(1)
    until(lambda: scene.partition().isr == {1, 2, 3})


def the_store_is_restored_from_a_backup(scene: Scene) -> None:
    """Restore the store from a backup. Brokers refuse it, and the test restores the newest state."""
    server, brokers = scene.cluster.zookeeper, scene.cluster.brokers.values()
    data, backup, newest = (server.directory / name for name in ("data", "backup", "newest"))
    server.stop()
    shutil.copytree(data, backup)
    server.start()
    until(lambda: scene.state.brokers() == {1, 2, 3} and scene.state.controller())
    topic = scene.create()
    scene.write(1, 5, topic)
    for broker in brokers:
        broker.stop()
    server.stop()
    data.rename(newest)
    backup.rename(data)
    server.start()
    for broker in brokers:
        broker.launch()
    until(lambda: all(not broker.running or answers_metadata(broker.port) for broker in brokers))
    if not any(broker.running for broker in brokers):
        for broker in brokers:
            assert broker.ended() == 1
        server.stop()
        data.rename(backup)
        newest.rename(data)
        server.start()
    assert isinstance(scene.state, ZooKeeperState)
    scene.state.begin_anew()


def an_answer_of_the_store_is_lost(scene: Scene) -> None:
    """ZooKeeper has executed the controller's write, and the connection breaks before the response. The controller
    reads the outcome: no other broker has to take over."""
    controller = scene.controller()
    epoch, life = scene.state.controller_epoch(), scene.state.life(controller)
    scene.links.cut(ZOOKEEPER, controller)
    made: list[object] = []
    asking = threading.Thread(target=lambda: made.append(scene.create(at=controller, whole=False)), daemon=True)
    asking.start()
    until(lambda: (TOPIC, 0) in scene.state.partitions())
    scene.links.hang_up(ZOOKEEPER, controller)
    scene.links.heal()
    asking.join(LIMIT_S)
    until(lambda: scene.state.controller_epoch() != epoch or scene.lives[controller].metadata(TOPIC).error_code == 0)
    if scene.state.controller_epoch() != epoch and scene.state.life(controller) == life:
        scene.anomalies.append(f"broker {controller} has given up its office, and its session went on")


def killed_after_an_answer(scene: Scene) -> None:
    """Kill the controller after its response; records have been written by then."""
    topic = scene.create(whole=False)
    assert scene.write_some(1, 5, topic)
    controller = scene.controller()
    until(lambda: not scene.cluster.brokers[controller].running or scene.state.partitions().get((TOPIC, 0)))
    scene.kill(controller)
    until(lambda: scene.state.controller() not in (None, controller))


def a_follower_is_killed(scene: Scene) -> None:
    """Kill a follower, and start it when it has records to copy: a replica that does not copy is then noticed."""
    topic = scene.create()
    scene.coordinator(GROUP)
    scene.write(1, 5, topic)
    scene.kill(3)
    until(lambda: scene.partition().isr == {1, 2})
    scene.write(1, 5, topic)
    scene.run(3)
    scene.write_some(1, 5, topic)


def all_are_killed(scene: Scene) -> None:
    topic = scene.create()
    scene.write_some(1, 50, topic)
    scene.kill(1, 2, 3)
    scene.run(1, 2, 3)


def all_lose_power_and_one_comes_back_first(scene: Scene) -> None:
    topic = scene.create()
    cut = scene.own_disk(3)
    scene.write(1, 20, topic)
    scene.kill(1, 2, 3)
    cut()
    scene.run(3)
    until(lambda: scene.partition().leader == 3)


def only_one_that_was_out_of_sync_is_left(scene: Scene) -> None:
    topic = scene.create()
    # The leader must reach the controller.
    controller = scene.controller()
    left = next(number for number in (3, 2) if number != controller)
    others = [number for number in (1, 2, 3) if number != left]
    scene.links.cut_off(left, *others)
    # A complete replica stays in sync however long it is silent, so it must lack a record.
    assert scene.write_some(1, 20, topic)
    until(lambda: scene.partition().isr == set(others))
    scene.kill(*others)
    until(lambda: scene.state.controller() == left and scene.partition().leader in (left, -1))


def deleted_twice(scene: Scene) -> None:
    """Delete the same name twice; the second time it belongs to another topic."""
    first = scene.create()
    scene.write(1, 5, first)
    assert scene.delete(1, first) == 0
    second = scene.create()
    scene.write(1, 5, second)
    scene.delete(1, first)


def the_coordinator_is_killed(scene: Scene) -> None:
    topic = scene.create()
    assert scene.write(1, 10, topic) == 10
    values = scene.values(topic)
    coordinator = scene.coordinator(GROUP)
    assert scene.lives[coordinator].commit(GROUP, TOPIC, 6) == 0
    place = Place(topic.hex, 0)
    scene.history.sessions.append(Session(place, -1, [Delivered(*one) for one in values[:6]]))
    scene.kill(coordinator)
    scene.run(coordinator)
    another = scene.coordinator(GROUP)
    begins = scene.lives[another].committed(GROUP, TOPIC)
    assert isinstance(begins, int)
    scene.history.sessions.append(Session(place, 6, [Delivered(*one) for one in values[max(begins, 0) :]]))


def two_producers(scene: Scene) -> None:
    topic = scene.create()
    scene.history.topics[TOPIC] = topic.hex
    writers = [
        LibrdkafkaWriter(f"{topic.hex}-{name}", scene.cluster.bootstrap, TOPIC, 1, scene.history) for name in "ab"
    ]
    for one in writers:
        one.start()
    until(lambda: scene.history.counts["acknowledged"] > 100 or scene.history.problems)
    for one in writers:
        one.enough.set()
    for one in writers:
        one.join(CAUGHT_S)


class Case(NamedTuple):
    """A fault, the events that reveal it, and the words in the verdict of its run."""

    fault: str
    trouble: Callable[[Scene], None]
    sentences: tuple[str, ...]
    settings: Mapping[str, str] = {}


CASES = [
    Case("acknowledge_before_replication", followers_cut_off, ("is lost",)),
    Case(
        "shrink_without_the_controller",
        leader_without_anybody,
        ("is lost",),
        # The leader removes its followers as too slow before it learns that it was replaced.
        {"zookeeper.session.timeout.ms": "6000"},
    ),
    Case("stop_replica_by_name", created_again_before_it_was_stopped, ("not come back in sync", "has no replica")),
    Case("inverted_stray_rule", a_follower_is_killed, ("not come back in sync", "has no replica")),
    Case(
        "full_before_the_controller_is_loaded",
        the_controller_is_killed,
        ("not come back in sync", "ended by itself", "has no replica"),
    ),
    Case(
        "full_split_in_two", a_follower_is_killed, ("not come back in sync", "has no replica")
    ),
    Case("restored_store_accepted", the_store_is_restored_from_a_backup, ("is not there",)),
    Case("stale_broker_epoch_taken", said_to_a_life_before, ("not come back in sync", "has no replica")),
    Case("stale_life_taken_into_the_isr", in_sync_in_a_life_before, ("is lost",)),
    Case("truncation_left_out", written_by_a_leader_that_was_replaced, ("differ below the high watermark",)),
    Case(
        "unknown_outcome_taken_for_undone",
        an_answer_of_the_store_is_lost,
        ("given up its office", "ended by itself", "does not stop", "not come back in sync"),
        {"zookeeper.session.timeout.ms": "20000"},
    ),
    Case("answers_before_it_is_durable", killed_after_an_answer, ("not come back in sync", "has no replica")),
    Case("truncation_to_the_high_watermark", all_are_killed, ("is lost",)),
    Case("flush_left_out_on_the_follower", all_lose_power_and_one_comes_back_first, ("is lost",)),
    Case("unclean_election", only_one_that_was_out_of_sync_is_left, ("is lost",)),
    Case("delete_by_the_name_of_the_id", deleted_twice, ("not come back in sync", "has no replica")),
    Case("offsets_lost_at_the_takeover", the_coordinator_is_killed, ("had been acknowledged",)),
    Case("one_producer_id_for_all", two_producers, ("is lost", "writer", "comes again")),
]
TROUBLES = {case.trouble.__name__: case for case in CASES}
QUICK = ("acknowledge_before_replication", "truncation_to_the_high_watermark")


def cases() -> list[object]:
    """Return the cases: a few run always, the others with the slow tests."""
    return [
        pytest.param(case, id=case.fault, marks=() if case.fault in QUICK else pytest.mark.slow) for case in CASES
    ]


def test_every_fault_has_a_case() -> None:
    assert {case.fault for case in CASES} == set(FAULTS)
    assert len(CASES) >= 12


def test_every_fault_finds_what_it_changes(tmp_path: Path) -> None:
    plant = "from tests.chaos.planted import FAULTS\nfor plant in FAULTS.values(): plant()"
    words = ["node.id=1", f"log.dirs={tmp_path}"]
    done = subprocess.run([sys.executable, "-c", plant, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", cases())
def test_a_planted_fault_is_caught(tmp_path: Path, case: Case) -> None:
    with scene(tmp_path, case.fault, case.settings) as running:
        case.trouble(running)
        found = running.finish(CAUGHT_S)
    assert any(sentence in one for one in found for sentence in case.sentences), found


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in TROUBLES.items()])
def test_the_same_trouble_without_the_fault_does_no_harm(tmp_path: Path, case: Case) -> None:
    with scene(tmp_path, None, case.settings) as running:
        case.trouble(running)
        assert running.finish(LIMIT_S) == []
