"""LeaveGroup (key 13), versions 0–5: members leave a group, or an administrator removes them.

Versions
- Before v3 the request has one member, and the error code is at the top level.
- v3 takes several members, by member id or group.instance.id, with an error code for each (KIP-345). v5 adds reasons
  (KIP-800).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.requests import NO_REASON, LeavingMember
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponse_MemberResponse,
)

API_KEY = 13


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Coroutine[Any, Any, LeaveGroupResponse]:
    """Return the response at once; for a consumer group (KIP-848), when the change is on disk."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    single = context.api_version < 3
    leaving = (
        [LeavingMember(request.member_id, None)]
        if single
        else [LeavingMember(m.member_id, m.group_instance_id, m.reason or NO_REASON) for m in request.members]
    )
    try:
        outcome = groups.leave(request.group_id, leaving)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    if isinstance(outcome, asyncio.Future):
        return _wait(leaving, outcome, single=single)
    return _response(leaving, outcome, single=single)


async def _wait(
    leaving: Sequence[LeavingMember], outcome: asyncio.Future[list[ErrorCode]], *, single: bool
) -> LeaveGroupResponse:
    return _response(leaving, await outcome, single=single)


def _response(leaving: Sequence[LeavingMember], codes: list[ErrorCode], *, single: bool) -> LeaveGroupResponse:
    if single:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse_MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=code
            )
            for member, code in zip(leaving, codes, strict=True)
        ]
    )
