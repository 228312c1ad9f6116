"""Appends records without effect while the metadata does not change (`metadata.max.idle.interval.ms`). The offsets that
brokers then report prove that they still follow the metadata log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pybroker.broker.quorum.quorum_log import MetadataLog, NotLeaderError


class IdleRecords:
    """The idle records of one epoch; on the loop's thread."""

    def __init__(self, log: MetadataLog, epoch: int, end_offset: Callable[[], int], interval_s: float) -> None:
        """`end_offset` returns the end of the committed records."""
        self._log = log
        self._epoch = epoch
        self._end_offset = end_offset
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to append records, unless the interval is 0."""
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run(), name="idle-records")

    async def stop(self) -> None:
        """Stop appending records."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        # The epoch has ended, and its controller stops.
        with contextlib.suppress(NotLeaderError):
            while True:
                end = self._end_offset()
                await asyncio.sleep(self._interval_s)
                if self._end_offset() == end:
                    await self._log.confirm(self._epoch)
