"""Log lines about a metadata log on a full disk, and the metric that counts the refused writes."""

from __future__ import annotations

import logging

import pytest

from pybroker.broker.admin.disk_room import with_metadata_log
from pybroker.broker.quorum.quorum_node import REPEAT_S, LogRoom


class DirRoom:
    """The disk space of one log directory."""

    def __init__(self, path: str) -> None:
        self.path, self.total_bytes, self.usable_bytes, self.full_refusals = path, 100, 10, 2


def test_full_log_is_reported_once_a_minute_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [1000.0]
    room = LogRoom(lambda: now[0])
    room.observe(None)
    assert caplog.messages == []
    for _ in range(3):
        room.observe("cannot write a.log: no space left")
        room.observe(None)
        now[0] += 1
    assert [message.split(":")[0].split(" full_seconds")[0] for message in caplog.messages] == [
        "metadata log full",
        "metadata log has room again",
    ]
    assert "no space left" in caplog.messages[0]
    assert room.refusals == 3
    now[0] += REPEAT_S
    room.observe("again")
    now[0] += 5
    room.observe(None)
    assert caplog.messages[-1] == "metadata log has room again full_seconds=5"


def test_refused_writes_of_the_metadata_log_count_for_its_log_directory() -> None:
    rooms = with_metadata_log([DirRoom("/data/one"), DirRoom("/data/two")], "/data/one/", 5)
    assert [(room.path, room.full_refusals) for room in rooms] == [("/data/one", 7), ("/data/two", 2)]
    assert (rooms[0].total_bytes, rooms[0].usable_bytes) == (100, 10)
