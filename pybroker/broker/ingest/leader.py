"""Staged ingests on the broker that leads their partitions: staging, sealing, attaching, removing.

It does what it is told, knows what lies on its disks and decides nothing: what is committed is the controller's word.
All calls but those that say otherwise raise KafkaError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from pybroker.broker.metadata.ingest_records import IngestKey, IngestRecord
from pybroker.errors import KafkaError
from pybroker.native import AttachedPartition, IngestPreparation, ListedAttempt, NativeError, NativeIngests, Uuid
from pybroker.protocol.error_codes import ErrorCode

PAUSE_S = 0.01
PAUSE_MAX_S = 0.25
"""Between two looks whether the other replicas have attached, too."""
THREADS = 4
"""Attaches and seals at a time: each waits for the disk, and syncs of several share its commits."""

OWN: Any = object()

T = TypeVar("T")


class StagedIngest(NamedTuple):
    """What an open ingest has staged."""

    touched_ms: int
    """When it took something last."""
    writers: int
    partitions: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition, every attempt counted."""


class AttachedHere(NamedTuple):
    """What has become of the partitions of a commit that this broker leads."""

    offsets: Mapping[int, tuple[int, int]]
    """Base and end offset of those that have the records."""
    missing: Sequence[int]
    """Those of which nothing is staged here."""
    problem: BaseException | None
    """Why another one has them not yet."""


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
        """Takes appends from now on; drops an older epoch with what it staged. It waits for no commit's disk."""
        arguments = record.key, record.directory, record.epoch, dict(record.config)
        await self._call(self._native.open, *arguments, executor=None)

    async def prepare(
        self, key: IngestKey, epoch: int, preparation: IngestPreparation, listed: Sequence[ListedAttempt]
    ) -> dict[int, tuple[int, int]]:
        """Before the decision: what is listed is what is staged, it is on disk, and nothing more is taken. Gives rows
        and bytes by partition."""
        prepared = await self._call(self._native.prepare, key, epoch, preparation, list(listed))
        return {one.partition: (one.rows, one.bytes) for one in prepared}

    def reopen(self, key: IngestKey, epoch: int) -> None:
        """The commit was not decided: takes appends again. Does not fail."""
        self._native.reopen(key, epoch)

    async def attach(
        self, record: IngestRecord, partitions: Sequence[int]
    ) -> AttachedHere:
        """After the decision: these partitions get their records, once, however often this is called, on every replica
        in sync."""
        offsets: dict[int, tuple[int, int]] = {}
        missing: list[int] = []
        problem = None
        # All of them come to their end, also when one fails.
        attaching = [self._attach_one(record, index) for index in partitions]
        results = await asyncio.gather(*attaching, return_exceptions=True)
        for index, result in zip(partitions, results, strict=True):
            if isinstance(result, KafkaError) and result.code == ErrorCode.LOG_DIR_NOT_FOUND:
                missing.append(index)
            elif isinstance(result, BaseException):
                problem = problem or result
            else:
                offsets[index] = (result.base_offset, result.end_offset)
        return AttachedHere(offsets, missing, problem)

    async def _attach_one(self, record: IngestRecord, index: int) -> AttachedPartition:
        arguments = record.topic_id, index, record.directory, record.plan, record.append_time
        pause = PAUSE_S
        while not (attached := await self._call(self._native.attach, *arguments)).committed:
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)
        return attached

    async def bring(self, topic_id: Uuid, partition: int, brokers: Sequence[int]) -> None:
        """Brings what is staged for a partition to brokers that are about to come into sync."""
        await self._call(self._native.bring, topic_id, partition, list(brokers))

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

    async def _call(self, function: Callable[..., T], *arguments: Any, executor: Any = OWN) -> T:
        """A blocking native call, among the few of this kind at a time unless another executor is named."""
        chosen = self._executor if executor is OWN else executor
        try:
            return await asyncio.get_running_loop().run_in_executor(chosen, function, *arguments)
        except NativeError as error:
            raise KafkaError(error.code, error.message) from None
