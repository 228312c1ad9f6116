"""AlterPartition (key 56), between brokers only: a leader proposes a new ISR (KIP-497, by topic id)."""

from __future__ import annotations

from typing import Any

from pybroker.broker.cluster.controller_client import InProcessControllerClient
from pybroker.broker.interbroker.alter_partition import event_of, response_of
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.ALTER_PARTITION


async def handle(controller: InProcessControllerClient, context: RequestContext, request: Any) -> Any:
    """Respond when the accepted proposals are durable."""
    event = event_of(request)
    try:
        answer = await controller.submit(event, asked_by=event.broker_id)
    except KafkaError as error:
        return wire.AlterPartitionResponse(error_code=error.code)
    return response_of(request, answer.reply)
