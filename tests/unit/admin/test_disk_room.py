"""When a full disk is logged, and when its end is logged."""

from __future__ import annotations

import logging
from typing import NamedTuple, cast

import pytest

from pybroker.broker.admin.disk_room import QUIET_SECONDS, REPEAT_SECONDS, USABLE_BYTES_MIN, DiskRoom
from pybroker.broker.clock import FakeClock
from pybroker.native import LogDirRoom


class Room(NamedTuple):
    path: str
    total_bytes: int
    usable_bytes: int
    full_refusals: int


class Watched:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        self.clock = FakeClock()
        self.room = DiskRoom(list, self.clock)
        self._caplog = caplog

    def sees(self, seconds: float, refusals: int, usable: int = USABLE_BYTES_MIN) -> list[int]:
        """Return the levels of the lines that this sample adds, `seconds` after the last one."""
        self.clock.advance(int(seconds * 1000))
        before = len(self._caplog.records)
        self.room.observe([cast(LogDirRoom, Room("/d", 1 << 30, usable, refusals))])
        return [record.levelno for record in self._caplog.records[before:]]


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_refusals_are_logged_once_a_minute(watched: Watched) -> None:
    assert watched.sees(0, 0) == []
    assert watched.sees(2, 3, usable=0) == [logging.WARNING]
    assert watched.sees(REPEAT_SECONDS - 1, 900, usable=0) == []
    assert watched.sees(1, 901, usable=0) == [logging.WARNING]


def test_recovery_needs_room_and_quiet(watched: Watched) -> None:
    watched.sees(0, 1, usable=0)
    assert watched.sees(QUIET_SECONDS + 1, 1, usable=USABLE_BYTES_MIN - 1) == [], "the disk is still full"
    assert watched.sees(1, 2) == [], "a write was refused again"
    assert watched.sees(QUIET_SECONDS - 1, 2) == []
    assert watched.sees(1, 2) == [logging.INFO]
    assert watched.sees(1, 3) == [logging.WARNING], "a new time without room"


def test_readiness_obeys_the_setting(watched: Watched) -> None:
    watched.sees(0, 0, usable=1000)
    assert watched.room.reason_not_ready(0) is None
    assert watched.room.reason_not_ready(1000) is None
    assert "/d" in (watched.room.reason_not_ready(1001) or "")
    watched.sees(1, 1, usable=1 << 29)
    assert "/d" in (watched.room.reason_not_ready(1) or ""), "it refuses writes"


def test_an_offline_directory_is_no_longer_full(watched: Watched) -> None:
    watched.sees(0, 1, usable=0)
    watched.room.observe([])
    assert watched.room.reason_not_ready(1) is None
    assert watched.room.rooms == []
