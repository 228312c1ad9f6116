"""SyncGroup (key 14), versions 0–5: the group's leader sends the assignment; each member receives its own.

Behavior
- Followers wait until the leader's assignment is on disk.

Versions
- v3 adds group.instance.id. v5 adds protocol type and name, which must match the group's (KIP-559).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.broker.coordinators.group.classic_group import SyncResult
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.requests import SyncRequest
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import SyncGroupRequest, SyncGroupResponse

API_KEY = 14


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Coroutine[Any, Any, SyncGroupResponse]:
    """Return the response at once, or wait for the assignment."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        # Protocol type and name are mandatory from version 5 on (KIP-559).
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        outcome = groups.sync(
            request.group_id,
            SyncRequest(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                request.protocol_type,
                request.protocol_name,
                tuple((a.member_id, a.assignment) for a in request.assignments),
            ),
        )
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    if isinstance(outcome, asyncio.Future):
        return _wait(outcome)
    return _response(outcome)


async def _wait(outcome: asyncio.Future[SyncResult]) -> SyncGroupResponse:
    return _response(await outcome)


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
