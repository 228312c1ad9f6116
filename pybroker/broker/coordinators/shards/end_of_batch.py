"""The end-of-batch hook: work deferred until all requests of a batch are handled.

A batch is one drain of the native queue. The records that its requests write are sent together at its end, in the
same step of the loop. asyncio's `call_soon` would wait for the next step, which costs as much as a small request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], object]


class EndOfBatchHook:
    """Runs deferred work at the end of the batch; outside a batch (timer, task), in the loop's next step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left: list[Work] = []
        self._scheduled = False
        """The deferred work will run: a batch is open or a call is scheduled."""

    def __call__(self, work: Work) -> None:
        self._left.append(work)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def begin(self) -> None:
        """Begin a batch; `run` ends it."""
        self._scheduled = True

    def run(self) -> None:
        """Run the deferred work, including work that it defers. Log failures, which are bugs, and continue."""
        self._scheduled = True
        while self._left:
            left, self._left = self._left, []
            for work in left:
                try:
                    work()
                except Exception:
                    log.exception("work at the end of a batch failed: this is a bug in pybroker")
        self._scheduled = False
