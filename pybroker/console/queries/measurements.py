"""Measurements of the last minutes. They are made in the background while the console is in use, and dropped
afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pybroker.console.queries.fragments import error_text

log = logging.getLogger(__name__)

PAUSE_S = 3.0
FIRST_PAUSE_S = 0.5
"""Seconds between the first two measurements. A rate needs both."""
FIRST_WAIT_S = 1.5
KEPT_S = 600.0
UNWATCHED_S = 900.0
"""Seconds without a request after which measuring stops."""
TAKE_S = 5.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """counters: values that only increase. gauges: current values. Unknown values are missing. details: parts of a
    value, by name. problems: why values are missing, if the reason is a failure."""

    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


Points = list[tuple[float, float]]
"""(time, value), oldest first."""


class History:
    """The measurements of one source."""

    def __init__(self, take: Callable[[], Awaitable[Measurement]], now: Callable[[], float] = time.monotonic) -> None:
        self._take = take
        self._now = now
        self._kept: deque[tuple[float, Measurement]] = deque(maxlen=int(KEPT_S / PAUSE_S) + 1)
        self._looked = 0.0
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    def watch(self) -> None:
        """Start measuring, because a page may need it soon."""
        self._looked = self._now()
        if self._task is None or self._task.done():
            self._kept.clear()
            self._ready.clear()
            self._task = asyncio.ensure_future(self._run())

    async def look(self) -> None:
        """Wait at most FIRST_WAIT_S for the second measurement, which gives the first rates."""
        self.watch()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), FIRST_WAIT_S)

    async def _run(self) -> None:
        while self._now() - self._looked < UNWATCHED_S:
            try:
                found = await asyncio.wait_for(self._take(), TAKE_S)
            except Exception as error:
                if not isinstance(error, (OSError, TimeoutError)):
                    log.debug("measurement failed error=%r", error)
                found = Measurement(problems=(error_text(error),))
            self._kept.append((self._now(), found))
            if len(self._kept) > 1:
                self._ready.set()
            await asyncio.sleep(PAUSE_S if len(self._kept) > 1 else FIRST_PAUSE_S)

    @property
    def last(self) -> Measurement:
        """Return the newest measurement; an empty measurement before the first one."""
        return self._kept[-1][1] if self._kept else Measurement()

    def rates(self, name: str) -> Points:
        """Return the growth of a counter per second. If a broker's restart resets its counters, the result has no
        negative rate."""
        return [
            (end, max(after.counters[name] - before.counters[name], 0.0) / max(end - begin, 1e-9))
            for (begin, before), (end, after) in pairwise(self._kept)
            if name in before.counters and name in after.counters
        ]

    def gauge(self, name: str) -> Points:
        """Return the values of a gauge."""
        return [(at, each.gauges[name]) for at, each in self._kept if name in each.gauges]

    def is_current(self, points: Points) -> bool:
        """Return whether the newest measurement has the value."""
        return bool(points) and bool(self._kept) and points[-1][0] == self._kept[-1][0]

    async def close(self) -> None:
        """Stop measuring."""
        if self._task is not None:
            # asyncio.wait_for can lose a cancellation that arrives at the end of a measurement; in that case this flag
            # ends the loop.
            self._looked = -math.inf
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
