"""Refuses a metadata store that was wiped or restored from a backup: it takes living topics for unknown, and for
deleted what was taken back (`metadata.store_history` says how that is told).

What this broker has seen of the store's history is in the file `cluster-seen` in the first log directory, at most a
second old. It is compared at the start, before this broker stands for controller, and when it registers again.
`pybroker cluster accept-restored-store` says once for the whole cluster that the store is to be taken as it is. For one
full `delete.topic.delay.ms` from then on brokers remove nothing, and put aside without a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.store import MetadataStore, StoreError, get_or_none
from pybroker.broker.metadata.store_history import (
    Acceptance,
    Seen,
    decode_acceptance,
    decode_offices,
    office_of,
    set_back,
)
from pybroker.errors import FatalError
from pybroker.files import read_bounded, write_atomically

log = logging.getLogger(__name__)

FILE_NAME = "cluster-seen"
FILE_BYTES_MAX = 64 * 1024
NOTE_S = 1.0
"""So long changes are gathered before they are noted."""
REMEDY = "`pybroker cluster accept-restored-store`"


class StoreSetBackError(FatalError):
    """The store is older than what this broker has seen of it, or another one."""


class _File(msgspec.Struct):
    epoch: int
    word: str
    decision: int
    accepted: list[str] = []
    """What was accepted before, so that a backup with an acceptance in it is not accepted by that."""


async def acceptance(store: MetadataStore) -> Acceptance | None:
    """What an operator has said last."""
    node = await get_or_none(store, znodes.RESTORED)
    return None if node is None else decode_acceptance(node.data)


class StoreGuard:
    """Of one broker; `kazoo`'s store or any other. Belongs to the loop's thread."""

    def __init__(self, store: MetadataStore, directory: Path) -> None:
        """`directory`: the first log directory."""
        self._store = store
        self._path = directory / FILE_NAME
        self._noted: _File | None = None
        self.accepted_ms = -1
        """When a store that was set back was accepted; -1: never."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def reason(self) -> str | None:
        """Why the store is not the one that this broker has seen; None if it is. Raises DamagedNodeError."""
        try:
            noted = self._noted = self._read()
        except (OSError, msgspec.DecodeError) as problem:
            return f"{self._path}, which says what this broker has seen of it, cannot be read ({problem})"
        await self._store.sync()
        counted = await get_or_none(self._store, znodes.DECISIONS)
        offices = await get_or_none(self._store, znodes.OFFICES)
        return set_back(
            None if noted is None or not noted.word else Seen(noted.epoch, noted.word, noted.decision),
            {} if offices is None else decode_offices(offices.data),
            0 if counted is None else znodes.decode_decisions(counted.data),
        )

    async def check(self) -> None:
        """Raises StoreSetBackError, in one line."""
        reason = await self.reason()
        said = await acceptance(self._store)
        if said is not None:
            self.accepted_ms = said.accepted_ms
        noted = self._noted
        if said is not None and (noted is None or said.id not in noted.accepted):
            if reason is not None:
                log.warning("the metadata store was set back, which was accepted: %s", reason)
            # What was seen before is worth nothing any more.
            accepted = [*(() if noted is None else noted.accepted), said.id]
            self._write(_File(-1, "", -1, accepted))
        elif reason is not None:
            raise StoreSetBackError(
                f"the metadata store was restored from a backup, or is another one: {reason}; nothing was touched. "
                f"Restore the newest state of ZooKeeper, or take this one with {REMEDY}"
            )

    # --- noting -------------------------------------------------------------------------------------------------------

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """The cluster has changed. A new controller is noted at once."""
        del change
        if after.controller_epoch != before.controller_epoch:
            await self._note()
        self._changed.set()

    def start(self) -> None:
        """Notes from now on what the cluster comes to."""
        self._task = asyncio.create_task(self._run(), name="store-guard")

    async def stop(self) -> None:
        """Notes a last time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            if self._changed.is_set():
                await self._note()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._note()
            await asyncio.sleep(NOTE_S)

    async def _note(self) -> None:
        try:
            # In this order: decisions that come in between belong to the office that is known then, or to a later one.
            counted = znodes.decode_decisions((await self._store.get(znodes.DECISIONS)).data)
            offices = decode_offices((await self._store.get(znodes.OFFICES)).data)
        except (StoreError, znodes.DamagedNodeError) as problem:
            log.debug("the history of the metadata store cannot be read now: %s", problem)
            return
        found = office_of(offices, counted)
        if found is None:
            return
        epoch, office = found
        accepted = [] if self._noted is None else self._noted.accepted
        now = _File(epoch, office.word, counted, accepted)
        if now != self._noted:
            await asyncio.get_running_loop().run_in_executor(None, self._write, now)

    def _read(self) -> _File | None:
        try:
            return msgspec.json.decode(read_bounded(self._path, FILE_BYTES_MAX), type=_File)
        except FileNotFoundError:
            return None

    def _write(self, content: _File) -> None:
        self._noted = content
        try:
            write_atomically(self._path, msgspec.json.encode(content))
        except FileNotFoundError:
            return  # a new broker, whose directory is not made yet
        except OSError as problem:
            log.error("%s: %s", self._path, problem.strerror or problem)
