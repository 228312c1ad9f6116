"""Who created and deleted a topic, its state, and the progress of its removal."""

from __future__ import annotations

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.conftest import StartBroker
from tests.topic_ids.lives import Lives, until


@pytest.mark.checklist("U5", "X20", 59)
def test_history_of_a_name(start_broker: StartBroker) -> None:
    broker = start_broker({"topic.history.max.incarnations": "3"})
    lives = Lives(broker.port)
    ids: list[Uuid] = []
    for number in range(3):
        ids.append(lives.create("story", 2))
        for _ in range(number):
            lives.produce("story", "x")
        lives.delete("story")
    ids.append(lives.create("story", 2))
    lives.produce("story", "y", partition=1)

    def check() -> None:
        answer = lives.history("story")
        assert answer.error_code == 0
        assert [one.topic_id for one in answer.incarnations] == ids[::-1]
        live, *dead = answer.incarnations
        assert (live.state, live.deleted_ms, live.deleted_by) == ("live", -1, None)
        assert [(p.log_start_offset, p.log_end_offset) for p in live.partitions] == [(0, 0), (0, 1)]
        for one, number in zip(dead, (2, 1, 0), strict=True):
            assert (one.created_by, one.created_how) == ("User:ANONYMOUS", "create")
            assert (one.deleted_by, one.deleted_how) == ("User:ANONYMOUS", "delete")
            assert 0 < one.created_ms <= one.deleted_ms
            assert one.partitions[0].log_end_offset == number
        by_id = lives.history(ids[1])
        assert [one.topic_id for one in by_id.incarnations] == [ids[1]]

    check()
    broker.restart()
    check()
    broker.restart(crash=True)
    check()
    again = [m.DescribeTopicHistoryRequest_HistoryTopic(name="story") for _ in range(3)]
    assert len(lives.call(m.DescribeTopicHistoryRequest(topics=again), 0).topics) == 1, "told once"
    assert lives.history("nobody").error_code == 3
    assert lives.history(Uuid.random()).error_code == 100


@pytest.mark.checklist("U5", "X20")
def test_history_is_bounded(start_broker: StartBroker) -> None:
    broker = start_broker({"topic.history.max.incarnations": "3", "delete.topic.delay.ms": "0"})
    lives = Lives(broker.port)
    ids = []
    for _ in range(6):
        ids.append(lives.create("short"))
        lives.delete("short")
        until(lambda: lives.deletions() == [])
    assert [one.topic_id for one in lives.history("short").incarnations] == ids[:2:-1]
    assert {one.state for one in lives.history("short").incarnations} == {"removed"}
    broker.restart()
    assert [one.topic_id for one in lives.history("short").incarnations] == ids[:2:-1]


@pytest.mark.checklist("U4", 80, 82, "X7")
def test_deletions_show_what_waits_and_for_how_long(start_broker: StartBroker) -> None:
    broker = start_broker({"delete.topic.delay.ms": "4h"})
    lives = Lives(broker.port)
    first = lives.create("waits", 2)
    lives.produce("waits", "x" * 10_000)
    lives.delete("waits")
    until(lambda: lives.deletions(first)[0].state == "staged")
    (found,) = lives.deletions()
    assert (found.name, found.topic_id, found.how, found.deleted_by) == ("waits", first, "delete", "User:ANONYMOUS")
    assert 4 * 3_600_000 - 60_000 < found.remaining_ms <= 4 * 3_600_000
    assert [part.partition_index for part in found.partitions] == [0, 1]
    assert found.partitions[0].size_bytes > 10_000
    assert found.size_bytes == sum(part.size_bytes for part in found.partitions)
    assert {part.log_dir for part in found.partitions} == {str(broker.data_dir)}
    for crash in (False, True):
        broker.restart(crash=crash)
        (again,) = lives.deletions()
        assert again.remaining_ms <= found.remaining_ms
        found = again
    lives.undelete(first)
    assert lives.deletions() == []


def test_the_log_has_one_line_for_each_request(start_broker: StartBroker) -> None:
    broker = start_broker({"delete.topic.delay.ms": "4h"})
    lives = Lives(broker.port)
    names = ["one", "two", "three"]
    topics = [
        m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names
    ]
    created = lives.call(m.CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7).topics
    ids = {one.name: one.topic_id for one in created}
    lives.call(m.DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), 5)
    alone = lives.create("alone", 1)
    renewed = lives.truncate("alone").topic_id
    lives.delete("alone")

    def lines(what: str) -> list[str]:
        return [line for line in broker.console.read_text().splitlines() if what in line and " INFO " in line]

    until(lambda: len(lines(" deleted ")) == 2)
    (made,) = lines("topics created count=3 ")
    (gone,) = lines("topics deleted count=3 ")
    for name in names:
        assert f"{name} id={ids[name]} partitions=2" in made
        assert f"{name} id={ids[name]}" in gone
    assert "by='User:ANONYMOUS' undeletable_until=" in gone
    assert "`pybroker topics undelete ID` brings it back" in gone
    (truncated,) = lines("topic truncated ")
    assert f"name=alone id={renewed} old_id={alone} by=" in truncated
    assert f"`pybroker topics undelete {alone} --as NAME`" in truncated
    (last,) = lines("topic deleted name=alone ")
    assert f"`pybroker topics undelete {renewed}` brings it back" in last
    # A requested change causes no warning.
    assert not [line for line in broker.console.read_text().splitlines() if " WARN " in line and "removed" in line]
