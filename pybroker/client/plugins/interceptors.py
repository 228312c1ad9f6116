"""Plug-ins of a client: interceptors, metric reporters. Any of them may be a ClusterResourceListener too (KIP-78)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pybroker.client.cluster import TopicPartition
    from pybroker.client.offsets import OffsetAndMetadata
    from pybroker.client.plugins.metrics import ClientMetrics
    from pybroker.client.records import ProducerRecord, RecordMetadata
    from pybroker.native import ConsumerRecord

log = logging.getLogger(__name__)
Value = TypeVar("Value")


class Configurable:
    """What all plug-ins of a client have."""

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, when the client is made; the cluster id comes later, by `on_update`."""

    def close(self) -> None:
        """The client is closed."""


class ProducerInterceptor(Configurable):
    """Sees records before they are sent and when they are answered. What it raises is logged and goes no further."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """May replace the record. Runs before the cluster id is known, for the first ones."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """The record was written, or failed."""


class ConsumerInterceptor(Configurable):
    """Sees records before the caller does, and committed offsets."""

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """May leave records out or replace them."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""


class MetricReporter(Configurable):
    """Is given the client's metrics once and reads them whenever it likes."""

    def init(self, metrics: ClientMetrics) -> None:
        """The client starts."""


def each(plugins: Sequence[Any], what: str, value: Value, call: Callable[[Any, Value], Value | None]) -> Value:
    """Passes a value through interceptors; one that raises is logged and skipped."""
    for plugin in plugins:
        try:
            result = call(plugin, value)
        except Exception:  # whatever the user's code raises: the clients of Kafka go on as well
            log.exception("%s.%s failed", type(plugin).__name__, what)
        else:
            if result is not None:
                value = result
    return value
