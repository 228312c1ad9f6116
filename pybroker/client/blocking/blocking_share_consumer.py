"""The blocking `ShareConsumer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pybroker.client.blocking.event_loop import BlockingClient, direct, made, run, waiting
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.share import async_share_consumer
from pybroker.native import ConsumerRecord


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
