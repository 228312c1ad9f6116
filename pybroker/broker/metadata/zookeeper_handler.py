"""Runs kazoo beside an asyncio event loop. kazoo has its own socket thread; one queue carries all its events to the
loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

CALLBACKS_A_TURN_MAX = 512
"""Limit of callbacks per step of the event loop. A bulk read with 100,000 responses must not block the loop for more
than a few milliseconds."""


class _LoopQueue:
    """Carries callables from kazoo's thread to the event loop, in order. One wake-up of the loop runs all queued
    callables."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_problem: Callable[[Exception], None]) -> None:
        self._loop = loop
        self._on_problem = on_problem
        self._waiting: deque[Callable[[], object]] = deque()
        self._awake = False
        self._open = True

    def put(self, function: Callable[[], object]) -> None:
        self._waiting.append(function)
        if not self._awake and self._open:
            self._awake = True
            # After the event loop has closed, drop callbacks.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drain)

    def close(self) -> None:
        self._open = False
        self._waiting.clear()

    def _drain(self) -> None:
        for _ in range(CALLBACKS_A_TURN_MAX):
            # Reset the flag before the pop, so that a later put wakes the event loop again.
            self._awake = False
            try:
                function = self._waiting.popleft()
            except IndexError:
                return
            self._awake = True
            try:
                function()
            except Exception as problem:  # A watcher that has failed would miss changes, so the failure is fatal.
                self._on_problem(problem)
        self._loop.call_soon(self._drain)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler with kazoo's socket threads, but with callbacks on the event loop."""

    name = "pybroker_loop_handler"

    def __init__(self, loop: asyncio.AbstractEventLoop, on_problem: Callable[[Exception], None]) -> None:
        super().__init__()
        self.queue = self.completion_queue = self.callback_queue = _LoopQueue(loop, on_problem)

    @property
    def running(self) -> bool:
        """Return True, because otherwise kazoo runs the callbacks on its own thread."""
        return True

    def start(self) -> None:
        """Do nothing: the event loop is already running."""

    def stop(self) -> None:
        """Do nothing: the event loop continues."""

    def disconnect(self) -> None:
        """Drop further events."""
        self.queue.close()

    def dispatch_callback(self, callback: Any) -> None:
        self.queue.put(lambda: callback.func(*callback.args))
