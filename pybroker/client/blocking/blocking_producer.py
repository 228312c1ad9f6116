"""The blocking `Producer`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Concatenate

from pybroker.client.blocking.event_loop import BlockingClient, Given, Result, made, run, waiting
from pybroker.client.blocking.thread_bridge import (
    NO_EXTRAS,
    BridgedProducer,
    BridgedTransactionalProducer,
    Delivery,
    Extras,
)
from pybroker.client.offset_types import Moment
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.plugins.serialization import plain_bytes
from pybroker.client.producer.accumulator import RECORD_BYTES
from pybroker.client.producer.delivery import OnDelivery
from pybroker.client.producer_records import Headers, ProducerRecord

__all__ = ["Delivery", "Producer", "TransactionalProducer"]


def in_turn(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """Return the blocking form of a method that first waits until queued records are in batches."""

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Result:
        async def there() -> Result:
            await self._inner.feed.settled()
            return await method(self._inner, *args, **named)

        return run(there())

    return call


class Producer(BlockingClient):
    """The blocking `pybroker.client.Producer`."""

    _fed: type[BridgedProducer] = BridgedProducer

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._inner = inner = run(made(self._fed, config))
        self._feed = inner.feed
        self._is_plain = inner.is_plain

    start = waiting(BridgedProducer.start)
    send = in_turn(BridgedProducer.send)
    send_many = in_turn(BridgedProducer.send_many)
    flush = waiting(BridgedProducer.flush)
    close = waiting(BridgedProducer.close)
    partitions_for = waiting(BridgedProducer.partitions_for)

    def enqueue(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: Moment | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Enqueue a record as `pybroker.client.Producer.enqueue` does. Blocks only if there is no buffer space, or if
        the record is the first for its topic.

        on_delivery runs on the thread of the clients' event loop, so it must not wait for a client. If a serializer
        fails, the Delivery and `flush` raise the error.
        """
        size = RECORD_BYTES
        if self._is_plain:
            if type(value) is not bytes:
                value = plain_bytes(value)
            if value is not None:
                size += len(value)
            if key is not None:
                key = plain_bytes(key)
                size += len(key)
        extras = None
        if key is not None or partition is not None or timestamp_ms is not None or headers or on_delivery is not None:
            extras = Extras(key, partition, timestamp_ms, headers, on_delivery)
        elif not self._is_plain:
            extras = NO_EXTRAS
        record = Delivery(self._feed, topic, value, extras)
        if self._feed.takes(topic, size):
            self._feed.put(record, size)
        else:
            run(self._feed.wait_for(record))
        return record

    def metrics(self) -> ClientMetrics:
        """Return this producer's metrics."""
        metrics: ClientMetrics = self._inner.metrics()
        return metrics


class TransactionalProducer(Producer):
    """The blocking `pybroker.client.TransactionalProducer`."""

    _inner: BridgedTransactionalProducer
    _fed = BridgedTransactionalProducer

    init = waiting(BridgedTransactionalProducer.init)
    begin = waiting(BridgedTransactionalProducer.begin)
    commit = waiting(BridgedTransactionalProducer.commit)
    abort = waiting(BridgedTransactionalProducer.abort)
    send_offsets = in_turn(BridgedTransactionalProducer.send_offsets)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Call `begin` before the block and `commit` after it; call `abort` if the block raises or the commit fails."""
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            if self._inner.can_abort:
                self.abort()
            raise
