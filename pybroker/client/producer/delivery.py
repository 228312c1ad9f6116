"""What the caller holds of a record that was handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from pybroker.client.producer.accumulator import Batch
from pybroker.client.records import RecordMetadata


class Delivery:
    """A record that was handed over: await it for its RecordMetadata, or the error."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while True:
            batch, _ = self._batch.find(self._index)
            yield from asyncio.shield(batch.wait_for()).__await__()
            if batch.halves is None:
                return self.result()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.find(self._index)[0].done.done()

    def result(self) -> RecordMetadata:
        """The metadata. Raises the error, or asyncio.InvalidStateError while the outcome is not known."""
        self._batch.find(self._index)[0].seen = True
        return self.peek()

    def peek(self) -> RecordMetadata:
        """As `result`, but an error still counts as one that nobody has looked at: the next `flush` raises it."""
        batch, index = self._batch.find(self._index)
        base_offset, append_time = batch.done.result()
        return RecordMetadata(
            batch.topic,
            batch.partition,
            base_offset + index if base_offset >= 0 else -1,
            append_time if append_time >= 0 else self._timestamp,
            batch.topic_id,
        )

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Calls `callback(delivery)` on the loop once the outcome is known."""
        batch, _ = self._batch.find(self._index)
        batch.seen = True
        batch.done.add_done_callback(lambda _: callback(self))
