"""A background loop that looks when it is woken, and again when it said that something will be due; and its tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_S = 1.0


class WakeLoop:
    """Runs until it is closed. `look` does what may be done now and says after how many seconds it must be called
    again, None = not before `wake`; a failure of it, or of a task, is logged as that of `whose`, and the loop goes on.
    """

    def __init__(self, look: Callable[[], float | None], whose: str) -> None:
        self._look = look
        self._whose = whose
        self._woken = asyncio.Event()
        self.wake: Callable[[], None] = self._woken.set
        """Has `look` called soon."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.create_task(self._run())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task that ends with the loop."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancels the loop and its tasks, and waits for their ends."""
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
                log.exception("%s failed; it goes on", self._whose)
                pause = PAUSE_AFTER_FAILURE_S
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s failed; it goes on", self._whose, exc_info=task.exception())
