"""Measures the bytes of deleted topics on this broker's disks that can still be undeleted.

A scrape of the metrics starts a measurement, at most once in `CACHED_S` seconds, in a thread of the event loop's
executor. The files of a directory in `deleting/` are read only once, because the directory does not change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pybroker.broker.admin.staged_replicas import directory_bytes
from pybroker.broker.clock import Clock
from pybroker.native import StagedDirectory

CACHED_S = 5.0
WAIT_S = 1.0
"""Longest wait of a scrape for the measurement. If a disk has stopped responding, the scrape shows the last
measurement."""


class DeletedBytes:
    """The last measurement, by log directory. Used on the loop's thread."""

    def __init__(self, staged: Callable[[], Iterable[StagedDirectory]], clock: Clock) -> None:
        """`staged`: returns the staged directories, and blocks."""
        self._staged = staged
        self._clock = clock
        self._sizes: dict[str, int] = {}
        self._measured_ms: int | None = None
        self._measuring: asyncio.Future[None] | None = None
        self.by_log_dir: Mapping[str, int] = {}

    async def refresh(self) -> None:
        """Measure if the last measurement is old."""
        now_ms = self._clock.monotonic_ms()
        fresh = self._measured_ms is not None and now_ms - self._measured_ms < CACHED_S * 1000
        if self._measuring is None and not fresh:
            self._measuring = asyncio.get_running_loop().run_in_executor(None, self._measure)
            self._measuring.add_done_callback(self._over)
        if self._measuring is not None:
            await asyncio.wait([self._measuring], timeout=WAIT_S)

    def _over(self, measuring: asyncio.Future[None]) -> None:
        self._measuring = None
        self._measured_ms = self._clock.monotonic_ms()
        if not measuring.cancelled():
            # If a directory cannot be listed, keep its last measurement. The directory is offline, which another metric
            # reports.
            measuring.exception()

    def _measure(self) -> None:
        before, sizes, found = self._sizes, {}, Counter[str]()
        for directory in self._staged():
            # Do not count a topic whose removal has begun: it cannot be undeleted any more.
            if not directory.purging:
                size = sizes[directory.path] = (
                    before[directory.path] if directory.path in before else directory_bytes(directory.path)
                )
                found[directory.log_dir] += size
        self._sizes, self.by_log_dir = sizes, found
