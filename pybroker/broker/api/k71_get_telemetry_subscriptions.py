"""GetTelemetrySubscriptions (key 71), version 0: tells a client which metrics to push and how often (KIP-714).

Behavior
- It needs no permission, as in Kafka.
"""

from __future__ import annotations

from pybroker.broker.client_metrics.client_instances import COMPRESSION_TYPES, Telemetry
from pybroker.broker.requests.context import RequestContext
from pybroker.protocol.messages import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

API_KEY = 71


def handle(
    telemetry: Telemetry, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the subscription; a client without an id gets one. Raises KafkaError (THROTTLING_QUOTA_EXCEEDED)."""
    instance_id, asked = telemetry.subscription(request.client_instance_id, context)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=asked.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=asked.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(asked.metrics),
    )
