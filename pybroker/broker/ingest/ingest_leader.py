"""Staged ingests on the leader of their partitions: staging, sealing, linking, removing.

The leader knows the files on its disks and follows orders; the controller decides commits. All calls raise
KafkaError unless they say otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.ingest_records import IngestKey, IngestRecord
from pybroker.errors import KafkaError
from pybroker.native import (
    AttachedPartition,
    IngestPreparation,
    IsrProposal,
    ListedAttempt,
    NativeError,
    NativeIngests,
    Uuid,
)
from pybroker.protocol.error_codes import ErrorCode

PAUSE_S = 0.01
PAUSE_MAX_S = 0.25
"""Poll interval while the other replicas link their segments."""
THREADS = 4
"""Limit of concurrent links and seals. Each waits for the disk; concurrent syncs share the file system's commits."""

OWN: Any = object()

T = TypeVar("T")


class StagedIngest(NamedTuple):
    """The staged records of an open ingest."""

    touched_ms: int
    """Time of the last append."""
    writers: int
    partitions: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition. They include all attempts."""


class AttachedHere(NamedTuple):
    """The result of linking a commit in the partitions that this broker leads."""

    offsets: Mapping[int, tuple[int, int]]
    """Base and end offset of each partition that has the records."""
    missing: Sequence[int]
    """Partitions without staged files on this broker."""
    problem: BaseException | None
    """The first error of a partition that is in neither `offsets` nor `missing`."""


class IngestLeader:
    """The native ingests of this broker. Create it after the log directories have been opened."""

    def __init__(self, native: NativeIngests) -> None:
        self._native = native
        self._executor = ThreadPoolExecutor(THREADS, "ingest")

    async def stop(self) -> None:
        """Wait for running calls."""
        await asyncio.get_running_loop().run_in_executor(None, self._executor.shutdown)

    async def collect(self, kept: Iterable[IngestRecord]) -> int:
        """Remove the files of all ingests except `kept`. Return how many were removed."""
        return await self._call(self._native.collect, [(record.topic_id, record.directory) for record in kept])

    async def open(self, record: IngestRecord) -> None:
        """Accept appends. Drop an older epoch and its staged files. The call does not wait for the disk writes of a
        running commit.
        """
        arguments = record.key, record.directory, record.epoch, dict(record.config)
        await self._call(self._native.open, *arguments, executor=None)

    async def prepare(
        self, key: IngestKey, epoch: int, preparation: IngestPreparation, listed: Sequence[ListedAttempt]
    ) -> dict[int, tuple[int, int]]:
        """Prepare a commit: check the list against the staged files, sync them, and refuse further appends.

        Return rows and bytes by partition.
        """
        prepared = await self._call(self._native.prepare, key, epoch, preparation, list(listed))
        return {partition.partition: (partition.rows, partition.bytes) for partition in prepared}

    def reopen(self, key: IngestKey, epoch: int) -> None:
        """Accept appends again if a commit was not decided. Does not fail."""
        self._native.reopen(key, epoch)

    async def attach(
        self, record: IngestRecord, partitions: Sequence[int]
    ) -> AttachedHere:
        """Link the records of a decided commit to these partitions, on every in-sync replica. If the call is repeated,
        records are linked only once.
        """
        offsets: dict[int, tuple[int, int]] = {}
        missing: list[int] = []
        problem = None
        # Wait for all partitions even if one fails.
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
        """Copy the staged files of a partition to the brokers that are about to join the ISR."""
        await self._call(self._native.bring, topic_id, partition, list(brokers))

    async def expire(self, record: IngestRecord, before_ms: int) -> bool:
        """Refuse further appends, unless there was an append since `before_ms`. Return whether appends are refused now.
        """
        return await self._call(self._native.expire, record.key, record.epoch, before_ms)

    async def drop(self, record: IngestRecord) -> None:
        """Forget an ingest and remove its files."""
        await self._call(self._native.drop, record.key, record.directory)

    def staged(self) -> dict[IngestKey, StagedIngest]:
        """Return the staged records of the open ingests. Does not fail."""
        return {
            ingest.key: StagedIngest(
                ingest.touched_ms,
                ingest.writers,
                {part.partition: (part.rows, part.bytes) for part in ingest.partitions},
            )
            for ingest in self._native.list()
        }

    async def _call(self, function: Callable[..., T], *arguments: Any, executor: Any = OWN) -> T:
        """Run a blocking native call on the small thread pool for such calls, or on another executor."""
        chosen = self._executor if executor is OWN else executor
        try:
            return await asyncio.get_running_loop().run_in_executor(chosen, function, *arguments)
        except NativeError as error:
            raise KafkaError(error.code, error.message) from None


class Joining:
    """Copies staged files to joining replicas, on the partition's leader."""

    def __init__(self, leader: IngestLeader, view: ClusterView) -> None:
        self._leader = leader
        self._view = view

    def bring(self, proposal: IsrProposal) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine that copies the staged files; None if there are no files to copy. The coroutine must
        finish before the leader proposes the ISR change. It raises KafkaError if it fails.
        """
        image = self._view.image
        topic = image.topic_by_id(proposal.topic_id)
        if topic is None or not any(key[0] == proposal.topic_id for key in image.ingests):
            return None
        known = topic.partitions[proposal.partition].isr if proposal.partition < len(topic.partitions) else ()
        joins = [member.broker_id for member in proposal.isr if member.broker_id not in known]
        return self._leader.bring(proposal.topic_id, proposal.partition, joins) if joins else None
