"""Fair sharing of the event loop for work on many elements: one slice of such work per iteration of the loop.

The loop answers a request with few elements in the iteration in which it takes the request from the queue. Such a
request therefore waits for at most one slice, even if many large requests are in progress.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Element = TypeVar("Element")

SLICE_S = 0.005
"""Limit in seconds of the time for which work may use the loop without a pause."""

ELEMENTS_A_SLICE = 1_000
"""The slice as a number of elements, for work that does not measure time: an element takes 1 to 5 µs."""


class LoopShares:
    """Lets one waiting piece of work continue in each iteration of the loop, in the order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def next(self) -> None:
        """Wait for a slice."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        self._schedule(loop)
        await turn

    async def each(self, elements: Iterable[Element]) -> AsyncIterator[Element]:
        """Yield the elements. After each `SLICE_S` of the event loop's time, let other tasks run first."""
        ends = time.perf_counter() + SLICE_S
        for element in elements:
            if time.perf_counter() > ends:
                await self.next()
                ends = time.perf_counter() + SLICE_S
            yield element

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled and self._waiting:
            self._scheduled = True
            loop.call_soon(self._give, loop)

    def _give(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduled = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        self._schedule(loop)
