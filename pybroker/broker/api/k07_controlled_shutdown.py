"""ControlledShutdown (key 7), between brokers only: a broker announces that it stops."""

from __future__ import annotations

from typing import Any

from pybroker.broker.cluster.controller_client import InProcessControllerClient
from pybroker.broker.cluster.events import ShutDownBroker, ShutDownOutcome
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.CONTROLLED_SHUTDOWN

TIMEOUT_MS = 30_000
"""Time limit in milliseconds for another broker's answer. A broker that does not answer, for example because it is
paused, must not delay the stop any longer.
"""


async def handle(controller: InProcessControllerClient, context: RequestContext, request: Any) -> Any:
    """Respond when other brokers have taken over as many partitions as possible."""
    event = ShutDownBroker(request.broker_id, request.broker_epoch)
    try:
        outcome = ShutDownOutcome(more=True)
        while outcome.more:
            outcome = (await controller.submit(event, TIMEOUT_MS, asked_by=event.broker_id)).reply
    except KafkaError as error:
        return wire.ControlledShutdownResponse(error_code=error.code)
    remaining = [
        wire.ControlledShutdownResponse_RemainingPartition(topic_name=name, partition_index=index)
        for name, index in outcome.remaining
    ]
    return wire.ControlledShutdownResponse(error_code=0, remaining_partitions=remaining)
