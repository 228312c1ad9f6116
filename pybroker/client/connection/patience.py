"""How long the end of a client may take: as long as a broker answers, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.client.connection.network import Network

SILENCE_S = 5.0
"""A `close` gives up when no broker has answered for so long."""
INTERRUPTED_SILENCE_S = 1.0
INTERRUPTED_MAX_S = 5.0
"""The same for a `with` block that is left by an exception, as an interrupt: the program wants to end."""


class Patience:
    """For several pieces of work one after the other. It is over when `limit_s` has passed (None = no limit) or no
    broker has answered for `silence_s` (None = however long).
    """

    def __init__(self, network: Network, limit_s: float | None, silence_s: float | None) -> None:
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._limit_s = limit_s
        self._silence_s = silence_s

    @property
    def left_s(self) -> float | None:
        """How long it lasts if nothing is heard meanwhile; None = for ever."""
        now = self._loop.time()
        left = [] if self._limit_s is None else [self._began + self._limit_s - now]
        if self._silence_s is not None:
            left.append(max(self._began, self._network.heard_at) + self._silence_s - now)
        return max(0.0, min(left)) if left else None

    @property
    def by_silence(self) -> bool:
        """Whether silence ends it, rather than only a limit that somebody has set."""
        return self._silence_s is not None

    async def wait_for(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work was done; it is cancelled where patience ends, yet always begun. Raises what it raises."""
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
