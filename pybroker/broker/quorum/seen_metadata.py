"""Detects that the metadata log lacks changes: it was restored from an older copy, or belongs to another cluster.

The file `quorum-seen` in `metadata.log.dir` contains the newest committed position of the log that this broker has
applied; it is at most a second old. Offset and epoch of a committed position never change. Therefore a log without this
position lacks changes that this broker has applied. In this case the broker stops before it applies anything. `pybroker
cluster quorum accept-restored` forgets the position. For one full `delete.topic.delay.ms` after the acceptance, this
broker removes no data, and it stages stray replicas without a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from pybroker.broker.quorum.loader import ImageChange, MetadataLoader
from pybroker.errors import FatalError, StartError
from pybroker.files import read_bounded, write_atomically

log = logging.getLogger(__name__)

FILE_NAME = "quorum-seen"
FILE_BYTES_MAX = 4096
NOTE_S = 1.0
"""Seconds for which changes are collected before one write records them."""
REMEDY = "`pybroker cluster quorum accept-restored`"


class SeenPosition(msgspec.Struct, frozen=True):
    """A committed position of the log; offset 0 if none is known."""

    epoch: int
    """Epoch of the last record before `offset`."""
    offset: int
    accepted_ms: int = -1
    """Time (ms) at which an operator restored the log or accepted a restored log; -1 if that never happened."""


class OlderMetadataError(FatalError):
    """The metadata log lacks records that this broker has applied."""


def read_seen(directory: Path) -> SeenPosition | None:
    """Return the position stored in a log directory; None if there is none. Raises StartError."""
    path = directory / FILE_NAME
    try:
        return msgspec.json.decode(read_bounded(path, FILE_BYTES_MAX), type=SeenPosition)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as problem:
        raise StartError(f"cannot read the last known position of the metadata log path={path}: {problem}") from None


def write_seen(directory: Path, position: SeenPosition) -> None:
    """Store a position. Raises OSError."""
    write_atomically(directory / FILE_NAME, msgspec.json.encode(position))


class SeenMetadata:
    """Compares the log with the stored position, then stores new positions; used on the loop's thread."""

    def __init__(
        self,
        directory: Path,
        loader: MetadataLoader,
        on_fatal: Callable[[FatalError], None],
        accepted_ms: int = -1,
    ) -> None:
        """`directory` is `metadata.log.dir`. `accepted_ms`: when an operator accepted a restored store from which the
        log was migrated. Raises StartError."""
        self._directory = directory
        self._on_fatal = on_fatal
        seen = read_seen(directory)
        self.accepted_ms = accepted_ms if seen is None else max(accepted_ms, seen.accepted_ms)
        """Time (ms) at which an operator restored the log or accepted a restored log; -1 if that never happened."""
        self._due = None if seen is None or seen.offset <= 0 else seen
        """The stored position, until the log has reached it."""
        self._now: SeenPosition | None = None
        self._failed = False
        self._noting: asyncio.Task[None] | None = None
        self._closed = False
        loader.follow(self._changed)

    @property
    def offset(self) -> int:
        """The offset that the log must have; 0 if none is known."""
        return 0 if self._due is None else self._due.offset

    def caught_up(self) -> None:
        """Record that this broker has applied all records that were committed before it started."""
        if self._due is not None and not self._failed:
            self._fail(f"it ends at offset {0 if self._now is None else self._now.offset}")

    async def close(self) -> None:
        """Store the position a last time."""
        self._closed = True
        if self._noting is not None:
            self._noting.cancel()
        await self._write()

    def _changed(self, change: ImageChange) -> None:
        if self._failed:
            return
        self._now = SeenPosition(change.after.controller_epoch, change.after.offset, self.accepted_ms)
        if self._due is not None and not self._shown(self._due, self._now, replaced=change.delta is None):
            return
        self._due = None
        if self._noting is None and not self._closed:
            self._noting = asyncio.get_running_loop().create_task(self._note(), name="quorum-seen")

    def _shown(self, due: SeenPosition, now: SeenPosition, *, replaced: bool) -> bool:
        """Return whether the log contains the stored position `due`; False while the log is shorter. `replaced`:
        whether `now` is the end of a snapshot. The end of a snapshot shows nothing about the epochs of records before
        it."""
        if now.offset < due.offset and now.epoch <= due.epoch:
            return False
        matches = now.epoch >= due.epoch if replaced else now.epoch == due.epoch
        if now.offset < due.offset or not matches:
            self._fail(f"it has epoch {now.epoch} at offset {now.offset}")
            return False
        return True

    def _fail(self, found: str) -> None:
        assert self._due is not None
        self._failed = True
        self._on_fatal(
            OlderMetadataError(
                f"the metadata log was restored from an older copy, or is another one: {found}, but this broker has "
                f"applied it up to offset {self._due.offset} in epoch {self._due.epoch}. Nothing was changed. Let a "
                f"voter with the newest log lead, or accept this one with {REMEDY} while this broker is stopped"
            )
        )

    async def _note(self) -> None:
        await asyncio.sleep(NOTE_S)
        self._noting = None
        await self._write()

    async def _write(self) -> None:
        position = self._now
        if self._failed or self._due is not None or position is None:
            return
        try:
            await asyncio.to_thread(write_seen, self._directory, position)
        except OSError as problem:
            log.error("cannot write path=%s: %s", self._directory / FILE_NAME, problem.strerror or problem)
