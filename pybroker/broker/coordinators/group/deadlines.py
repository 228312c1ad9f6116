"""Waits for writes that end after `offsets.commit.timeout.ms`, whatever becomes of the write.

Writes end in about the order in which they began, and all wait equally long: one timer of the loop for the oldest
serves all of them, and who has been answered leaves from the front. A wait that begins after the setting was shortened
may last as long as those before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pybroker.protocol.error_codes import ErrorCode


class Bounded:
    """Who waits for `count` codes, and hears once."""

    __slots__ = ("_count", "_finished", "over")

    def __init__(self, finished: Callable[[list[ErrorCode]], None], count: int) -> None:
        self._finished = finished
        self._count = count
        self.over = False

    def __call__(self, codes: list[ErrorCode]) -> None:
        """The write has ended."""
        if not self.over:
            self.over = True
            self._finished(codes)

    def give_up(self) -> None:
        """It has not: the outcome is unknown, and clients commit again."""
        self([ErrorCode.COORDINATOR_NOT_AVAILABLE] * self._count)


class Deadlines:
    """See the module."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[float, Bounded]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: Bounded, timeout_ms: int) -> None:
        """Gives `one` up so many milliseconds from now, if it is not over then."""
        waiting = self._waiting
        while waiting and waiting[0][1].over:
            waiting.popleft()
        waiting.append((self._loop.time() + timeout_ms / 1000, one))
        if self._timer is None:
            self._timer = self._loop.call_at(waiting[0][0], self._look)

    def _look(self) -> None:
        self._timer = None
        waiting, now = self._waiting, self._loop.time()
        while waiting and (waiting[0][1].over or waiting[0][0] <= now):
            waiting.popleft()[1].give_up()
        if waiting:
            self._timer = self._loop.call_at(waiting[0][0], self._look)
