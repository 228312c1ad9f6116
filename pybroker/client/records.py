"""What goes into a producer and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.native import Uuid

if TYPE_CHECKING:
    from pybroker.client.accumulator import Batch

HeaderList = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to be sent. partition: None = by the key. timestamp: milliseconds, None = now.

    It knows no cluster id (KIP-78, checklist 301).
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: HeaderList = ()


class RecordMetadata(NamedTuple):
    """Where a record went. offset: -1 where the broker does not say (acks=0, a duplicate it had already written).

    timestamp: the record's own, or the broker's if the topic stamps LogAppendTime. topic_id: the incarnation that
    holds it; Uuid.ZERO from brokers without ids.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    topic_id: Uuid


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
            batch.seen = True
            yield from asyncio.shield(batch.done).__await__()
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


def header_list(headers: Any) -> HeaderList:
    """Headers as a mapping or as pairs; text values become UTF-8."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
