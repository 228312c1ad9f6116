"""JoinGroup (key 11), versions 0–9: a member joins a classic group or changes what it supports.

Behavior
- The response waits until the rebalance completes.

Versions
- v1 adds the rebalance timeout (before: the session timeout). v4 requires a second request with the returned member id
  (KIP-394).
- v5 adds group.instance.id (KIP-345), v7 the protocol type (KIP-559), v8 a reason (KIP-800). In v9 a returning static
  leader may skip the assignment (KIP-814).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.broker.coordinators.group.classic_group import JoinResult
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.requests import NO_REASON, JoinRequest
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponse_JoinGroupResponseMember,
)

API_KEY = 11


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Coroutine[Any, Any, JoinGroupResponse]:
    """Return the response at once, or wait for the rebalance."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    version = context.api_version
    try:
        outcome = groups.join(
            request.group_id,
            JoinRequest(
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                client_id=context.client_id or "",
                # Java prints an unresolved address with a slash; Kafka's tools remove it.
                client_host=f"/{context.client_host}",
                protocol_type=request.protocol_type,
                # If two protocols have the same name, the first one counts.
                protocols=tuple({p.name: p.metadata for p in reversed(request.protocols)}.items())[::-1],
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=(
                    request.rebalance_timeout_ms
                    if version >= 1 and request.rebalance_timeout_ms >= 0
                    else request.session_timeout_ms
                ),
                requires_known_member_id=version >= 4,
                supports_skipping_assignment=version >= 9,
                reason=request.reason or NO_REASON,
            ),
        )
    except KafkaError as error:
        return _response(version, JoinResult(ErrorCode(error.code), request.member_id))
    if isinstance(outcome, asyncio.Future):
        return _wait(version, outcome)
    return _response(version, outcome)


async def _wait(version: int, outcome: asyncio.Future[JoinResult]) -> JoinGroupResponse:
    return _response(version, await outcome)


def _response(version: int, result: JoinResult) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name if version >= 7 else result.protocol_name or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse_JoinGroupResponseMember(
                member_id=member_id, group_instance_id=instance_id, metadata=metadata
            )
            for member_id, instance_id, metadata in result.members
        ],
    )
