"""The end-of-batch hook: work that waits until all requests of a batch are handled.

A batch is one drain of the native queue. At its end, the hook writes the records of all its requests together, in the
same step of the event loop. With asyncio's `call_soon` the write would wait for the next step of the loop, and this
step costs as much as a small request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], object]


class EndOfBatchHook:
    """Runs deferred work at the end of the batch. Outside a batch (in a timer or task), the work runs in the loop's
    next step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left: list[Work] = []
        self._scheduled = False
        """Whether deferred work will run without another call, because a batch is open or `call_soon` was called."""

    def __call__(self, work: Work) -> None:
        self._left.append(work)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def begin(self) -> None:
        """Begin a batch; `run` ends it."""
        self._scheduled = True

    def run(self) -> None:
        """Run the deferred work, and the work that it defers in turn. If deferred work fails, which is a bug, log the
        error and continue."""
        self._scheduled = True
        while self._left:
            left, self._left = self._left, []
            for work in left:
                try:
                    work()
                except Exception:
                    log.exception("work at the end of a batch failed: this is a bug in pybroker")
        self._scheduled = False
