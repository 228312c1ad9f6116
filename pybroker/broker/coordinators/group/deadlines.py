"""Timeouts for writes: a request gets its response after `offsets.commit.timeout.ms` even if the write has not ended.

Writes complete roughly in the order in which they start, and all have the same timeout. Therefore a single timer, for
the oldest pending write, is enough. After the setting is shortened, pending writes keep the longer timeout, and a later
write may have to wait for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pybroker.protocol.error_codes import ErrorCode


class BoundedCallback:
    """A callback for `count` error codes. It is called at most once."""

    __slots__ = ("_count", "_finished", "over")

    def __init__(self, finished: Callable[[list[ErrorCode]], None], count: int) -> None:
        self._finished = finished
        self._count = count
        self.over = False

    def __call__(self, codes: list[ErrorCode]) -> None:
        """Pass on the codes of a completed write."""
        if not self.over:
            self.over = True
            self._finished(codes)

    def give_up(self) -> None:
        """Report COORDINATOR_NOT_AVAILABLE: the outcome of the write is unknown, and clients retry."""
        self([ErrorCode.COORDINATOR_NOT_AVAILABLE] * self._count)


class Deadlines:
    """The pending writes, in the order in which they started."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[float, BoundedCallback]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, callback: BoundedCallback, timeout_ms: int) -> None:
        """Call `callback.give_up` after `timeout_ms` unless the write has completed by then."""
        waiting = self._waiting
        while waiting and waiting[0][1].over:
            waiting.popleft()
        waiting.append((self._loop.time() + timeout_ms / 1000, callback))
        if self._timer is None:
            self._timer = self._loop.call_at(waiting[0][0], self._look)

    def _look(self) -> None:
        self._timer = None
        waiting, now = self._waiting, self._loop.time()
        while waiting and (waiting[0][1].over or waiting[0][0] <= now):
            waiting.popleft()[1].give_up()
        if waiting:
            self._timer = self._loop.call_at(waiting[0][0], self._look)
