"""This broker's registration: `/brokers/ids/[id]`, and whether something that somebody has seen may be lost since its
life before.

| the life before | since then | what was visible is |
|---|---|---|
| ended with a clean stop, or there was none | – | intact |
| ended otherwise, `log.flush.mode=commit` | – | intact: only what is on disk is ever visible |
| ended otherwise, `log.flush.mode=os` | the machine runs on | intact: the page cache outlives a process |
| ended otherwise, `log.flush.mode=os` | the machine was restarted, or nobody knows | perhaps lost |
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pybroker.clock import Clock
from pybroker.errors import StartError
from pybroker.files import read_bounded
from pybroker.metadata import znodes
from pybroker.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    MultiError,
    NodeExistsError,
    Operation,
    Set,
    get_or_none,
)
from pybroker.metadata.znodes import BrokerNode, Endpoint, RunningNode

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
"""Linux: another text after each start of the machine."""


class Registered(NamedTuple):
    """`epoch` is the creation number of the registration (KIP-380)."""

    epoch: int
    intact: bool
    """Nothing that was visible can be lost: see the table of the module."""


def boot_id() -> str:
    """Names this run of the machine; "" where the system does not tell."""
    try:
        return read_bounded(BOOT_ID_FILE, 64).decode("ascii").strip()
    except OSError:
        return ""


class Membership:
    """Registers and leaves."""

    def __init__(self, store: MetadataStore, clock: Clock, broker_id: int, flush_mode: str) -> None:
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._flush_mode = flush_mode
        self._path = f"{znodes.BROKER_IDS}/{broker_id}"
        self._running_path = f"{znodes.RUNNING}/{broker_id}"

    async def register(self, endpoints: tuple[Endpoint, ...], rack: str | None) -> Registered:
        """Creates the node. The mark of a running broker is left in the same multi, for the case that this life
        crashes."""
        running = RunningNode(boot_id(), self._flush_mode)
        before = await get_or_none(self._store, self._running_path)
        intact = before is None or self._outlived(znodes.decode_running(self._running_path, before.data), running)
        mark: Operation = (
            Create(self._running_path, running.encode())
            if before is None
            else Set(self._running_path, running.encode(), before.version)
        )
        node = BrokerNode(endpoints, rack, self._clock.wall_ms())
        try:
            await self._store.multi([Create(self._path, node.encode(), ephemeral=True), mark])
        except MultiError as error:
            if isinstance(error.cause, NodeExistsError):
                raise StartError(
                    f"broker id {self._broker_id} is in use by a live broker of this cluster; choose another node.id"
                ) from None
            raise
        return Registered((await self._store.get(self._path)).created_zxid, intact)

    @staticmethod
    def _outlived(before: RunningNode, now: RunningNode) -> bool:
        return before.flush_mode == "commit" or (bool(now.boot_id) and before.boot_id == now.boot_id)

    async def leave(self) -> None:
        """After everything is on disk: the next start finds nothing to doubt."""
        await self._store.multi([Delete(self._path), Delete(self._running_path)])
