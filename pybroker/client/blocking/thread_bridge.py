"""The bridge from callers' threads into a producer's batches.

A thread switch costs more than a record. Callers therefore append records to a queue, and the loop takes many records
at once from the queue. The loop repeats this every millisecond while records arrive.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from pybroker.client.blocking.event_loop import run
from pybroker.client.connection.close_timeout import CloseTimeout
from pybroker.client.offset_types import Moment
from pybroker.client.producer import delivery
from pybroker.client.producer.accumulator import RECORD_BYTES, Batch
from pybroker.client.producer.async_producer import Producer
from pybroker.client.producer.delivery import OnDelivery
from pybroker.client.producer.transactional_producer import TransactionalProducer
from pybroker.client.producer_records import Headers, ProducerRecord, RecordMetadata

log = logging.getLogger(__name__)

_PAUSE_S = 0.001
_RECORDS_AT_ONCE = 1_000
_TURN_S = 0.05
"""Limit in seconds of one turn of the bridge. The loop reads responses between turns, even if callers append records
faster than the loop takes them."""


class Extras(NamedTuple):
    """The fields of a record besides topic and value."""

    key: Any
    partition: int | None
    timestamp_ms: Moment | None
    headers: Headers | None
    on_delivery: OnDelivery | None


NO_EXTRAS = Extras(None, None, None, None, None)


class Delivery:
    """A record that a caller has handed over. The bridge sets its attributes."""

    __slots__ = ("_feed", "batch", "error", "extras", "index", "timestamp", "topic", "value")

    def __init__(self, feed: ThreadBridge, topic: str | ProducerRecord, value: Any, extras: Extras | None) -> None:
        self._feed = feed
        self.topic = topic
        self.value = value
        self.extras = extras
        # The position in a batch once the record is in a batch, or the error.
        self.batch: Batch | None = None
        self.error: Exception | None = None
        self.index = 0
        self.timestamp = 0

    def placed(self, where: delivery.Delivery) -> None:
        """Record the position in a batch."""
        self.batch, self.index, self.timestamp = where.batch, where.index, where.timestamp
        self.value = None

    def done(self) -> bool:
        """Return whether the record was sent or failed."""
        if self.batch is None:
            return self.error is not None
        return delivery.Delivery(self.batch, self.index, self.timestamp).done()

    def result(self) -> RecordMetadata:
        """Wait for the broker's acknowledgement and return the record's metadata. Raises the error of the record."""
        return run(self._feed.outcome(self))


class ThreadBridge:
    """The queue of one producer. Callers' threads use `takes` and `put`; all other methods run on the loop."""

    def __init__(self, producer: Producer, loop: asyncio.AbstractEventLoop) -> None:
        self._producer = producer
        self._loop = loop
        self._queued: deque[Delivery] = deque()
        # Updated without a lock: concurrent callers can lose an update of the sum. Each turn of the loop corrects it.
        self._queued_bytes = 0
        self._turns = False
        self._starting = threading.Lock()
        # Records that have to wait, and all records queued after them, in order.
        self._slow: deque[Delivery] = deque()
        self._slow_bytes = 0
        self._slowly: asyncio.Task[None] | None = None
        self._unseen: list[tuple[Delivery, Exception]] = []

    # For callers --------------------------------------------------------------------------------------------

    def takes(self, topic: object, size: int) -> bool:
        """Return whether `put` accepts a record. If the result is False (the topic is unknown or the buffer is full),
        use `wait_for`.
        """
        return type(topic) is str and self._producer.takes(topic, size, self._queued_bytes)

    def put(self, record: Delivery, size: int) -> None:
        """Queue a record; the loop puts it into a batch within milliseconds."""
        self._queued_bytes += size
        self._queued.append(record)
        if not self._turns:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._turns:
                return
            self._turns = True
        self._loop.call_soon_threadsafe(self._turn)

    # For the loop -------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        end = self._loop.time() + _TURN_S
        took = self._take()
        while self._queued and self._loop.time() < end:
            self._take()
        if not took and not self._slow:
            self._turns = False
            if not self._queued:  # A caller may add a record between the check and the reset of the flag.
                return
            self._turns = True
        self._loop.call_later(0 if self._queued else _PAUSE_S, self._turn)

    def _take(self) -> bool:
        """Put some queued records into batches, in order. Return whether there were queued records."""
        queued = self._queued
        records = [queued.popleft() for _ in range(min(len(queued), _RECORDS_AT_ONCE))]
        if queued:
            self._queued_bytes -= sum(map(_size, records))
        else:
            self._queued_bytes = self._slow_bytes
        try:
            for topic, group in groupby(records, _topic_of_plain_value):
                self._put_in_batches(topic, list(group))
        except Exception as error:  # All waiting records fail with this error, of whatever type it is.
            log.exception("Cannot add records to batches")
            for record in records:
                if record.batch is None and record not in self._slow:
                    self._fail(record, error)
        return bool(records)

    def _put_in_batches(self, topic: str | None, rows: list[Delivery]) -> None:
        done = 0
        if topic is not None and not self._slow:
            for each in self._producer.place_values(topic, [record.value for record in rows]):
                batch, moment = each.batch, each.moment
                for index, record in enumerate(rows[done : each.end], each.first):
                    record.batch, record.index, record.timestamp, record.value = batch, index, moment, None
                done = each.end
        for record in rows[done:]:
            if self._slow or not self._place(record):
                self._wait(record)

    def _place(self, record: Delivery) -> bool:
        extras, topic = record.extras or NO_EXTRAS, record.topic
        if extras.headers or not self._producer.is_plain or not isinstance(topic, str):
            return False
        placed = self._producer.place(
            topic,
            record.value,
            extras.key,
            extras.partition,
            timestamp_ms=extras.timestamp_ms,
            size=_size(record),
            room_is_sure=True,
        )
        if placed is None:
            return False
        record.placed(placed)
        if extras.on_delivery is not None:
            placed.notify(extras.on_delivery)
        return True

    def _wait(self, record: Delivery) -> None:
        self._slow.append(record)
        self._slow_bytes += _size(record)
        if self._slowly is None:
            self._slowly = asyncio.create_task(self._take_slowly())

    async def _take_slowly(self) -> None:
        """Enqueue records that cannot be appended to a batch at once: their topic is unknown, or a serializer or
        interceptor must run.
        """
        try:
            while self._slow:
                record = self._slow[0]
                size = _size(record)
                try:
                    await self._enqueue(record)
                except Exception as error:
                    self._fail(record, error)
                self._slow.popleft()
                self._slow_bytes -= size
        finally:
            self._slowly = None

    async def _enqueue(self, record: Delivery) -> None:
        extras = record.extras or NO_EXTRAS
        record.placed(
            await self._producer.enqueue(
                record.topic,
                record.value,
                key=extras.key,
                partition=extras.partition,
                timestamp_ms=extras.timestamp_ms,
                headers=extras.headers,
                on_delivery=extras.on_delivery,
            )
        )

    def _fail(self, record: Delivery, error: Exception) -> None:
        record.error = error
        if record.extras is not None and record.extras.on_delivery is not None:
            record.extras.on_delivery(None, error)
        else:
            self._unseen.append((record, error))

    async def settled(self) -> None:
        """Wait until each record that callers have queued so far is in a batch or has failed."""
        left = len(self._queued)
        while left > 0 and self._take():
            left -= _RECORDS_AT_ONCE
            await asyncio.sleep(0)
        while self._slowly is not None:
            await asyncio.wait((self._slowly,))

    async def wait_for(self, record: Delivery) -> None:
        """Enqueue a record that `put` does not accept. Wait for the topic and for buffer space. Raises the reason for a
        failure.
        """
        await self.settled()
        await self._enqueue(record)

    async def outcome(self, record: Delivery) -> RecordMetadata:
        """Wait until the record is written, and return its metadata. Raises the record's error."""
        if record.batch is None and record.error is None:
            await self.settled()
        if record.error is not None:
            self._unseen = [each for each in self._unseen if each[0] is not record]
            raise record.error
        assert record.batch is not None, "settled"
        return await delivery.Delivery(record.batch, record.index, record.timestamp)

    def raise_unseen(self) -> None:
        """Raise the first failure that no caller has seen."""
        unseen, self._unseen = self._unseen, []
        if unseen:
            raise unseen[0][1]

    def forget_unseen(self) -> None:
        """Forget the failures of records that the caller has abandoned on purpose."""
        self._unseen.clear()

    async def stop(self, error: Exception) -> None:
        """Fail the records that are not in a batch yet."""
        if self._slowly is not None:
            self._slowly.cancel()
            await asyncio.gather(self._slowly, return_exceptions=True)
        left = [*self._slow, *self._queued]
        self._slow.clear()
        self._queued.clear()
        for record in left:
            self._fail(record, error)


