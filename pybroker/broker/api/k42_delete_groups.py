"""DeleteGroups (key 42), versions 0–3: deletes groups without members, with their offsets.

Versions
- v3 adds error messages (KIP-1043).
"""

from __future__ import annotations

import asyncio

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponse_DeletableGroupResult,
)

API_KEY = 42


async def handle(
    groups: GroupCoordinator,
    shares: ShareCoordination,
    authorizer: Authorizer,
    context: RequestContext,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse:
    """Start all deletions, then wait for them. A group that is named twice is deleted once."""
    outcomes: dict[str, ErrorCode | asyncio.Future[ErrorCode] | KafkaError] = {}
    for group_id in request.groups_names:
        if group_id not in outcomes:
            try:
                authorizer.require_group(context, AclOperation.DELETE, group_id)
                if shares.holds(group_id):
                    outcomes[group_id] = asyncio.ensure_future(shares.delete_group(group_id))
                else:
                    outcomes[group_id] = groups.delete_group(group_id)
            except KafkaError as error:
                outcomes[group_id] = error
    results: list[DeleteGroupsResponse_DeletableGroupResult] = []
    for group_id, deletion in outcomes.items():
        outcome = await _outcome(deletion)
        code, message = (outcome.code, outcome.message) if isinstance(outcome, KafkaError) else (outcome, None)
        results.append(
            DeleteGroupsResponse_DeletableGroupResult(group_id=group_id, error_code=code, error_message=message)
        )
    return DeleteGroupsResponse(results=results)


async def _outcome(deletion: ErrorCode | asyncio.Future[ErrorCode] | KafkaError) -> ErrorCode | KafkaError:
    """Return a deletion's result. The deletion of a share group may still be refused, after requests to the share
    coordinators of its partitions.
    """
    if not isinstance(deletion, asyncio.Future):
        return deletion
    try:
        return await deletion
    except KafkaError as error:
        return error
