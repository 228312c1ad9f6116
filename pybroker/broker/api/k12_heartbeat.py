"""Heartbeat (key 12), versions 0–4: keeps a member's session alive and reports a rebalance.

Behavior
- While the group loads, the response is NONE, as in Kafka: aiokafka's consumer does not survive
  COORDINATOR_LOAD_IN_PROGRESS.
- Data threads repeat the response while nothing changes (`coordinators.shards.cached_responses`).

Versions
- v3 adds group.instance.id.
"""

from __future__ import annotations

from functools import partial

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.requests.context import CacheableResponse, RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import HeartbeatRequest, HeartbeatResponse

API_KEY = 12


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | CacheableResponse:
    """Return the response. Not a coroutine, because the most frequent request of an idle cluster must not wait."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    try:
        code: int = groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        loads = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loads else error.code)
    response = HeartbeatResponse(error_code=code)
    answers = groups.cached_responses(request.group_id) if code == ErrorCode.NONE else None
    if answers is None:
        return response
    return CacheableResponse(response, request.group_id, partial(answers.keep, request.member_id))
