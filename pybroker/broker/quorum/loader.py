"""The image that results from the metadata log on this node. There is one copy, updated in the order of the log. The
broker acts on a change only when the image contains it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import SessionState
from pybroker.broker.metadata.records.deltas import from_records
from pybroker.broker.metadata.records.snapshots import image_from_records
from pybroker.broker.quorum.quorum_log import CommittedBatch, SnapshotPosition
from pybroker.errors import FatalError

APART_BYTES_MIN = 64 * 1024
"""Size in bytes from which on a thread reads a snapshot. Reading takes about 0.1 ms for each KiB."""


class ImageChange(NamedTuple):
    """One change of the image."""

    before: ClusterImage
    after: ClusterImage
    delta: ImageDelta | None
    """None if a snapshot replaced the image."""


class MetadataLoader:
    """Follows the log and updates the image; on the loop's thread."""

    def __init__(self, on_fatal: Callable[[FatalError], None]) -> None:
        self._on_fatal = on_fatal
        self._image = ClusterImage.initial(0)
        self._followers: list[Callable[[ImageChange], None]] = []
        self._leader_followers: list[Callable[[int, int | None], None]] = []
        self._failed = False
        self.leader: tuple[int, int | None] = 0, None
        """The newest epoch and its leader."""

    @property
    def image(self) -> ClusterImage:
        """Return the image after the last committed batch that was delivered."""
        return self._image

    def follow(self, change: Callable[[ImageChange], None]) -> None:
        """Call `change` after each change of the image. The function must be quick."""
        self._followers.append(change)

    def follow_leader(self, changed: Callable[[int, int | None], None]) -> None:
        """Call `changed` with the epoch and the leader when the epoch or the leader changes."""
        self._leader_followers.append(changed)

    async def snapshot(self, position: SnapshotPosition, pieces: Sequence[Sequence[bytes]]) -> None:
        """Replace the image by the image of a snapshot. A thread reads a large snapshot, because reading must not block
        the event loop, which serves clients.
        """
        before = self._image
        try:
            if sum(len(record) for piece in pieces for record in piece) < APART_BYTES_MIN:
                image = image_from_records(pieces)
            else:
                image = await asyncio.to_thread(image_from_records, pieces)
        except ValueError as problem:
            self._fail(f"a snapshot of the metadata log cannot be read: {problem}")
            return
        after = msgspec.structs.replace(image, controller_epoch=position.epoch, offset=position.end_offset)
        self._step(ImageChange(before, after, None))

    def committed(self, batch: CommittedBatch) -> None:
        """Apply the next batch. If a batch is unreadable, apply no further batch: without this batch, the image would
        be wrong for the rest of the log.
        """
        before = self._image
        try:
            delta = from_records(before, batch.records) if batch.records else ImageDelta()
        except ValueError as problem:
            self._fail(f"the metadata log cannot be read at offset {batch.end_offset}: {problem}")
            return
        after = msgspec.structs.replace(
            before.apply(delta), controller_epoch=batch.epoch, offset=batch.end_offset
        )
        self._step(ImageChange(before, after, delta))

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        """Notify the listeners of the new leader."""
        self.leader = epoch, leader
        for changed in self._leader_followers:
            changed(epoch, leader)

    def _step(self, change: ImageChange) -> None:
        unknown = change.after.features.unknown_level
        if unknown is not None:
            # This release does not support the level of metadata.version, and may misread the records that follow.
            self._fail(unknown)
        if self._failed:
            return
        self._image = change.after
        for follow in self._followers:
            follow(change)

    def _fail(self, text: str) -> None:
        if not self._failed:
            self._failed = True
            self._on_fatal(FatalError(text))


class QuorumSession:
    """The state and history of this broker's connection to the quorum. Operators see it in the same form as a store
    session. It is connected while the leader is known."""

    def __init__(self, loader: MetadataLoader) -> None:
        self.state = SessionState.SUSPENDED
        self.event_counts: dict[SessionState, int] = dict.fromkeys(SessionState, 0)
        """Number of each event since the start."""
        loader.follow_leader(self._changed)

    @property
    def connected(self) -> bool:
        """Whether there is a leader."""
        return self.state is SessionState.CONNECTED

    def _changed(self, epoch: int, leader: int | None) -> None:
        del epoch
        state = SessionState.SUSPENDED if leader is None else SessionState.CONNECTED
        if state is not self.state:
            self.state = state
            self.event_counts[state] += 1
