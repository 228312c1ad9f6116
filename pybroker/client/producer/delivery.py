"""What the caller holds of a record that was handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from pybroker.client.producer.accumulator import Batch
from pybroker.client.records import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]
"""Told how a record went: its metadata, or the error."""


class Delivery:
    """A record that was handed over: await it for its RecordMetadata, or the error.

    batch, index, timestamp: where it was put first; the library's.
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
        """Whether the outcome is known."""
        return self.batch.find(self.index)[0].done.done()

    def result(self) -> RecordMetadata:
        """The metadata. Raises the error, or asyncio.InvalidStateError while the outcome is not known."""
        batch, index = self.batch.find(self.index)
        batch.observed.add(index)
        return self.peek()

    def peek(self) -> RecordMetadata:
        """As `result`, but the next `flush` raises an error again."""
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
        """Calls `callback(delivery)` on the loop once the outcome is known."""
        batch, index = self.batch.find(self.index)
        batch.observed.add(index)
        batch.done.add_done_callback(
            # Of a batch that was split the other half may be done first.
            lambda _: callback(self) if self.done() else self.add_done_callback(callback)
        )

    def tell(self, on_delivery: OnDelivery) -> None:
        """Calls `on_delivery(metadata, None)` or `on_delivery(None, error)` on the loop once the outcome is known."""

        def done(_: Delivery) -> None:
            try:
                metadata = self.result()
            except Exception as error:
                on_delivery(None, error)
            else:
                on_delivery(metadata, None)

        self.add_done_callback(done)
