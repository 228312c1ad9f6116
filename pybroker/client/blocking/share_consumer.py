"""The `ShareConsumer` that waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pybroker.client.blocking.event_loop import BlockingClient, direct, made, run, waiting
from pybroker.client.plugins.metrics import ClientMetrics
from pybroker.client.share import consumer
from pybroker.native import ConsumerRecord


class ShareConsumer(BlockingClient):
    """The blocking `pybroker.client.ShareConsumer`. Iterate over it for one record after the other."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._inner = run(made(consumer.ShareConsumer, config))

    start = waiting(consumer.ShareConsumer.start)
    close = waiting(consumer.ShareConsumer.close)
    subscribe = direct(consumer.ShareConsumer.subscribe)
    unsubscribe = waiting(consumer.ShareConsumer.unsubscribe)
    poll = waiting(consumer.ShareConsumer.poll)
    acknowledge = direct(consumer.ShareConsumer.acknowledge)
    renew = waiting(consumer.ShareConsumer.renew)
    commit = waiting(consumer.ShareConsumer.commit)

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        topics: frozenset[str] = self._inner.subscription()
        return topics

    def delivery_count(self, record: ConsumerRecord) -> int:
        """As `pybroker.client.ShareConsumer.delivery_count`."""
        count: int = self._inner.delivery_count(record)
        return count

    def metrics(self) -> ClientMetrics:
        """This consumer's metrics."""
        metrics: ClientMetrics = self._inner.metrics()
        return metrics

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            try:
                yield run(self._inner.__anext__())
            except StopAsyncIteration:
                return
