"""A file that reserves disk space for the metadata store.

If the disk is full, an operator deletes topics or shortens their retention. The store must record these changes before
any space becomes free. For this purpose the store releases a part of the file and repeats its transaction, instead of
stopping the broker.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

FILE_NAME = "metadata.reserve"
BYTES = 4 << 20
PART_BYTES = 256 << 10
"""Number of bytes that are released at a time. Producers may use this space before the store does, so the store gets
several attempts."""

FREE_BYTES_MIN = 8 * BYTES
"""The file is written only while the disk has at least this many free bytes."""

PAUSE_S = 10.0
"""Seconds between attempts to restore the file."""


class DiskReserve:
    """The file in one directory. Used on the thread of the store."""

    def __init__(self, directory: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = directory / FILE_NAME
        self._monotonic = monotonic
        self._tried_at: float | None = None

    def fill(self) -> None:
        """Restore the file if it is smaller than it should be and the disk has space."""
        now = self._monotonic()
        if self._tried_at is not None and now - self._tried_at < PAUSE_S:
            return
        self._tried_at = now
        try:
            if self._size() >= BYTES or not self._has_space():
                return
            with self._path.open("ab", buffering=0) as file:
                if hasattr(os, "posix_fallocate"):
                    # Reserve the blocks without writing them, because every start of a broker waits for this call.
                    os.posix_fallocate(file.fileno(), 0, BYTES)
                else:  # macOS
                    while (missing := BYTES - file.tell()) > 0:
                        file.write(bytes(min(PART_BYTES, missing)))
                os.fsync(file.fileno())
        except OSError as problem:
            log.debug("cannot write the reserve of the metadata store path=%s: %s", self._path, problem)

    def release(self) -> bool:
        """Give a part of the file back to the disk. Return False if the file is empty."""
        try:
            size = self._size()
            if not size:
                return False
            with self._path.open("ab", buffering=0) as file:
                file.truncate(max(0, size - PART_BYTES))
                # Some file systems free the blocks only after an fsync.
                os.fsync(file.fileno())
        except OSError as problem:
            log.warning("cannot release the reserve of the metadata store path=%s: %s", self._path, problem)
            return False
        log.warning("metadata store: the disk is full; released a part of the reserve path=%s", self._path)
        return True

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _has_space(self) -> bool:
        if not hasattr(os, "statvfs"):  # Windows
            return True
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN
