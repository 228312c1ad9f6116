"""A truncate replaces a topic by an empty incarnation in one step."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from pybroker.protocol import messages as m
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import TIMEOUT_MS, Lives, until

NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 6, 3, 100
FENCED_LEADER_EPOCH = 74


@pytest.fixture
def lives(broker: BrokerProcess) -> Lives:
    return Lives(broker.port)


@pytest.mark.checklist("U2", "R6", "A29")
def test_a_new_id_with_the_same_settings(lives: Lives) -> None:
    first = lives.create("cut", 3, retention_ms="777777")
    for partition in range(3):
        lives.produce("cut", "old", partition=partition)
    lives.coordinator("cut-group")
    assert lives.commit("cut-group", "cut", 1, epoch=0) == 0
    result = lives.truncate("cut")
    assert (result.error_code, result.name, result.old_topic_id) == (0, "cut", first)
    second = result.topic_id
    assert second not in (first, type(first).ZERO)
    topic = lives.metadata("cut")
    assert (topic.topic_id, len(topic.partitions)) == (second, 3)
    assert lives.epoch("cut") == 1
    assert lives.ends("cut") == (0, 0)
    assert lives.committed("cut-group", "cut") == -1
    assert lives.produce("cut", "new").base_offset == 0
    assert lives.read("cut") == ["new"]
    # A request whose name was resolved earlier never reaches the new incarnation.
    assert lives.produce(first, "late").error_code == UNKNOWN_TOPIC_ID
    assert lives.fetch(first).error_code == UNKNOWN_TOPIC_ID
    assert lives.fetch("cut", epoch=0).error_code == FENCED_LEADER_EPOCH
    assert lives.commit("cut-group", "cut", 1, epoch=0) == FENCED_LEADER_EPOCH
    assert lives.truncate(first).error_code == UNKNOWN_TOPIC_ID
    # The old incarnation can be undeleted under another name.
    assert lives.undelete(first).error_code == 36
    assert lives.undelete(first, "cut-before").error_code == 0
    assert lives.read("cut-before") == ["old"]
    assert lives.committed("cut-group", "cut-before") == 1
    assert lives.read("cut") == ["new"]
    before, now = lives.history(first).incarnations[0], lives.history("cut").incarnations[0]
    assert [event.what for event in before.events] == ["create", "truncate", "undelete"]
    assert (now.created_how, now.topic_id, now.state) == ("truncate", second, "live")


@pytest.mark.checklist("U2", "R6", "R22")
def test_offsets_go_on(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives = Lives(broker.port)
    lives.create("on", 2)
    for number in range(5):
        lives.produce("on", str(number))
    lives.coordinator("on-group")
    assert lives.commit("on-group", "on", 5, epoch=0) == 0
    second = lives.truncate("on", keep_offsets=True)
    assert second.error_code == 0
    assert lives.committed("on-group", "on") == 5
    assert (lives.ends("on"), lives.ends("on", 1)) == ((5, 5), (0, 0))
    # A position from before the truncation is valid for the new incarnation.
    assert lives.commit("on-group", "on", 5, epoch=0) == 0
    broker.restart(crash=True)
    assert lives.ends("on") == (5, 5)
    assert lives.produce("on", "five").base_offset == 5
    until(lambda: lives.committed("on-group", "on") == 5)
    assert lives.read("on", 5) == ["five"]
    third = lives.truncate("on", keep_offsets=True)
    assert lives.ends("on") == (6, 6)
    assert lives.committed("on-group", "on") == 5
    broker.restart()
    assert lives.metadata("on").topic_id == third.topic_id
    assert lives.ends("on") == (6, 6)
    assert lives.history("on").incarnations[0].partitions[0].log_start_offset == 6
    # Each old incarnation still has its records.
    assert lives.undelete(second.old_topic_id, "on-first").error_code == 0
    assert lives.read("on-first") == ["0", "1", "2", "3", "4"]
    assert lives.undelete(second.topic_id, "on-second").error_code == 0
    assert lives.read("on-second", 5) == ["five"]


@pytest.mark.checklist("U2", "A29", "R4")
def test_no_offset_is_used_twice_under_load(lives: Lives) -> None:
    lives.create("load")
    acknowledged: dict[int, list[str]] = {}
    over = threading.Event()

    def have_come(count: int) -> bool:
        return len(acknowledged) > count

    def produce() -> None:
        mine = Lives(lives.port)
        number = 0
        while not over.is_set():
            answer = mine.produce("load", str(number))
            if answer.error_code == 0:
                acknowledged.setdefault(answer.base_offset, []).append(str(number))
            else:
                assert answer.error_code in (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION)
            number += 1

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        incarnations = []
        for turn in range(5):
            until(partial(have_come, 20 * (turn + 1)), "records")
            incarnations.append(lives.truncate("load", keep_offsets=True).old_topic_id)
    finally:
        over.set()
        thread.join()
    assert all(len(values) == 1 for values in acknowledged.values())
    found: dict[int, str] = {}
    for number, topic_id in enumerate(incarnations):
        assert lives.undelete(topic_id, f"load-{number}").error_code == 0
    for name in [*(f"load-{number}" for number in range(5)), "load"]:
        start, end = lives.ends(name)
        for offset, value in zip(range(start, end), lives.read(name, start), strict=True):
            assert offset not in found
            found[offset] = value
    assert {offset: values[0] for offset, values in acknowledged.items()} == {
        offset: found[offset] for offset in acknowledged
    }


@pytest.mark.checklist("A36", "X21")
def test_what_is_refused(start_broker: StartBroker) -> None:
    lives = Lives(start_broker().port)
    lives.coordinator("any")
    assert lives.truncate("__consumer_offsets").error_code == 42
    assert lives.truncate("nothing").error_code == UNKNOWN_TOPIC_OR_PARTITION
    # An ambiguous name, and the same topic twice: the first one counts.
    first = lives.create("twice")
    topic = m.TruncateTopicsRequest_TruncatableTopic
    topics = [topic(name="twice", topic_id=first), topic(), topic(name="twice"), topic(topic_id=first)]
    answer = lives.call(m.TruncateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 0)
    assert [one.error_code for one in answer.topics] == [42, 42, 0, 42]
    assert "more than once" in answer.topics[3].error_message
    assert [one.topic_id for one in lives.history("twice").incarnations] == [answer.topics[2].topic_id, first]
    closed = Lives(start_broker({"delete.topic.enable": "false"}).port)
    closed.create("kept")
    assert closed.truncate("kept").error_code == 73
