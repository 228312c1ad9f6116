"""The blocking `Consumer` and `ShareConsumer`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from re import Pattern
from typing import Any

from pybroker.client.blocking.event_loop import BlockingClient, direct, made, run, waiting
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.consumer import async_consumer
from pybroker.client.consumer.group.group_membership import GroupMetadata
from pybroker.client.consumer.group.rebalances import RebalanceListener
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.share import async_share_consumer
from pybroker.native import ConsumerRecord, Uuid


class Consumer(BlockingClient):
    """The blocking `pybroker.client.Consumer`. Iteration yields records."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._client = run(made(async_consumer.Consumer, config))
        # `_ahead` has the records that the iteration has fetched but not yielded, in reverse order. `_current` is the
        # record that the caller is processing.
        self._ahead: list[ConsumerRecord] = []
        self._current: ConsumerRecord | None = None

    @property
    def _inner(self) -> async_consumer.Consumer:
        """Return the asynchronous consumer, after seeking back to the first record that the iteration has fetched but
        not yielded.
        """
        if self._current is not None:
            current, self._current = self._current, None
            ahead, self._ahead = self._ahead, []
            first: dict[TopicPartition, int] = {}
            for record in reversed(ahead):
                first.setdefault(TopicPartition(record.topic, record.partition), record.offset)

            async def back() -> None:
                for where, offset in first.items():
                    if where in self._client.assignment():
                        self._client.seek(where, offset)
                self._client.handed_out(current)

            run(back())
        return self._client

    start = waiting(async_consumer.Consumer.start)
    close = waiting(async_consumer.Consumer.close)
    assign = direct(async_consumer.Consumer.assign)
    unsubscribe = waiting(async_consumer.Consumer.unsubscribe)
    poll = waiting(async_consumer.Consumer.poll)
    getmany = waiting(async_consumer.Consumer.getmany)
    seek = direct(async_consumer.Consumer.seek)
    seek_to_beginning = direct(async_consumer.Consumer.seek_to_beginning)
    seek_to_end = direct(async_consumer.Consumer.seek_to_end)
    position = waiting(async_consumer.Consumer.position)
    pause = direct(async_consumer.Consumer.pause)
    resume = direct(async_consumer.Consumer.resume)
    commit = waiting(async_consumer.Consumer.commit)
    committed = waiting(async_consumer.Consumer.committed)
    beginning_offsets = waiting(async_consumer.Consumer.beginning_offsets)
    end_offsets = waiting(async_consumer.Consumer.end_offsets)
    offsets_for_times = waiting(async_consumer.Consumer.offsets_for_times)
    partitions_for = waiting(async_consumer.Consumer.partitions_for)

    def subscribe(
        self, topics: Iterable[str] | Pattern[str] | str, *, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe as `pybroker.client.Consumer.subscribe` does. The listener runs in its own thread, and may call any
        method of this consumer except `poll`.
        """
        wrapped = None if listener is None else _LoopListener(listener)

        async def there() -> None:
            self._client.subscribe(topics, listener=wrapped)

        run(there())

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions assigned to this consumer."""
        return self._client.assignment()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._client.subscription()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._client.paused()

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the lag as `pybroker.client.Consumer.lag` does."""
        return self._inner.lag(partition)

    def group_metadata(self) -> GroupMetadata | None:
        """Return this consumer's identity in its group."""
        return self._client.group_metadata()

    def metrics(self) -> ClientMetrics:
        """Return this consumer's metrics."""
        return self._client.metrics()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            # Fetch several records in one call, because a thread switch costs more than a record. Reverse them, so that
            # pop() returns them in order.
            while not self._ahead:
                self._current = None  # The caller has finished with the record.
                self._ahead = list(reversed(run(self._client.poll(1.0))))
            self._current = self._ahead.pop()
            yield self._current


class _LoopListener(RebalanceListener):
    """Runs a listener in another thread, because it may call blocking methods."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_lost, partitions)

    async def on_topic_recreated(self, topic: str, old: Uuid, new: Uuid) -> None:
        await asyncio.to_thread(self._listener.on_topic_recreated, topic, old, new)


class ShareConsumer(BlockingClient):
    """The blocking `pybroker.client.ShareConsumer`. Iteration yields records."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._inner = run(made(async_share_consumer.ShareConsumer, config))

    start = waiting(async_share_consumer.ShareConsumer.start)
    close = waiting(async_share_consumer.ShareConsumer.close)
    subscribe = direct(async_share_consumer.ShareConsumer.subscribe)
    unsubscribe = waiting(async_share_consumer.ShareConsumer.unsubscribe)
    poll = waiting(async_share_consumer.ShareConsumer.poll)
    acknowledge = direct(async_share_consumer.ShareConsumer.acknowledge)
    renew = waiting(async_share_consumer.ShareConsumer.renew)
    commit = waiting(async_share_consumer.ShareConsumer.commit)

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        topics: frozenset[str] = self._inner.subscription()
        return topics

    def delivery_count(self, record: ConsumerRecord) -> int:
        """Return the delivery count as `pybroker.client.ShareConsumer.delivery_count` does."""
        count: int = self._inner.delivery_count(record)
        return count

    def metrics(self) -> ClientMetrics:
        """Return this consumer's metrics."""
        metrics: ClientMetrics = self._inner.metrics()
        return metrics

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            try:
                yield run(self._inner.__anext__())
            except StopAsyncIteration:
                return
