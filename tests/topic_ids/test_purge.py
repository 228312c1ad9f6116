"""A purge frees the disk space of a deleted topic before its delay ends, if the user may delete the topic."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import Lives, until
from tests.topic_ids.test_lineage_commands import topics_command

FOUR_HOURS_MS = 4 * 3_600_000


def staged(broker: BrokerProcess, topic_id: Uuid) -> list[Path]:
    return list((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*"))


@pytest.mark.checklist("U3", "U4", "U5", "X7")
def test_a_deleted_topic_is_purged(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives, run = Lives(broker.port), partial(topics_command, broker)
    topic_id = lives.create("heavy", 2)
    lives.produce("heavy", "x" * 10_000)
    said = run("delete", "heavy")
    assert f"Deleted topic heavy with id {topic_id}" in said
    assert f"`pybroker topics undelete {topic_id}` brings it back" in said
    until(lambda: len(staged(broker, topic_id)) == 2)
    # Without confirmation nothing is purged.
    assert "Aborted" in run("purge", "heavy", code=1)
    assert len(staged(broker, topic_id)) == 2
    receipt = json.loads(run("purge", "heavy", "--yes", "--json"))
    assert (receipt["topic"], receipt["topic_id"], receipt["missing"]) == ("heavy", str(topic_id), [])
    assert receipt["bytes"] > 10_000
    assert staged(broker, topic_id) == []
    until(lambda: lives.deletions(topic_id)[0].state == "removed")
    assert "purged it at" in run("undelete", str(topic_id), code=1)
    assert [event.what for event in lives.history(topic_id).incarnations[0].events] == ["create", "delete", "purge"]
    assert "cannot be undeleted" in run("describe", "heavy", code=1)
    # The request is sent twice, the second time after a crash.
    assert lives.purge(topic_id).error_code == 0
    broker.restart(crash=True)
    assert [event.what for event in lives.history(topic_id).incarnations[0].events] == ["create", "delete", "purge"]
    assert lives.purge(Uuid.random()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.checklist("U4")
def test_delete_now_is_one_command(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives, run = Lives(broker.port), partial(topics_command, broker)
    first = lives.create("now")
    lives.produce("now", "a")
    assert "Aborted" in run("delete", "now", "--now", code=1)
    assert lives.metadata("now").topic_id == first
    done = json.loads(run("delete", "now", "--now", "--yes", "--json"))
    assert (done["topic_id"], done["deleted"], done["purged"], done["missing"]) == (str(first), True, True, [])
    assert staged(broker, first) == []
    # Topics that exist, were undeleted, or were never deleted are not purged.
    second = lives.create("now")
    refused = lives.purge(second)
    assert (refused.error_code, "is not deleted" in refused.error_message) == (ErrorCode.TOPIC_ALREADY_EXISTS, True)
    assert lives.purge(second, delay_ms=-1).error_code == ErrorCode.INVALID_REQUEST
    assert "1 deleted topics" not in run("purge", "never", "--yes", code=1)
    said = run("delete", "now", "--now", "--yes")
    assert said.startswith(f"Deleted topic now with id {second}. Purged topic now with id {second}, ")


@pytest.mark.checklist("U4", "A9", 143)
def test_a_shorter_delay_holds_for_deletions_under_way_when_somebody_says_so(start_broker: StartBroker) -> None:
    broker = start_broker()
    lives, run = Lives(broker.port), partial(topics_command, broker)
    first, second = lives.create("first"), lives.create("second")
    lives.produce("first", "a")
    lives.delete("first")
    until(lambda: lives.deletions(first)[0].state == "staged")
    lives.alter_broker_default("delete.topic.delay.ms", str(FOUR_HOURS_MS // 2))
    # The setting applies to later deletions only.
    assert lives.deletions(first)[0].remaining_ms > FOUR_HOURS_MS - 60_000
    lives.delete("second")
    until(lambda: 0 < lives.deletions(second)[0].remaining_ms <= FOUR_HOURS_MS // 2)
    rows = {one["topic"]: one for one in json.loads(run("deletions", "--shorten", "1h", "--json"))}
    assert all(0 < rows[name]["remaining_ms"] <= FOUR_HOURS_MS // 4 for name in ("first", "second"))
    assert all(rows[name]["undeletable"] for name in ("first", "second"))
    # The deadline never moves later, and survives a crash.
    assert lives.purge(first, delay_ms=FOUR_HOURS_MS).error_code == 0
    broker.restart(crash=True)
    assert 0 < lives.deletions(first)[0].remaining_ms <= FOUR_HOURS_MS // 4
    assert "Undeleted topic first" in run("undelete", "first")
    assert lives.read("first") == ["a"]
    # A deletion whose new delay is already over is purged at once.
    assert lives.purge(second, delay_ms=1).error_code == 0
    until(lambda: staged(broker, second) == [])
    assert "above 0" in run("deletions", "--shorten", "0s", code=2)
    # The topic that was undeleted has the usual delay at its next deletion.
    lives.delete("first")
    until(lambda: lives.deletions(first)[0].remaining_ms > FOUR_HOURS_MS // 4)
