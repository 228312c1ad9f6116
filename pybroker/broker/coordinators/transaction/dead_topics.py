"""Transactions with deleted topics: a topic is deleted while the transaction is open, and undeleted after its end.

A transaction does not wait for a deleted topic. If another topic has the name now, the coordinator writes no marker to
it. The deletion record stores the transaction's outcome instead. After an undelete, each partition leader writes the
missing markers before the topic becomes visible. Therefore readers do not wait for a transaction that ended long ago,
and later records of the producer do not become part of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient, submit_until_accepted
from pybroker.broker.cluster.events import KeepOutcome, OutcomesWritten
from pybroker.broker.coordinators.transaction.interfaces import Marker
from pybroker.broker.coordinators.transaction.markers import LocalMarkers
from pybroker.broker.coordinators.transaction.transaction import VERSION_2, TransactionPartition
from pybroker.broker.metadata.control_messages import LeaderAndIsrRequest
from pybroker.broker.metadata.deletion_records import LIVE, DeletionRecord, TransactionOutcome
from pybroker.broker.metadata.image import TopicImage
from pybroker.errors import KafkaError
from pybroker.native import ActiveProducer, NativeError, PartitionOffsets, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 0.1
RETRY_S_MAX = 5.0
"""Longest delay between attempts, in seconds. Each delay is twice the previous delay."""


class KeptOutcomes:
    """Implements `ports.DeadTopics`: the controller stores the outcomes in the deletion record."""

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller

    async def keep(self, marker: Marker, parts: Sequence[TransactionPartition]) -> frozenset[Uuid]:
        """See `ports.DeadTopics.keep`."""
        answer = await self._controller.submit(
            KeepOutcome(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.committed,
                marker.version,
                tuple((part.topic_id, part.partition) for part in parts),
            )
        )
        return frozenset(answer.reply)


class MarkerPartitions(Protocol):
    """The partitions that this broker hosts (`NativePartitions`)."""

    def producers(self, topic_id: Uuid, partition: int) -> list[ActiveProducer]:
        """Return the producers with state in the log. Raise NativeError if this broker does not lead the partition."""
        ...

    def offsets(self, topic_id: Uuid, partition: int) -> PartitionOffsets | None:
        """Return the partition's offsets; None if this broker does not host it."""
        ...


class _MarkerWrite(msgspec.Struct, frozen=True):
    """Markers that were written to one partition after its undelete."""

    part: TransactionPartition
    until: int
    """Once the high watermark has reached this offset, all markers are committed."""
    markers: Sequence[asyncio.Future[list[ErrorCode]]]


