"""Watches the free space of each log directory. Logs when a disk is full; if configured, a full disk also makes the
broker not ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pybroker.broker.clock import Clock

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 2.0
"""Seconds between two samples of the file systems. The first refused write is logged within this time."""

REPEAT_SECONDS = 60.0
"""Seconds between two warnings while writes are refused."""

QUIET_SECONDS = 10.0
"""Seconds without a refused write after which a log directory counts as no longer full."""

USABLE_BYTES_MIN = 16 << 20
"""A log directory with fewer usable bytes counts as full even without a refused write, because one request may need
more."""


class Room(Protocol):
    """Disk space of an online log directory, as `LogDirRoom`."""

    @property
    def path(self) -> str:
        """The log directory."""

    @property
    def total_bytes(self) -> int:
        """Size of the log directory's file system; -1 if unknown."""

    @property
    def usable_bytes(self) -> int:
        """Bytes that the broker can still write."""

    @property
    def full_refusals(self) -> int:
        """Number of writes refused since the start because the disk was full."""


class _CountedRoom(msgspec.Struct, frozen=True):
    path: str
    total_bytes: int
    usable_bytes: int
    full_refusals: int


def with_metadata_log(rooms: Sequence[Room], log_dir: str, refusals: int) -> Sequence[Room]:
    """Return the rooms with the refused writes of the metadata log, which is in `log_dir`."""
    return [
        _CountedRoom(room.path, room.total_bytes, room.usable_bytes, room.full_refusals + refusals)
        if Path(room.path) == Path(log_dir)
        else room
        for room in rooms
    ]


class _Full(msgspec.Struct):
    """A log directory whose disk is full."""

    since: float
    refusals_before: int
    last_refusal: float
    last_warning: float


class DiskRoom:
    """The last sample of each online log directory, and the log directories that are full. Used on the loop's thread.
    """

    def __init__(self, read: Callable[[], Sequence[Room]], clock: Clock) -> None:
        """`read` blocks and runs on a thread of the loop's executor."""
        self._read = read
        self._clock = clock
        self._rooms: dict[str, Room] = {}
        self._full: dict[str, _Full] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def rooms(self) -> Sequence[Room]:
        """Return the last sample."""
        return list(self._rooms.values())

    def start(self) -> None:
        """Start sampling."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="disk room")

    async def stop(self) -> None:
        """Stop sampling, without waiting for a sample that hangs in the kernel."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.observe(await loop.run_in_executor(None, self._read))
            await asyncio.sleep(SAMPLE_SECONDS)

    def observe(self, rooms: Sequence[Room]) -> None:
        """Log the changes between the previous sample and `rooms`."""
        now = self._clock.monotonic_ms() / 1000
        before = self._rooms
        self._rooms = {room.path: room for room in rooms}
        for path in self._full.keys() - self._rooms.keys():
            del self._full[path]  # The directory is offline, which another log line reports.
        for room in rooms:
            earlier = before[room.path].full_refusals if room.path in before else 0
            if room.full_refusals > earlier:
                self._refused(room, earlier, now)
            elif room.path in self._full:
                self._recovered(room, self._full[room.path], now)

    def _refused(self, room: Room, earlier: int, now: float) -> None:
        full = self._full.get(room.path)
        if full is None:
            full = self._full[room.path] = _Full(now, earlier, now, now - REPEAT_SECONDS)
        full.last_refusal = now
        if now - full.last_warning >= REPEAT_SECONDS:
            full.last_warning = now
            log.warning(
                "log directory full path=%s usable_bytes=%d total_bytes=%d refused_writes=%d: "
                "produce requests get KAFKA_STORAGE_ERROR until there is room (docs: When a disk is full)",
                room.path,
                room.usable_bytes,
                room.total_bytes,
                room.full_refusals - full.refusals_before,
            )

    def _recovered(self, room: Room, full: _Full, now: float) -> None:
        if now - full.last_refusal < QUIET_SECONDS or 0 <= room.usable_bytes < USABLE_BYTES_MIN:
            return
        del self._full[room.path]
        log.info(
            "log directory has room again path=%s usable_bytes=%d refused_writes=%d full_seconds=%.0f",
            room.path,
            room.usable_bytes,
            room.full_refusals - full.refusals_before,
            full.last_refusal - full.since,
        )

    def reason_not_ready(self, usable_bytes_min: int) -> str | None:
        """Return the reason why /readyz answers 503, or None if every online log directory has at least
        `usable_bytes_min` usable bytes. `usable_bytes_min` 0 disables the check.
        """
        if not usable_bytes_min:
            return None
        for room in self._rooms.values():
            if room.path in self._full or 0 <= room.usable_bytes < usable_bytes_min:
                return f"log directory {room.path} has {room.usable_bytes} usable bytes"
        return None
