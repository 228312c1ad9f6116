"""Decides when this node writes a snapshot of the metadata log, and writes it.

A snapshot is due after a configured number of bytes of records, or at a configured time after the first record that the
previous snapshot does not contain. The image is immutable, so the event loop encodes it piece by piece between its
other work, and a thread writes the pieces. The native log keeps two snapshots and the segments since the older one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.snapshots import image_to_records
from pybroker.native import NativeError
from pybroker.wall_clock import wall_ms

log = logging.getLogger(__name__)

RETRY_S = 30.0
"""Seconds after a snapshot that could not be written."""
UNFLUSHED_RETRY_S = 0.1

WriteSnapshot = Callable[[int, int, Iterable[Sequence[bytes]]], Awaitable[bool]]
"""Writes the snapshot up to an offset. Arguments: the offset, the append time of the last record before it, and the
records in pieces."""


class SnapshotLimits(NamedTuple):
    """When a snapshot is due."""

    record_bytes: int
    interval_ms: int
    """0: only `record_bytes` counts."""


class SnapshotCutter:
    """Writes the snapshots of one node; used on the loop's thread."""

    def __init__(self, image: Callable[[], ClusterImage], write: WriteSnapshot, limits: SnapshotLimits) -> None:
        """`image` returns the image after the last delivered batch."""
        self._image = image
        self._write = write
        self._limits = limits
        self._record_bytes = 0
        """Bytes of the records that the last snapshot does not contain."""
        self._appended_ms = -1
        """Append time of the last batch."""
        self._timer: asyncio.TimerHandle | None = None
        self._cutting: asyncio.Task[None] | None = None
        self._closed = False

    def committed(self, appended_ms: int, records: Sequence[bytes]) -> None:
        """Count a batch. The image already contains it."""
        self._appended_ms = appended_ms
        if not records:
            return
        if self._record_bytes == 0 and self._limits.interval_ms > 0:
            self._arm(appended_ms)
        self._record_bytes += sum(map(len, records))
        if self._record_bytes >= self._limits.record_bytes:
            self._cut()

    def replaced(self, appended_ms: int) -> None:
        """Reset the count after a snapshot has replaced the image."""
        self._appended_ms = appended_ms
        self._covered(0)

    async def close(self) -> None:
        """Stop, and abandon a snapshot that is being written."""
        self._closed = True
        self._disarm()
        if self._cutting is not None:
            self._cutting.cancel()
            await asyncio.gather(self._cutting, return_exceptions=True)

    def _arm(self, appended_ms: int) -> None:
        age_ms = max(0, wall_ms() - appended_ms)
        delay_s = max(0, self._limits.interval_ms - age_ms) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._cut)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _covered(self, record_bytes_after: int) -> None:
        self._disarm()
        self._record_bytes = record_bytes_after
        if record_bytes_after and self._limits.interval_ms > 0:
            self._arm(self._appended_ms)

    def _cut(self) -> None:
        if self._cutting is None and not self._closed:
            self._cutting = asyncio.get_running_loop().create_task(self._cut_one(), name="metadata-snapshot")
            self._cutting.add_done_callback(self._ended)

    async def _cut_one(self) -> None:
        while True:
            image, covered, began = self._image(), self._record_bytes, time.monotonic()
            try:
                written = await self._write(image.offset, self._appended_ms, image_to_records(image))
            except NativeError as problem:
                log.warning("cannot write a snapshot of the metadata log, next attempt in %d s: %s", RETRY_S, problem)
                await asyncio.sleep(RETRY_S)
                continue
            if written:
                self._covered(max(0, self._record_bytes - covered))
                took_ms = (time.monotonic() - began) * 1000
                log.info("wrote a snapshot of the metadata log end_offset=%d ms=%d", image.offset, took_ms)
                return
            # A follower may get committed records before its own disk has them, and then no snapshot is written. If the
            # leader has sent a newer snapshot in the meantime, `replaced` resets the count.
            await asyncio.sleep(UNFLUSHED_RETRY_S)
            if self._record_bytes == 0:
                return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._cutting = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("no snapshot of the metadata log was written: this is a bug in pybroker", exc_info=problem)
        elif self._record_bytes >= self._limits.record_bytes:
            self._cut()
