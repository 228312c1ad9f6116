"""Appends records to the open batch of their partition, or to a new batch."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, NamedTuple

from pybroker.client.config import ClientConfig
from pybroker.client.offset_types import Moment, milliseconds
from pybroker.client.producer.accumulator import Batch, PartitionQueue, TopicQueues
from pybroker.client.producer.batch_sender import BatchSender
from pybroker.client.producer.delivery import Delivery
from pybroker.client.producer_records import HeaderList
from pybroker.native import ClientBatch, append_partitioned

_LEVELS = {"gzip": "compression.gzip.level", "lz4": "compression.lz4.level", "zstd": "compression.zstd.level"}


class AppendedValues(NamedTuple):
    """The values from index `first` on that were appended to a batch. `end` is the index of the first input value that
    was not appended. moment: the timestamp of the values, milliseconds since 1970.
    """

    batch: Batch
    first: int
    end: int
    moment: int


def _moment(timestamp_ms: Moment | None) -> int:
    return time.time_ns() // 1_000_000 if timestamp_ms is None else milliseconds(timestamp_ms)


class Appender:
    """Fills batches for a sender."""

    def __init__(self, config: ClientConfig, sender: BatchSender) -> None:
        self._sender = sender
        self.outcomes = sender.outcomes
        self._compression: str = config["compression.type"]
        level = config[_LEVELS[self._compression]] if self._compression in _LEVELS else None
        self._level = None if level in (None, -1) else level
        self._batch_bytes: int = max(1, config["batch.size"])
        self._linger_s = config.seconds("linger.ms")
        self._delivery_s = config.seconds("delivery.timeout.ms")
        self._block_s = config.seconds("max.block.ms")
        self._buffer_bytes: int = config["buffer.memory"]

    def has_room(self, size: int) -> bool:
        """Return whether `size` more bytes fit into `buffer.memory`. Thread-safe."""
        return self.outcomes.buffered + size <= self._buffer_bytes

    async def wait_for_room(self, size: int) -> None:
        """Wait until `size` bytes fit. Raises KafkaTimeoutError if they do not fit within `max.block.ms`."""
        try:
            async with asyncio.timeout(self._block_s):
                await self._sender.room(self._buffer_bytes, size)
        except TimeoutError:
            limit = f"max.block.ms={self._block_s * 1000:.0f}"
            raise self._sender.overdue(f"buffer.memory={self._buffer_bytes} was full for {limit}") from None

    def append(
        self,
        where: PartitionQueue,
        value: bytes | None,
        key: bytes | None,
        size: int,
        timestamp_ms: Moment | None = None,
        *,
        headers: HeaderList | None = None,
    ) -> Delivery:
        """Append a record. size: its bytes, counted in `buffer.memory`."""
        moment = time.time_ns() // 1_000_000 if timestamp_ms is None else milliseconds(timestamp_ms)
        queue = where.queue
        batch = queue[-1] if queue else None
        if batch is None or batch.closed or not batch.data.append(moment, key, value, headers):
            if batch is not None and not batch.closed:
                self._close(where.topic, batch)
            batch = self._new_batch(where)
            try:
                batch.data.append(moment, key, value, headers)
            except BaseException:
                queue.remove(batch)  # Drop the batch: an empty batch would never be sent.
                raise
        batch.bytes += size
        self.outcomes.buffered += size
        return Delivery(batch, len(batch.data) - 1, moment)

    def append_values(
        self, where: PartitionQueue, values: list[Any], done: int, timestamp_ms: Moment | None = None
    ) -> AppendedValues:
        """Append values from index `done` on, until the batch is full. Raises TypeError if a value is not bytes; the
        values before it have then been appended.
        """
        moment = _moment(timestamp_ms)
        batch = self._open_batch(where)
        size, first = batch.data.size_bytes, len(batch.data)
        try:
            end = batch.data.append_many(values, done, moment)
        finally:
            self._account(where, batch, size)
        if end < len(values):
            self._close(where.topic, batch)
        return AppendedValues(batch, first, end, moment)

    def append_keyed(self, queues: TopicQueues, rows: list[Any], done: int, timestamp_ms: Moment | None) -> int:
        """Append rows (key, value), or values, to their keys' partitions until a batch is full. Return the index of the
        first row that was not appended.
        """
        moment = _moment(timestamp_ms)
        batches = [self._open_batch(where) for where in queues.partitions]
        sizes = [batch.data.size_bytes for batch in batches]
        try:
            done, full = append_partitioned([batch.data for batch in batches], rows, done, moment, queues.sticky)
        finally:
            for where, batch, size in zip(queues.partitions, batches, sizes, strict=True):
                self._account(where, batch, size)
        if full >= 0:
            self._close(queues, batches[full])
        return done

    def _account(self, where: PartitionQueue, batch: Batch, before: int) -> None:
        added = batch.data.size_bytes - before
        batch.bytes += added
        self.outcomes.buffered += added
        if not len(batch.data):
            where.queue.remove(batch)

    def _open_batch(self, where: PartitionQueue) -> Batch:
        if where.queue and not where.queue[-1].closed:
            return where.queue[-1]
        return self._new_batch(where)

    def _new_batch(self, where: PartitionQueue) -> Batch:
        now = self._sender.loop.time()
        batch = Batch(
            ClientBatch(self._compression, self._batch_bytes, self._level),
            where.where,
            where.topic.topic_id,
            linger_end=now + self._linger_s,
            deadline=now + self._delivery_s,
            wake=self._sender.wake,
        )
        self._sender.has_work(where)
        where.queue.append(batch)
        return batch

    def _close(self, queues: TopicQueues, batch: Batch) -> None:
        """Close a batch. Records without a key go to another partition after that (KIP-480)."""
        batch.closed = True
        count = len(queues.partitions)
        if count > 1 and batch.partition == queues.sticky:
            queues.sticky = (queues.sticky + random.randrange(1, count)) % count
        self._sender.wake()
