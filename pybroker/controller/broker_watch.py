"""Which brokers are registered, as the controller sees it in the store: every change becomes an event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.controller.events import Arrival, BrokersChanged
from pybroker.metadata import znodes
from pybroker.metadata.image import BrokerImage
from pybroker.metadata.store import (
    MetadataStore,
    Node,
    StoreClosedError,
    StoreError,
    UnavailableError,
    WatchEvent,
    values,
)
from pybroker.metadata.znodes import DamagedNodeError

log = logging.getLogger(__name__)


class BrokerWatch:
    """Of one controller; on the loop's thread. A registration that cannot be read counts as none."""

    def __init__(self, store: MetadataStore, report: Callable[[BrokersChanged], None]) -> None:
        """`report` has an event decided; events are decided in the order of the calls."""
        self._store = store
        self._report = report
        self._known: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """The first event names all that are registered now, so that what another controller left is judged once."""
        self._task = asyncio.create_task(self._run(), name="broker-watch")

    async def stop(self) -> None:
        """Reports nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            changed = asyncio.Event()

            def fired(_: WatchEvent, changed: asyncio.Event = changed) -> None:
                changed.set()

            try:
                # Before the read: what comes in between fires it.
                await self._store.children(znodes.BROKER_IDS, fired)
                nodes = await self._store.subtree(znodes.BROKER_IDS)
            except UnavailableError as problem:
                log.warning("the registrations of brokers cannot be read; trying again: %s", problem)
                continue
            except StoreClosedError:
                return
            except StoreError as problem:
                log.error("the registrations of brokers cannot be read: %s", problem)
                return
            self._compare(values(nodes, znodes.BROKER_IDS))
            await changed.wait()

    def _compare(self, nodes: dict[str, Node]) -> None:
        arrived: list[Arrival] = []
        there: dict[int, int] = {}
        for name, node in nodes.items():
            path = f"{znodes.BROKER_IDS}/{name}"
            try:
                found = znodes.decode_broker(path, node.data)
                broker_id = znodes.broker_id_of(path, name)
            except DamagedNodeError as problem:
                log.error("the registration of a broker is damaged, and counts as none: %s", problem)
                continue
            there[broker_id] = node.created_zxid
            if self._known.get(broker_id) != node.created_zxid:
                broker = BrokerImage(broker_id, node.created_zxid, found.endpoints, found.rack, found.emptied)
                arrived.append(Arrival(broker, found.intact))
        gone = tuple(sorted(self._known.keys() - there.keys()))
        self._known = there
        if arrived or gone:
            self._report(BrokersChanged(tuple(arrived), gone))
