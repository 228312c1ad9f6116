"""kazoo beside an asyncio loop: a thread of kazoo's own for the socket, one queue to the loop for all that it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

CALLBACKS_A_TURN_MAX = 512
"""Of the queue to the loop: a bulk read with 100,000 answers must not hold it for longer than some milliseconds."""


class _LoopQueue:
    """From kazoo's thread to the loop: callables, in order. One wake-up of the loop serves all that wait."""

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
            # The loop is closed: nobody is there to hear it.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drain)

    def close(self) -> None:
        self._open = False
        self._waiting.clear()

    def _drain(self) -> None:
        for _ in range(CALLBACKS_A_TURN_MAX):
            # Before the look: what is put after it wakes the loop again.
            self._awake = False
            try:
                function = self._waiting.popleft()
            except IndexError:
                return
            self._awake = True
            try:
                function()
            except Exception as problem:  # whoever watches must not go on half blind
                self._on_problem(problem)
        self._loop.call_soon(self._drain)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads for the socket; its callbacks run on the loop."""

    name = "pybroker_loop_handler"

    def __init__(self, loop: asyncio.AbstractEventLoop, on_problem: Callable[[Exception], None]) -> None:
        super().__init__()
        self.queue = self.completion_queue = self.callback_queue = _LoopQueue(loop, on_problem)

    @property
    def running(self) -> bool:
        """Always: kazoo calls back on its own thread otherwise."""
        return True

    def start(self) -> None:
        """The loop runs already."""

    def stop(self) -> None:
        """The loop goes on."""

    def disconnect(self) -> None:
        """What still comes is dropped."""
        self.queue.close()

    def dispatch_callback(self, callback: Any) -> None:
        self.queue.put(lambda: callback.func(*callback.args))
