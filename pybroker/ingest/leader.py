"""Staged ingests on the broker that leads their partitions: staging, sealing, attaching, removing.

It does what it is told, knows what lies on its disks and decides nothing: what is committed is the controller's word.
All calls but those that say otherwise raise KafkaError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from pybroker.errors import KafkaError
from pybroker.metadata.ingest_records import IngestKey, IngestRecord
from pybroker.native import ListedAttempt, NativeError, NativeIngests

THREADS = 4
"""Attaches and seals at a time: each waits for the disk, and syncs of several share its commits."""

T = TypeVar("T")


class StagedIngest(NamedTuple):
    """What an open ingest has staged."""

    touched_ms: int
    """When it took something last."""
    writers: int
    partitions: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition, every attempt counted."""


class IngestLeader:
    """See the module. Its calls are for when the log directories are there."""

    def __init__(self, native: NativeIngests) -> None:
        self._native = native
        self._executor = ThreadPoolExecutor(THREADS, "ingest")

    async def stop(self) -> None:
        """Waits for the calls under way."""
        await asyncio.get_running_loop().run_in_executor(None, self._executor.shutdown)

    async def collect(self, kept: Iterable[IngestRecord]) -> int:
        """Removes the files of all ingests but these; how many there were."""
        return await self._call(self._native.collect, [(record.topic_id, record.directory) for record in kept])

    async def open(self, record: IngestRecord) -> None:
        """Takes appends from now on; drops an older epoch with what it staged."""
        await self._call(self._native.open, record.key, record.directory, record.epoch, dict(record.config))

    async def prepare(self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt]) -> dict[int, tuple[int, int]]:
        """Before the decision: what is listed is what is staged, it is on disk, and nothing more is taken. Gives rows
        and bytes by partition."""
        prepared = await self._call(self._native.prepare, key, epoch, list(listed))
        return {one.partition: (one.rows, one.bytes) for one in prepared}

    def reopen(self, key: IngestKey, epoch: int) -> None:
        """The commit was not decided: takes appends again. Does not fail."""
        self._native.reopen(key, epoch)

    async def attach(self, record: IngestRecord) -> dict[int, tuple[int, int]]:
        """After the decision: every partition gets its records, once, however often this is called. Gives base and end
        offset by partition."""
        attaching = [
            self._call(self._native.attach, record.topic_id, index, record.directory, record.append_time)
            for index in record.partitions
        ]
        offsets: dict[int, tuple[int, int]] = {}
        # All of them come to their end, also when one fails.
        results = await asyncio.gather(*attaching, return_exceptions=True)
        for index, result in zip(record.partitions, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            offsets[index] = (result.base_offset, result.end_offset)
        return offsets

    async def expire(self, record: IngestRecord, before_ms: int) -> bool:
        """Takes nothing any more if it took nothing since `before_ms`; whether that is so."""
        return await self._call(self._native.expire, record.key, record.epoch, before_ms)

    async def drop(self, record: IngestRecord) -> None:
        """Forgets it and removes its files."""
        await self._call(self._native.drop, record.key, record.directory)

    def staged(self) -> dict[IngestKey, StagedIngest]:
        """What the open ones have staged. Does not fail."""
        return {
            one.key: StagedIngest(
                one.touched_ms, one.writers, {part.partition: (part.rows, part.bytes) for part in one.partitions}
            )
            for one in self._native.list()
        }

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        """A blocking native call."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        except NativeError as error:
            raise KafkaError(error.code, error.message) from None
