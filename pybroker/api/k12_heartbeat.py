"""Heartbeat (key 12), versions 0–4: keeps a member's session, and tells it of a rebalance. v3 has group.instance.id."""

from __future__ import annotations

from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.errors import KafkaError
from pybroker.protocol.messages import HeartbeatRequest, HeartbeatResponse
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 12


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    """A plain function: the most frequent request of an idle cluster never waits for anything."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    try:
        code: int = groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        code = error.code
    return HeartbeatResponse(error_code=code)