def _topic_of_plain_value(record: Delivery) -> str | None:
    """Return the topic of a record that consists only of topic and bytes; None for other records. Such records can be
    batched together.
    """
    return record.topic if record.extras is None else None  # type: ignore[return-value]  # a ProducerRecord waits


def _size(record: Delivery) -> int:
    value, key = record.value, record.extras.key if record.extras is not None else None
    return RECORD_BYTES + sum(len(part) for part in (value, key) if isinstance(part, bytes | str))


class BridgedProducer(Producer):
    """A producer that callers' threads feed through a `ThreadBridge`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.feed = ThreadBridge(self, asyncio.get_running_loop())

    async def flush(self) -> None:
        await self.feed.settled()
        await super().flush()
        self.feed.raise_unseen()

    async def _before_end(self, patience: CloseTimeout) -> None:
        await patience.wait_for(self.feed.settled())

    async def _finish(self, patience: CloseTimeout) -> None:
        await super()._finish(patience)
        if self._network is not None:
            await self.feed.stop(self._network.overdue("the producer was closed before the record was written"))
        if patience.by_silence and not self._interrupted:
            self.feed.raise_unseen()

    async def _stop(self) -> None:
        await self.feed.stop(RuntimeError("the producer is closed"))
        await super()._stop()


class BridgedTransactionalProducer(BridgedProducer, TransactionalProducer):
    """A transactional producer that callers' threads feed."""

    async def _given_up(self) -> None:
        await self.feed.settled()
        self.feed.forget_unseen()
