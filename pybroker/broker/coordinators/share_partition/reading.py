"""Reads of one share partition. They never access the disk on the event loop's thread.

Batches in the page cache are returned at once. A thread of the executor reads other batches from disk; the next call
for the same offset returns these batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pybroker.broker.coordinators.share_partition.interfaces import Log
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.native import FetchedBatches, NativeError


class ReaderContext(Protocol):
    """The dependencies of `Reading`."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, whose executor reads from disk."""
        ...

    @property
    def log(self) -> Log:
        """The partitions of this broker."""
        ...


class Reading:
    """Reads of one share partition. `read`: called after a read from disk. `run`: starts a coroutine."""

    def __init__(
        self,
        dependencies: ReaderContext,
        key: Key,
        committed: bool,
        on_read: Callable[[], None],
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._dependencies = dependencies
        self._partition = key.topic_id, key.partition
        self._committed = committed
        self._on_read = on_read
        self._run = run
        self._under_way = False
        self._ahead: tuple[int, FetchedBatches | NativeError] | None = None
        """(offset, result) of the last read from disk, for the next `fetch` at this offset."""

    def fetch(self, offset: int, limits: tuple[int, int]) -> FetchedBatches | None:
        """Return batches, the first of which contains `offset`. Return None if they have to be read from disk first.
        Raise NativeError.

        limits: (bytes, records).
        """
        if self._under_way:
            return None
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == offset:
            if isinstance(ahead[1], NativeError):
                raise ahead[1]
            return ahead[1]
        fetched = self._dependencies.log.fetch(self._partition, offset, limits, self._committed, False)
        if fetched is None:
            self._under_way = True
            self._run(self._from_disk(offset, limits))
        return fetched

    async def _from_disk(self, offset: int, limits: tuple[int, int]) -> None:
        fetch = self._dependencies.log.fetch
        try:
            fetched = await self._dependencies.loop.run_in_executor(
                None, fetch, self._partition, offset, limits, self._committed, True
            )
            assert fetched is not None
            self._ahead = offset, fetched
        except NativeError as problem:
            self._ahead = offset, problem
        finally:
            self._under_way = False
        self._on_read()
