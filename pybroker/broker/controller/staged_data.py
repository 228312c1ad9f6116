"""Tracks which brokers hold staged data of deleted topics. A deletion ends when no broker holds staged data of the
topic."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import MetadataStore, NoNodeError, WatchEvent
from pybroker.native import Uuid


class StagedData(Protocol):
    """The marks in which brokers record that they hold staged data of deleted topics."""

    async def unheld(self, topics: Collection[Uuid], changed: Callable[[Uuid], None]) -> Collection[Uuid]:
        """Return the topics for which no broker has staged data. `changed` is called when a broker may have removed the
        last staged data of another topic. Raises StoreError if the store cannot be read."""
        ...


class StoredStagedData:
    """`StagedData` in the store. A broker adds a mark before it confirms the staging, and removes the mark after it has
    removed the data. No step depends on a clock."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def unheld(self, topics: Collection[Uuid], changed: Callable[[Uuid], None]) -> Collection[Uuid]:
        """Read each broker's marks, and watch the marks that exist."""
        brokers = await self._store.children(znodes.STAGED)
        found = []
        for topic_id in topics:
            # Read every mark, even if the result is already clear, because each read sets a watch.
            if not any([await self._holds(broker, topic_id, changed) for broker in brokers]):
                found.append(topic_id)
        return found

    async def _holds(self, broker: str, topic_id: Uuid, changed: Callable[[Uuid], None]) -> bool:
        def fired(event: WatchEvent) -> None:
            del event
            changed(topic_id)

        try:
            await self._store.get(f"{znodes.STAGED}/{broker}/{topic_id}", fired)
        except NoNodeError:
            return False
        return True
