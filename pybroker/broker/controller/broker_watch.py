"""Watches the broker registrations in the store, and reports each change as an event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.broker.controller.internal_events import Arrival, BrokersChanged
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.metadata_store import (
    MetadataStore,
    Node,
    StoreClosedError,
    StoreError,
    UnavailableError,
    WatchEvent,
    values,
)
from pybroker.broker.metadata.znodes import DamagedNodeError

log = logging.getLogger(__name__)


class BrokerWatch:
    """The registration watch of one controller, on the event loop's thread. An unreadable registration counts as
    absent."""

    def __init__(self, store: MetadataStore, report: Callable[[BrokersChanged], None]) -> None:
        """`report` queues an event. The controller decides events in the order of the reports."""
        self._store = store
        self._report = report
        self._known: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> BrokersChanged | None:
        """Return the current registrations as one event, or None if no broker is registered. Report later changes.

        The controller decides this event first, because it contains all changes of brokers since the previous
        controller."""
        looked = await self._look()
        if looked is None:
            return None
        event, changed = looked
        self._task = asyncio.create_task(self._run(changed), name="broker-watch")
        return event

    async def stop(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            looked = await self._look()
            if looked is None:
                return
            event, changed = looked
            if event is not None:
                self._report(event)

    async def _look(self) -> tuple[BrokersChanged | None, asyncio.Event] | None:
        """Return the changes since the last read, and an asyncio event that is set at the next change. Return None if
        the store is closed."""
        while True:
            changed = asyncio.Event()

            def fired(_: WatchEvent, changed: asyncio.Event = changed) -> None:
                changed.set()

            try:
                # Set the watch before reading. A change between the two then triggers the watch.
                await self._store.children(znodes.BROKER_IDS, fired)
                nodes = await self._store.subtree(znodes.BROKER_IDS)
            except UnavailableError as problem:
                log.warning("cannot read broker registrations, retrying: %s", problem)
                continue
            except StoreClosedError:
                return None
            except StoreError as problem:
                log.error("cannot read broker registrations: %s", problem)
                return None
            return self._compare(values(nodes, znodes.BROKER_IDS)), changed

    def _compare(self, nodes: dict[str, Node]) -> BrokersChanged | None:
        arrived: list[Arrival] = []
        there: dict[int, int] = {}
        for name, node in nodes.items():
            path = f"{znodes.BROKER_IDS}/{name}"
            try:
                found = znodes.decode_broker(path, node.data)
                broker_id = znodes.broker_id_of(path, name)
            except DamagedNodeError as problem:
                log.error("ignored a damaged broker registration: %s", problem)
                continue
            there[broker_id] = node.created_zxid
            if self._known.get(broker_id) != node.created_zxid:
                broker = BrokerImage(
                    broker_id,
                    node.created_zxid,
                    found.endpoints,
                    found.rack,
                    found.emptied,
                    found.log_dirs,
                    found.cordoned,
                )
                arrived.append(Arrival(broker, found.intact))
        gone = tuple(sorted(self._known.keys() - there.keys()))
        self._known = there
        return BrokersChanged(tuple(arrived), gone) if arrived or gone else None
