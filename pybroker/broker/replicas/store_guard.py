"""Detects that the metadata store was wiped or restored from a backup. Such a store lacks live topics, and contains
changes that were later undone. (`metadata.store_history` describes the detection.)

The file `cluster-seen` in the first log directory contains the last state of the store's history that this broker has
seen; it is at most a second old. The broker compares it with the store at start, before it takes part in a controller
election, and before it registers again. `pybroker cluster accept-restored-store` accepts the store once for the whole
cluster. For one full `delete.topic.delay.ms` after the acceptance, brokers remove no data, and they stage stray
replicas without a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import MetadataStore, StoreError, get_or_none
from pybroker.broker.metadata.migration_node import refuse_unfinished
from pybroker.broker.metadata.store_history import (
    FILE_NAME,
    Acceptance,
    ControllerHistory,
    decode_acceptance,
    decode_terms,
    set_back,
    term_of,
)
from pybroker.errors import FatalError, StartError
from pybroker.files import read_bounded, write_atomically

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 64 * 1024
NOTE_S = 1.0
"""Seconds for which changes are collected before one write records them."""
REMEDY = "`pybroker cluster accept-restored-store`"


class StoreSetBackError(FatalError):
    """The store is older than the last state that this broker has seen, or is another store."""


class _File(msgspec.Struct):
    epoch: int
    word: str
    decision: int
    accepted: list[str] = []
    """Ids of earlier acceptances. A backup may contain an earlier acceptance, which must not accept that backup."""
    accepted_ms: int = -1
    """Time of the latest acceptance, in ms. A metadata quorum that takes over the metadata reads it."""


def accepted_before(directory: Path) -> int:
    """Return the time, in ms, at which an operator accepted a restored ZooKeeper on which this broker ran; -1 if that
    never happened. `directory` is the first log directory.
    """
    path = directory / FILE_NAME
    try:
        return msgspec.json.decode(read_bounded(path, FILE_BYTES_MAX), type=_File).accepted_ms
    except FileNotFoundError:
        return -1
    except (OSError, msgspec.DecodeError) as problem:
        log.warning("cannot read whether a restored store was accepted path=%s: %s", path, problem)
        return -1


async def acceptance(store: MetadataStore) -> Acceptance | None:
    """Return the operator's latest acceptance."""
    node = await get_or_none(store, znodes.RESTORED)
    return None if node is None else decode_acceptance(node.data)


class StoreGuard:
    """Compares the store with the recorded history; used on the loop's thread."""

    def __init__(self, store: MetadataStore, directory: Path) -> None:
        """`directory` is the first log directory."""
        self._store = store
        self._path = directory / FILE_NAME
        self._noted: _File | None = None
        self.accepted_ms = -1
        """Time at which a restored store was accepted, in ms; -1 if none was."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def reason(self) -> str | None:
        """Return the reason why this broker does not recognize the store; None if it does. Raises DamagedNodeError if
        the history is unreadable.
        """
        try:
            noted = self._noted = self._read()
        except (OSError, msgspec.DecodeError) as problem:
            return f"{self._path}, which records the last known state of the metadata store, cannot be read ({problem})"
        await self._store.sync()
        counted = await get_or_none(self._store, znodes.DECISIONS)
        offices = await get_or_none(self._store, znodes.OFFICES)
        return set_back(
            None if noted is None or not noted.word else ControllerHistory(noted.epoch, noted.word, noted.decision),
            {} if offices is None else decode_terms(offices.data),
            0 if counted is None else znodes.decode_decisions(counted.data),
        )

    async def check(self) -> None:
        """Raise StoreSetBackError unless this broker recognizes the store or an operator has accepted it. Raise
        FatalError if the metadata has moved elsewhere while this broker was not registered.
        """
        reason = await self.reason()
        try:
            await refuse_unfinished(self._store)
        except StartError as problem:
            raise FatalError(str(problem)) from None
        latest = await acceptance(self._store)
        if latest is not None:
            self.accepted_ms = latest.accepted_ms
        noted = self._noted
        if latest is not None and (noted is None or latest.id not in noted.accepted):
            if reason is not None:
                log.warning("an operator accepted a metadata store that was set back: %s", reason)
            # The operator has accepted the store, so the recorded history no longer counts.
            accepted = [*(() if noted is None else noted.accepted), latest.id]
            self._write(_File(-1, "", -1, accepted, self.accepted_ms))
        elif reason is not None:
            raise StoreSetBackError(
                f"the metadata store was restored from a backup, or is another one: {reason}. Nothing was "
                f"changed. Restore the newest state of ZooKeeper, or accept this one with {REMEDY}"
            )

    # --- recording ----------------------------------------------------------------------------------------------------

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Schedule a write of the changed history. If the controller is new, write immediately."""
        del change
        if after.controller_epoch != before.controller_epoch:
            await self._note()
        self._changed.set()

    def start(self) -> None:
        """Start to record the history."""
        self._task = asyncio.create_task(self._run(), name="store-guard")

    async def stop(self) -> None:
        """Record a last time and stop."""
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
            # Read the decision first, then the terms. Decisions that are made in between then belong to a term that was
            # read here, or to a later term.
            counted = znodes.decode_decisions((await self._store.get(znodes.DECISIONS)).data)
            offices = decode_terms((await self._store.get(znodes.OFFICES)).data)
        except (StoreError, znodes.DamagedNodeError) as problem:
            log.debug("cannot read the history of the metadata store now: %s", problem)
            return
        found = term_of(offices, counted)
        if found is None:
            return
        epoch, term = found
        accepted = [] if self._noted is None else self._noted.accepted
        now = _File(epoch, term.word, counted, accepted, self.accepted_ms)
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
            return  # The broker is new, and its directory does not exist yet.
        except OSError as problem:
            log.error("cannot write path=%s: %s", self._path, problem.strerror or problem)
