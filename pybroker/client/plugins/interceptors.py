"""Interceptors and metric reporters of a client. Each may also be a ClusterResourceListener (KIP-78)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pybroker.client.cluster_metadata import TopicPartition
    from pybroker.client.offset_types import OffsetAndMetadata
    from pybroker.client.plugins.client_metrics import ClientMetrics
    from pybroker.client.producer_records import ProducerRecord, RecordMetadata
    from pybroker.native import ConsumerRecord

log = logging.getLogger(__name__)
Value = TypeVar("Value")


class Configurable:
    """Base of a client's plug-ins."""

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once when the client is created. The cluster id is not known yet; `on_update` receives it later."""

    def close(self) -> None:
        """Called when the client is closed."""


class ProducerInterceptor(Configurable):
    """Sees records before they are sent and when they are acknowledged. The client logs its exceptions and continues.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record or a replacement. For the first records, the cluster id is not known yet."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Called when the broker has written the record, or when the record has failed."""


class ConsumerInterceptor(Configurable):
    """Sees records before the caller does, and sees committed offsets."""

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """Return the records to deliver: these records, some of them, or others."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called when these offsets have been committed."""


class MetricReporter(Configurable):
    """Gets the object with the client's metrics once. The reporter may read the metrics at any time."""

    def init(self, metrics: ClientMetrics) -> None:
        """Called when the client is created."""


def each(plugins: Sequence[Any], what: str, value: Value, call: Callable[[Any, Value], Value | None]) -> Value:
    """Pass a value through interceptors; log and skip an interceptor that raises."""
    for plugin in plugins:
        try:
            result = call(plugin, value)
        except Exception:  # The user's code may raise any exception. Kafka's clients also continue.
            log.exception("%s.%s failed", type(plugin).__name__, what)
        else:
            if result is not None:
                value = result
    return value
