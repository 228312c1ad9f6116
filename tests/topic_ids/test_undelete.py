"""A deleted topic is undeleted: its data, id, settings and committed offsets return."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import TIMEOUT_MS, Lives, ids, until

UNKNOWN_TOPIC_OR_PARTITION, TOPIC_ALREADY_EXISTS, INVALID_REQUEST, UNKNOWN_TOPIC_ID = 3, 36, 42, 100
OFFSETS_TOPIC = "__consumer_offsets"
FENCED_LEADER_EPOCH = 74


@pytest.fixture
def lives(broker: BrokerProcess) -> Lives:
    return Lives(broker.port)


def deleting(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data_dir / "deleting").glob("*"))


@pytest.mark.checklist("R22", "R6", "U3")
def test_everything_comes_back(lives: Lives) -> None:
    first = lives.create("back", 2, retention_ms="12345678")
    for value in ("a", "b", "c"):
        lives.produce("back", value)
    lives.produce("back", "x", partition=1)
    lives.delete_records("back", 1)
    lives.coordinator("back-group")
    assert lives.commit("back-group", "back", 2, epoch=0) == 0
    assert lives.delete(first).error_code == 0
    assert lives.metadata("back").error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert lives.fetch(first).error_code == UNKNOWN_TOPIC_ID
    result = lives.undelete(first)
    assert (result.error_code, result.name, result.topic_id) == (0, "back", first)
    topic = lives.metadata("back")
    assert (topic.topic_id, len(topic.partitions)) == (first, 2)
    assert lives.epoch("back") == 1
    assert lives.ends("back") == (1, 3)
    # Clients use the topic by name and by id, and the producer continues.
    assert lives.read("back", 1) == lives.read(first, 1) == ["b", "c"]
    assert lives.read(first, partition=1) == ["x"]
    assert lives.produce(first, "d").base_offset == 3
    assert lives.committed("back-group", "back") == 2
    # A position from before the deletion is valid.
    assert lives.commit("back-group", "back", 3, epoch=0) == 0
    incarnation = lives.history("back").incarnations[0]
    assert [event.what for event in incarnation.events] == ["create", "delete", "undelete"]
    assert ids(lives.deletions()).count(first) == 0


@pytest.mark.checklist("U3")
def test_a_taken_name_asks_for_another_one(lives: Lives) -> None:
    first = lives.create("taken")
    lives.produce("taken", "old")
    lives.delete("taken")
    second = lives.create("taken")
    lives.produce("taken", "new")
    refused = lives.undelete(first)
    assert refused.error_code == TOPIC_ALREADY_EXISTS
    assert "--as" in refused.error_message
    assert lives.undelete(first, "a/b").error_code == 17
    result = lives.undelete(first, "taken-once")
    assert (result.error_code, result.name) == (0, "taken-once")
    assert lives.read("taken-once") == lives.read(first) == ["old"]
    assert lives.read("taken") == lives.read(second) == ["new"]
    # The epoch is above every epoch of both names.
    assert lives.epoch("taken-once") > lives.epoch("taken") - 1
    assert lives.undelete(first).error_code == TOPIC_ALREADY_EXISTS
    assert lives.undelete(second).error_code == TOPIC_ALREADY_EXISTS
    # The topic is deleted and undeleted again.
    lives.delete(first)
    assert lives.undelete(first).name == "taken-once"
    assert lives.read(first) == ["old"]


@pytest.mark.checklist("U3")
def test_answers_stand_in_the_order_of_the_request(lives: Lives) -> None:
    dead = [lives.create(f"several-{number}") for number in range(6)]
    for topic_id in dead:
        assert lives.delete(topic_id).error_code == 0
    asked = [*dead, Uuid.random(), dead[2]]
    topics = [m.UndeleteTopicsRequest_UndeletableTopic(topic_id=one, new_name=None) for one in asked]
    answer = lives.call(m.UndeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 0)
    assert ids(answer.topics) == asked[:-1]
    assert [one.error_code for one in answer.topics] == [0, 0, INVALID_REQUEST, 0, 0, 0, UNKNOWN_TOPIC_ID]


@pytest.mark.checklist("U3")
def test_a_topic_of_clients_does_not_become_one_of_the_brokers(start_broker: StartBroker) -> None:
    lives = Lives(start_broker({"offsets.topic.num.partitions": "1"}).port)
    first = lives.create("clients")
    lives.delete(first)
    refused = lives.undelete(first, OFFSETS_TOPIC)
    assert refused.error_code == INVALID_REQUEST
    assert f"'{OFFSETS_TOPIC}'" in refused.error_message
    assert lives.metadata(OFFSETS_TOPIC).error_code == UNKNOWN_TOPIC_OR_PARTITION
    # Its own records are back, with the groups' commits.
    lives.undelete(first)
    lives.coordinator("readers")
    assert lives.commit("readers", "clients", 0) == 0
    offsets = lives.metadata(OFFSETS_TOPIC).topic_id
    assert lives.delete(offsets).error_code == 0
    assert lives.undelete(offsets).error_code == 0
    lives.coordinator("readers")
    assert lives.committed("readers", "clients") == 0


@pytest.mark.checklist("A9", "U3", 81)
def test_after_the_delay_it_is_gone(start_broker: StartBroker) -> None:
    broker = start_broker({"delete.topic.delay.ms": "200"})
    lives = Lives(broker.port)
    first = lives.create("late")
    lives.produce("late", "a")
    lives.delete("late")
    until(lambda: not deleting(broker) and lives.deletions(first)[0].state == "removed")
    refused = lives.undelete(first)
    assert refused.error_code == UNKNOWN_TOPIC_ID
    assert "'late'" in refused.error_message
    assert "gone" in refused.error_message
    assert lives.create("late") != first
    log = broker.console.read_text()
    assert "removed within a minute" in log


@pytest.mark.checklist("R22", "A28", "U7")
def test_offsets_of_every_group_survive_a_restart_in_between(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives = Lives(broker.port)

    def is_loaded(group: str) -> bool:
        return lives.committed(group, "groups") != "loading"

    first = lives.create("groups", 3)
    for group in ("g1", "g2", "g3"):
        lives.coordinator(group)
        for partition in range(3):
            assert lives.commit(group, "groups", 10 + partition, partition=partition) == 0
    lives.delete("groups")
    assert lives.committed("g1", "groups") == -1
    second = lives.create("groups", 3)
    assert lives.committed("g1", "groups") == -1
    lives.delete(second)
    broker.restart(crash=True)
    assert lives.undelete(first).error_code == 0
    for _ in range(2):
        for group in ("g1", "g2", "g3"):
            until(partial(is_loaded, group))
            assert [lives.committed(group, "groups", p) for p in range(3)] == [10, 11, 12]
        until(lambda: lives.deletions(first) == [])
        broker.restart(crash=True)


@pytest.mark.checklist("A28", "R4", "R6", "X18")
def test_positions_of_an_earlier_incarnation_are_refused(lives: Lives) -> None:
    lives.coordinator("simple")
    first = lives.create("positions")
    assert lives.commit("simple", "positions", 7, epoch=0) == 0
    lives.delete(first)
    second = lives.create("positions")
    assert lives.epoch("positions") == 1
    assert lives.commit("simple", "positions", 8, epoch=0) == FENCED_LEADER_EPOCH
    assert lives.committed("simple", "positions") == -1
    assert lives.commit("simple", "positions", 1, epoch=1) == 0
    lives.delete(second)
    assert lives.undelete(first).error_code == 0
    # The topic's own epochs, before and now, are valid; those of the incarnation in between are not.
    assert lives.committed("simple", "positions") == 7
    assert lives.commit("simple", "positions", 2, epoch=1) == FENCED_LEADER_EPOCH
    assert lives.commit("simple", "positions", 3, epoch=0) == 0
    assert lives.commit("simple", "positions", 4, epoch=2) == 0


@pytest.mark.checklist("A23", "A24", 190)
def test_ids_of_the_dead(lives: Lives) -> None:
    first = lives.create("dead")
    lives.delete("dead")
    second = lives.create("dead")
    refused = lives.delete(first)
    assert refused.error_code == UNKNOWN_TOPIC_ID
    # The message has the earlier and the current id.
    for text in ("'dead'", "deleted by", str(second)):
        assert text in refused.error_message
    assert lives.metadata("dead").topic_id == second
    unknown = lives.undelete(type(first).random())
    assert unknown.error_code == UNKNOWN_TOPIC_ID
