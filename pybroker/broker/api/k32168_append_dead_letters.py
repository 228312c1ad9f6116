"""AppendDeadLetters (key 32168), between brokers only: another broker sends records for a partition of a share group's
dead letter queue (KIP-1191).

Behavior
- The topic is named by id, so records never reach another incarnation of the name.
"""

from __future__ import annotations

from typing import Any

from pybroker.broker.coordinators.share_partition.dead_letter_appends import DeadLetterAppends
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.APPEND_DEAD_LETTERS


async def handle(appends: DeadLetterAppends, context: RequestContext, request: Any) -> Any:
    """Respond when the batch is committed or refused."""
    try:
        await appends.append_here(request.topic_id, request.partition_index, request.records)
    except KafkaError as problem:
        return wire.AppendDeadLettersResponse(error_code=int(problem.code))
    return wire.AppendDeadLettersResponse()
