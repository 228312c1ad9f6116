"""This broker's registration: the node `/brokers/ids/[id]`, and the running mark of this process
(`metadata.running_marks`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image_loader import LoweredError, shown_id
from pybroker.broker.metadata.metadata_store import (
    BadVersionError,
    Create,
    MetadataStore,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    StoreClosedError,
    UnavailableError,
    UnknownOutcomeError,
    WatchEvent,
    get_or_none,
)
from pybroker.broker.metadata.running_marks import assess
from pybroker.broker.metadata.znodes import BrokerNode, Endpoint, RunningNode
from pybroker.errors import FatalError, StartError
from pybroker.files import read_bounded

log = logging.getLogger(__name__)

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
"""Linux: a file with a random id that differs after each start of the machine."""


def boot_id() -> str:
    """Return the id of the machine's current boot; "" if the system has no such id. Tests of power cuts set another id
    in the environment variable PYBROKER_BOOT_ID.
    """
    chosen = os.environ.get("PYBROKER_BOOT_ID")
    if chosen is not None:
        return chosen
    try:
        return read_bounded(BOOT_ID_FILE, 64).decode("ascii").strip()
    except OSError:
        return ""


def say_lost_directories(lost: Sequence[str]) -> None:
    """Log which log directories of the previous run are missing."""
    if lost:
        log.warning(
            "log directories that this broker had before are gone; records that only they had are lost "
            "unless they come back directory.id=%s",
            ", ".join(lost),
        )


class BrokerRegistration:
    """Registration of this broker."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        broker_id: int,
        flush_mode: str,
        on_fatal: Callable[[FatalError], None],
        *,
        check: Callable[[], Awaitable[None]] | None = None,
        log_dirs: tuple[str, ...] = (),
        cordoned: tuple[str, ...] = (),
    ) -> None:
        """`check` raises FatalError if this broker does not recognize the store. `cordoned`: the value in the
        configuration file.
        """
        self._log_dirs = log_dirs
        self._cordoned = cordoned
        self._check = check
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._flush_mode = flush_mode
        self._on_fatal = on_fatal
        self._path = f"{znodes.BROKER_IDS}/{broker_id}"
        self._running_path = f"{znodes.RUNNING}/{broker_id}"
        self._running = RunningNode("", flush_mode)
        self._staying: asyncio.Task[None] | None = None
        self._epoch = -1

    async def register(
        self, endpoints: tuple[Endpoint, ...], rack: str | None, directory_ids: tuple[str, ...], *, topic_ids: bool
    ) -> int:
        """Create the node and return its creation zxid: the broker epoch (KIP-380). The node tells the controller
        whether visible records may be lost. The same multi writes the running mark, in case this process crashes.

        If there is a registration of this broker's previous run (it has the id of the first log directory), replace it
        instead of waiting for its session to expire. `topic_ids`: this broker's protocol version is 2.8 or later.
        Raises StartError if another broker has the id. Raises LoweredError if this broker has used topic ids before,
        and topics have them.
        """
        here = tuple(directory_id for directory_id in directory_ids if directory_id)
        self._running = RunningNode(boot_id(), self._flush_mode, here, topic_ids=topic_ids)
        found = await get_or_none(self._store, self._running_path)
        if found is not None:
            before = znodes.decode_running(self._running_path, found.data)
            if before.topic_ids and not topic_ids:
                topic = shown_id(await self._store.subtree(znodes.TOPICS))
                if topic is not None:
                    raise LoweredError(topic)
            self._running, lost = assess(before, self._running)
            say_lost_directories(lost)
        return await self._create(self._node(endpoints, rack, directory_ids[0]))

    def _node(self, endpoints: tuple[Endpoint, ...], rack: str | None, directory_id: str) -> BrokerNode:
        emptied, intact = bool(self._running.gone), not self._running.suspect
        now_ms = self._clock.wall_ms()
        return BrokerNode(endpoints, rack, now_ms, intact, directory_id, emptied, self._log_dirs, self._cordoned)

    async def judged(self) -> None:
        """Note that a controller has processed the loss that this registration reports, so that the next registration
        does not report it again."""
        if not self._running.suspect:
            return
        self._running = msgspec.structs.replace(self._running, suspect=False)
        try:
            await self._store.set(self._running_path, self._running.encode())
        except (UnavailableError, UnknownOutcomeError) as problem:
            # The next registration stores this. If the broker crashes before, the next run reports the loss once more,
            # which does no harm.
            log.warning("cannot record yet that this broker has come back: %s", problem)

    def stay(
        self,
        endpoints: tuple[Endpoint, ...],
        rack: str | None,
        directory_id: str,
        registered: Callable[[int], None],
    ) -> None:
        """Register again whenever the registration is gone, and report the new epoch. The registration is gone if the
        session with the store was lost, or if the controller considered this broker dead. The new registration reports
        no loss of records, because the process is alive. It still reports an earlier loss until a controller has
        processed it."""

        def node() -> BrokerNode:
            return self._node(endpoints, rack, directory_id)

        self._staying = asyncio.create_task(self._stay(node, registered), name="registration")

    async def _stay(self, node: Callable[[], BrokerNode], registered: Callable[[int], None]) -> None:
        while True:
            try:
                await self._until_gone()
                if self._check is not None:
                    await self._check()
                epoch = await self._create(node())
            except (UnavailableError, UnknownOutcomeError) as problem:
                # The next read of the store shows whether the registration succeeded.
                log.warning(
                    "cannot read from the metadata store whether this broker is registered, retrying: %s", problem
                )
                continue
            except StoreClosedError:
                return
            except (StartError, FatalError) as problem:
                self._on_fatal(FatalError(str(problem)))
                return
            log.warning("registered again after the registration was lost broker_epoch=%d", epoch)
            registered(epoch)

    async def _until_gone(self) -> None:
        """Return when the broker epoch is no longer registered."""
        while True:
            changed = asyncio.Event()

            def fired(_: WatchEvent, changed: asyncio.Event = changed) -> None:
                changed.set()

            there = await self._store.exists(self._path, fired)
            if there is None or there.created_zxid != self._epoch:
                return
            await changed.wait()

    async def _create(self, node: BrokerNode) -> int:
        while True:
            before = await get_or_none(self._store, self._running_path)
            mark: Operation = (
                Create(self._running_path, self._running.encode())
                if before is None
                else Set(self._running_path, self._running.encode(), before.version)
            )
            try:
                await self._store.multi([Create(self._path, node.encode(), ephemeral=True), mark])
            except MultiError as error:
                if not isinstance(error.cause, NodeExistsError | BadVersionError):
                    raise
                await self._replace_own(node.directory_id)
                continue
            self._epoch = (await self._store.get(self._path)).created_zxid
            return self._epoch

    async def _replace_own(self, directory_id: str) -> None:
        there = await get_or_none(self._store, self._path)
        if there is None:
            return
        if not directory_id or znodes.decode_broker(self._path, there.data).directory_id != directory_id:
            raise StartError(
                f"broker id {self._broker_id} is in use by a live broker of this cluster; choose another node.id"
            )
        with contextlib.suppress(NoNodeError, BadVersionError):
            await self._store.delete(self._path, there.version)

    def stop_staying(self) -> None:
        """Stop registering again, because this broker is about to stop."""
        if self._staying is not None:
            self._staying.cancel()

    async def leave(self, *, complete: bool) -> None:
        """Unregister after everything is on disk, so that the next start reports no loss. `complete`: whether no
        replica waits for the data of a lost log directory. Raises StoreError."""
        self.stop_staying()
        gone = () if complete else self._running.gone
        ended = msgspec.structs.replace(self._running, stopped=True, gone=gone)
        with contextlib.suppress(NoNodeError):
            await self._store.set(self._running_path, ended.encode())
        with contextlib.suppress(NoNodeError):
            await self._store.delete(self._path)