class OwedMarkers:
    """Writes missing markers to partitions of undeleted topics that this broker leads."""

    def __init__(
        self,
        broker_id: int,
        view: ClusterView,
        controller: ControllerClient,
        partitions: MarkerPartitions,
        markers: LocalMarkers,
    ) -> None:
        self._broker_id = broker_id
        self._view = view
        self._controller = controller
        self._partitions = partitions
        self._markers = markers
        self._tasks: set[asyncio.Task[None]] = set()

    def led(self, request: LeaderAndIsrRequest) -> None:
        """Write the missing markers after a LeaderAndIsr request, before its partitions become visible.

        The markers are in the logs when this method returns; a task waits until they are committed.
        """
        owing = self._owing()
        for state in request.topic_states if owing else ():
            record = owing.get(state.topic_name)
            if record is not None:
                mine = [row.partition_index for row in state.partition_states if row.leader == self._broker_id]
                self._begin(state.topic_name, record, mine)

    async def stop(self) -> None:
        """Stop waiting for commits. The next leaders of the partitions check them again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _owing(self) -> Mapping[str, DeletionRecord]:
        image = self._view.image
        found = {}
        for record in image.deletions.values():
            topic: TopicImage | None = image.topic_by_id(record.topic_id) if record.outcomes else None
            if topic is not None and record.state == LIVE:
                found[topic.name] = record
        return found

    def _begin(self, name: str, record: DeletionRecord, indexes: Sequence[int]) -> None:
        started = []
        for index in indexes:
            outcomes = [outcome for outcome in record.outcomes if index in outcome.partitions]
            if outcomes:
                write = self._write(TransactionPartition(name, record.topic_id, index), outcomes, record.end(index)[1])
                if write is not None:
                    started.append(write)
        if started:
            task = asyncio.create_task(self._settle(record.topic_id, started))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _write(
        self, part: TransactionPartition, outcomes: Sequence[TransactionOutcome], end: int
    ) -> _MarkerWrite | None:
        """Write the missing markers of a partition. Return None if this broker does not lead the partition.

        `end`: the log end offset at the deletion; -1: not known.
        """
        try:
            found = self._partitions.producers(part.topic_id, part.partition)
            producers = {producer.producer_id: producer for producer in found}
        except NativeError:
            return None
        begun = []
        for outcome in outcomes:
            known = producers.get(outcome.producer_id)
            # If the open transaction began after the deletion, it is another transaction, and an earlier leader has
            # already written the missing marker.
            if (
                known is not None
                and known.producer_epoch <= outcome.producer_epoch - (outcome.version >= VERSION_2)
                and known.transaction_start >= 0
                and (end < 0 or known.transaction_start < end)
            ):
                # Use the highest coordinator epoch. It was checked when the coordinator recorded the outcome, but the
                # coordinator may have changed since.
                epoch = max(outcome.coordinator_epoch, known.coordinator_epoch)
                marker = Marker(outcome.producer_id, outcome.producer_epoch, outcome.committed, epoch, outcome.version)
                begun.append(asyncio.ensure_future(self._markers.begin(marker, [part])))
        offsets = self._partitions.offsets(part.topic_id, part.partition)
        return _MarkerWrite(part, -1 if offsets is None else offsets.log_end_offset, begun)

    async def _settle(self, topic_id: Uuid, started: Sequence[_MarkerWrite]) -> None:
        """Report partitions to the controller when their markers are committed.

        Retry failed writes as long as this broker leads the partition.
        """
        wait_s = RETRY_S
        left = list(started)
        while left:
            done = [write for write in left if await self._is_committed(write)]
            if done:
                left = [write for write in left if write not in done]
                await self._notify(topic_id, [write.part.partition for write in done])
            if left:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S_MAX)
                left = [again for write in left if (again := self._again(write)) is not None]

    def _again(self, write: _MarkerWrite) -> _MarkerWrite | None:
        record = self._view.image.deletions.get(write.part.topic_id)
        if record is None or record.state != LIVE:
            return None
        outcomes = [outcome for outcome in record.outcomes if write.part.partition in outcome.partitions]
        return self._write(write.part, outcomes, record.end(write.part.partition)[1]) if outcomes else None

    async def _is_committed(self, write: _MarkerWrite) -> bool:
        for marker in write.markers:
            (code,) = await marker
            if code is not ErrorCode.NONE:
                log.info(
                    "retrying to write a transaction marker to %s-%d: %s", write.part.topic, write.part.partition, code
                )
        if write.markers:
            # Read from the log whether the marker has been written.
            return False
        offsets = self._partitions.offsets(write.part.topic_id, write.part.partition)
        return offsets is not None and offsets.high_watermark >= write.until

    async def _notify(self, topic_id: Uuid, indexes: Sequence[int]) -> None:
        def retrying(error: KafkaError) -> None:
            log.info("retrying notification that the transactions of a topic have ended id=%s: %s", topic_id, error)

        event = OutcomesWritten(topic_id, tuple(indexes))
        await submit_until_accepted(self._controller, event, RETRY_S_MAX, retrying)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("ending transactions of an undeleted topic failed: this is a bug", exc_info=task.exception())
