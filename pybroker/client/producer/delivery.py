"""The object with which a caller observes a record in a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from pybroker.client.producer.accumulator import Batch
from pybroker.client.producer_records import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]
"""Called with (metadata, None) or (None, error)."""


class Delivery:
    """A record that the caller has enqueued. Awaiting it returns its RecordMetadata or raises the error.

    batch, index, timestamp: the first position of the record; internal to the library.
    """

    __slots__ = ("batch", "index", "timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while True:
            batch, index = self.batch.find(self.index)
            yield from asyncio.shield(batch.wait_for(index)).__await__()
            if batch.halves is None:
                return self.result()

    def done(self) -> bool:
        """Return whether the record was acknowledged or failed."""
        return self.batch.find(self.index)[0].done.done()

    def result(self) -> RecordMetadata:
        """Return the metadata. Raises the record's error if it failed, or asyncio.InvalidStateError if it is not
        acknowledged yet.
        """
        batch, index = self.batch.find(self.index)
        batch.observed.add(index)
        return self.peek()

    def peek(self) -> RecordMetadata:
        """Return the metadata as `result` does, but leave an error for the next `flush` to raise."""
        batch, index = self.batch.find(self.index)
        base_offset, append_time = batch.done.result()
        return RecordMetadata(
            batch.topic,
            batch.partition,
            base_offset + index if base_offset >= 0 else -1,
            append_time if append_time >= 0 else self.timestamp,
            batch.topic_id,
        )

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(delivery)` on the loop when the record is acknowledged or failed."""
        batch, index = self.batch.find(self.index)
        batch.observed.add(index)
        batch.done.add_done_callback(
            # If the batch was split, the other half may complete first.
            lambda _: callback(self) if self.done() else self.add_done_callback(callback)
        )

    def notify(self, on_delivery: OnDelivery) -> None:
        """Call `on_delivery(metadata, None)` or `on_delivery(None, error)` on the loop when the record is acknowledged
        or has failed.
        """

        def done(_: Delivery) -> None:
            try:
                metadata = self.result()
            except Exception as error:
                on_delivery(None, error)
            else:
                on_delivery(metadata, None)

        self.add_done_callback(done)
