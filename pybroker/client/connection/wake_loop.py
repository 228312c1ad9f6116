"""A background loop with its tasks. It runs when it is woken and at deadlines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_S = 1.0


class WakeLoop:
    """Calls `look` until it is closed. `look` does all due work and returns the seconds until its next call; None if
    only `wake` should cause the next call. If `look` or a task fails, the loop logs the failure under the name `whose`
    and continues."""

    def __init__(self, look: Callable[[], float | None], whose: str) -> None:
        self._look = look
        self._whose = whose
        self._woken = asyncio.Event()
        self.wake: Callable[[], None] = self._woken.set
        """Schedules a call of `look`."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.create_task(self._run())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that the loop cancels when it closes."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel the loop and its tasks, and wait until they end."""
        tasks = [self._loop, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                pause = self._look()
            except Exception:
                log.exception("%s failed; continuing", self._whose)
                pause = PAUSE_AFTER_FAILURE_S
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s failed; continuing", self._whose, exc_info=task.exception())
