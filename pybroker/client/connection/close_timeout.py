"""The close timeout of a client. A close waits as long as a broker responds, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.client.connection.network import Network

SILENCE_S = 5.0
"""If no broker has responded for this many seconds, `close` gives up."""
INTERRUPTED_SILENCE_S = 1.0
INTERRUPTED_MAX_S = 5.0
"""Limit in seconds if an exception, such as an interrupt, has ended a `with` block: the program should end soon."""


class CloseTimeout:
    """A time limit for several steps together. It ends `limit_s` seconds after its start (None = no limit), or when no
    broker has responded for `silence_s` seconds (None = no limit).
    """

    def __init__(self, network: Network, limit_s: float | None, silence_s: float | None) -> None:
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._limit_s = limit_s
        self._silence_s = silence_s

    @property
    def left_s(self) -> float | None:
        """Seconds left if no further response arrives; None = no limit."""
        now = self._loop.time()
        left = [] if self._limit_s is None else [self._began + self._limit_s - now]
        if self._silence_s is not None:
            left.append(max(self._began, self._network.last_response_at) + self._silence_s - now)
        return max(0.0, min(left)) if left else None

    @property
    def by_silence(self) -> bool:
        """Whether the silence of brokers ends the wait, rather than the caller's timeout."""
        return self._silence_s is not None

    async def wait_for(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work` until the limit, then cancel it. Return whether it completed. `work` always starts, even if no
        time is left. Raises the error of `work`.
        """
        task = asyncio.create_task(work)
        try:
            while not task.done():
                left = self.left_s
                await asyncio.wait((task,), timeout=left)
                if not task.done() and self.left_s == 0.0:
                    return False
            await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return True
