"""PushTelemetry (key 72), version 0: a client pushes the metrics that its subscription asks for (KIP-714).

Behavior
- It needs no permission, as in Kafka.
"""

from __future__ import annotations

from pybroker.broker.client_metrics.client_instances import Telemetry
from pybroker.broker.requests.context import RequestContext
from pybroker.protocol.messages import PushTelemetryRequest, PushTelemetryResponse

API_KEY = 72


async def handle(telemetry: Telemetry, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Accept the metrics. Raises KafkaError if the client pushes too early (THROTTLING_QUOTA_EXCEEDED), with an old
    subscription (UNKNOWN_SUBSCRIPTION_ID) or too much (TELEMETRY_TOO_LARGE).
    """
    await telemetry.push(
        request.client_instance_id,
        request.subscription_id,
        context,
        terminating=request.terminating,
        codec=request.compression_type,
        data=bytes(request.metrics),
    )
    return PushTelemetryResponse()
