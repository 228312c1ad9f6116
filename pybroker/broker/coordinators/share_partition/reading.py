"""Batches of one share partition, never read from disk on the loop.

What is in the page cache is had at once. Else a thread of the executor reads it, and the next who asks at that offset
is given what it has read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pybroker.broker.coordinators.share_partition.ports import Log
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.native import FetchedBatches, NativeError


class Around(Protocol):
    """What is asked."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Whose executor reads from disk."""
        ...

    @property
    def log(self) -> Log:
        """Where partitions stand."""
        ...


class Reading:
    """See the module. `read`: told when a read from disk is over. `run`: runs one."""

    def __init__(
        self,
        around: Around,
        key: Key,
        committed: bool,
        read: Callable[[], None],
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._around = around
        self._partition = key.topic_id, key.partition
        self._committed = committed
        self._told = read
        self._run = run
        self._under_way = False
        self._ahead: tuple[int, FetchedBatches | NativeError] | None = None
        """What was read from disk at which offset, for who asks next."""

    def fetch(self, offset: int, limits: tuple[int, int]) -> FetchedBatches | None:
        """From the batch with `offset` on, with limits (bytes, records). None: it is being read. NativeError."""
        if self._under_way:
            return None
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == offset:
            if isinstance(ahead[1], NativeError):
                raise ahead[1]
            return ahead[1]
        fetched = self._around.log.fetch(self._partition, offset, limits, self._committed, False)
        if fetched is None:
            self._under_way = True
            self._run(self._from_disk(offset, limits))
        return fetched

    async def _from_disk(self, offset: int, limits: tuple[int, int]) -> None:
        fetch = self._around.log.fetch
        try:
            fetched = await self._around.loop.run_in_executor(
                None, fetch, self._partition, offset, limits, self._committed, True
            )
            assert fetched is not None
            self._ahead = offset, fetched
        except NativeError as problem:
            self._ahead = offset, problem
        finally:
            self._under_way = False
        self._told()
