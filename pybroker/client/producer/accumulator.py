"""The producer's buffer: for each partition, batches that are open, unsent, in flight, or waiting for a retry."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pybroker.client.cluster_metadata import TopicPartition
from pybroker.native import ClientBatch, Uuid

RECORD_BYTES = 96
"""Approximate memory overhead of a buffered record, in bytes."""


class Batch:
    """Records of one partition that are sent and acknowledged together.

    topic_id: the incarnation that the records are for. deadline: loop time at which the records fail. producer: (id,
    epoch) of the first attempt, with sequence; None before the first attempt. done: (base offset, append time or -1),
    or the error. observed: indexes of the records whose caller reads the result. awaited: whether a caller waits for
    the batch. trouble: error of the last attempt. halves: the two batches into which this batch was split.
    """

    __slots__ = (
        "_wake",
        "attempts",
        "awaited",
        "bytes",
        "closed",
        "data",
        "deadline",
        "done",
        "halves",
        "linger_end",
        "observed",
        "partition",
        "producer",
        "sequence",
        "topic",
        "topic_id",
        "trouble",
        "wire",
    )

    def __init__(
        self,
        data: ClientBatch,
        where: TopicPartition,
        topic_id: Uuid,
        *,
        linger_end: float,
        deadline: float,
        wake: Callable[[], None],
    ) -> None:
        self.data = data
        self.topic = where.topic
        self.topic_id = topic_id
        self.partition = where.partition
        self.linger_end = linger_end
        self.deadline = deadline
        self.closed = False
        self.attempts = 0
        self.bytes = 0
        self.producer: tuple[int, int] | None = None
        self.sequence = -1
        self.wire: bytes | None = None
        self.observed: set[int] = set()
        self.awaited = False
        self.trouble: Exception | None = None
        self._wake = wake
        self.halves: tuple[Batch, Batch] | None = None
        self.done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()

    def __len__(self) -> int:
        return len(self.data)

    @property
    def is_observed(self) -> bool:
        """Whether every record has a caller that reads the result. If not, `flush` raises the failure of the batch."""
        return len(self.observed) >= len(self)

    def wait_for(self, index: int) -> asyncio.Future[tuple[int, int]]:
        """Return the future of the result. The batch no longer lingers, because a caller waits."""
        self.observed.add(index)
        if not self.awaited:
            self.awaited = True
            if not self.closed:
                self._wake()
        return self.done

    def find(self, index: int) -> tuple[Batch, int]:
        """Return the batch that contains the record after splits, and the record's index in it."""
        batch = self
        while batch.halves is not None:
            first, second = batch.halves
            batch, index = (first, index) if index < len(first) else (second, index - len(first))
        return batch, index

    def split(self) -> tuple[Batch, Batch]:
        """Split into two batches with half of the records each. A caller that waits for this batch then waits for the
        second half.
        """
        made = []
        for data in self.data.split():
            where = TopicPartition(self.topic, self.partition)
            half = Batch(
                data, where, self.topic_id, linger_end=self.linger_end, deadline=self.deadline, wake=self._wake
            )
            half.closed, half.producer, half.trouble = True, self.producer, self.trouble
            made.append(half)
        self.halves = (made[0], made[1])
        for index in self.observed:
            batch, place = self.find(index)
            batch.observed.add(place)
        made[0].bytes = self.bytes // 2
        made[1].bytes = self.bytes - made[0].bytes
        made[0].sequence = self.sequence
        made[1].sequence = next_sequence(self.sequence, len(made[0])) if self.sequence >= 0 else -1
        return made[0], made[1]


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence `count` records later; sequences wrap from 2**31-1 to 0."""
    return (sequence + count) & 0x7FFFFFFF


class PartitionQueue:
    """Batches of one partition of one incarnation of a topic, oldest first.

    queue: batches that were not sent; the last batch may be open. in_flight: batches that were sent but have no
    response yet. retries: batches to send again, by sequence; no other batch is sent before them. reset: whether the
    sequence has a gap; when no batch is in flight, the remaining batches restart under a new producer epoch. known_as:
    the producer (id, epoch) under which the leader last acknowledged a batch.
    """

    __slots__ = (
        "in_flight",
        "known_as",
        "next_sequence",
        "not_before",
        "producer",
        "queue",
        "reset",
        "retries",
        "topic",
        "where",
    )

    def __init__(self, topic: TopicQueues, partition: int) -> None:
        self.topic = topic
        self.where = TopicPartition(topic.name, partition)
        self.queue: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.retries: list[Batch] = []
        self.producer: tuple[int, int] | None = None
        self.known_as: tuple[int, int] | None = None
        self.next_sequence = 0
        self.not_before = 0.0
        self.reset = False

    @property
    def is_empty(self) -> bool:
        """Whether there are no batches: none queued, none in flight and none to be retried."""
        return not (self.queue or self.in_flight or self.retries)

    def unsent(self) -> list[Batch]:
        """Return the batches that can be sent, in order."""
        return [*self.retries, *self.queue]

    def retry(self, batch: Batch) -> None:
        """Return a batch that was in flight to its position among the batches to retry."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        self.retries.append(batch)
        if batch.sequence >= 0:
            self.sort_retries()

    def sort_retries(self) -> None:
        """Sort retries by sequence, oldest first. `next_sequence` is later than all their sequences, even after a wrap.
        """
        self.retries.sort(key=lambda each: next_sequence(each.sequence, -self.next_sequence))

    def number(self, batch: Batch, producer: tuple[int, int]) -> bool:
        """Give a batch its sequence. Return False if the batch must wait for batches that are in flight under an older
        epoch.
        """
        if self.reset:
            if self.in_flight:
                return False
            self._restart(producer)
        if batch.producer is not None:
            return True
        if self.producer != producer:
            if self.in_flight or self.retries:
                return False
            self._restart(producer)
        batch.producer, batch.sequence = producer, self.next_sequence
        self.next_sequence = next_sequence(self.next_sequence, len(batch))
        return True

    def _restart(self, producer: tuple[int, int]) -> None:
        self.reset = False
        self.producer = producer
        self.next_sequence = 0
        for batch in self.retries:
            batch.producer, batch.sequence, batch.wire = producer, self.next_sequence, None
            self.next_sequence = next_sequence(self.next_sequence, len(batch))


class TopicQueues:
    """The partitions of one incarnation of a topic."""

    __slots__ = ("name", "partitions", "sticky", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, count: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [PartitionQueue(self, index) for index in range(count)]
        self.sticky = 0

    def grow(self, count: int) -> None:
        """Add queues for the topic's new partitions."""
        self.partitions += [PartitionQueue(self, index) for index in range(len(self.partitions), count)]
