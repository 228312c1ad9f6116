"""Another thread reads data from disk; data in memory is returned at once."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.coordinators.share_partition.reading import Reading
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.native import NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode

KEY = Key("group", Uuid.random(), 0)
LIMITS = (1000, 10)


class FakeLog:
    """Offsets below 10 are in memory; 99 cannot be read."""

    def __init__(self) -> None:
        self.threads: list[tuple[int, bool]] = []

    def fetch(self, partition: Any, offset: int, limits: Any, committed: bool, wait: bool) -> Any:
        self.threads.append((threading.get_ident(), wait))
        if offset < 10:
            return f"warm {offset}"
        if not wait:
            return None
        if offset == 99:
            raise NativeError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
        return f"cold {offset}"


async def _read(*offsets: int) -> tuple[list[Any], FakeLog]:
    """Return the result of a fetch at each offset; fetch again after a read from disk has ended."""
    loop, log, over = asyncio.get_running_loop(), FakeLog(), asyncio.Event()
    reading = Reading(SimpleNamespace(loop=loop, log=log), KEY, False, over.set, loop.create_task)  # type: ignore[arg-type]
    given: list[Any] = []
    for offset in offsets:
        over.clear()
        found: Any = reading.fetch(offset, LIMITS)
        if found is None:
            assert reading.fetch(offset, LIMITS) is None
            await asyncio.wait_for(over.wait(), 60)
            found = reading.fetch(offset, LIMITS)
        given.append(found)
    return given, log


def test_only_another_thread_waits_for_the_disk() -> None:
    given, log = asyncio.run(_read(3, 20, 4))
    assert given == ["warm 3", "cold 20", "warm 4"]
    mine = threading.get_ident()
    assert [(thread == mine, wait) for thread, wait in log.threads] == [
        (True, False),
        (True, False),
        (False, True),
        (True, False),
    ]


def test_what_the_disk_says_is_told() -> None:
    with pytest.raises(NativeError, match="the disk is gone"):
        asyncio.run(_read(99))
