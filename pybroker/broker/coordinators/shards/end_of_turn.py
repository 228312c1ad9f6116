"""What is left to the end of a turn of the loop.

A turn is one drain of the native queue: what its requests write goes out when all of them have been looked at, in the
same step of the loop. asyncio's `call_soon` would come with the next step, which costs as much as a small request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], object]


class EndOfTurn:
    """Called with what is to be done. Outside of a turn (a timer, a task) it is done with the loop's next step."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left: list[Work] = []
        self._comes = False
        """Somebody will do what is left."""

    def __call__(self, work: Work) -> None:
        self._left.append(work)
        if not self._comes:
            self._comes = True
            self._loop.call_soon(self.come)

    def begin(self) -> None:
        """A turn begins; `come` ends it."""
        self._comes = True

    def come(self) -> None:
        """Does what is left, and what that leaves. What fails is a bug: it is logged, and the others are done."""
        self._comes = True
        while self._left:
            left, self._left = self._left, []
            for work in left:
                try:
                    work()
                except Exception:
                    log.exception("what was left to the end of a turn failed: this is a bug in pybroker")
        self._comes = False
