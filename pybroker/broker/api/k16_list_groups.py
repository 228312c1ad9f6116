"""ListGroups (key 16), versions 0–5: lists the groups that this broker coordinates.

Behavior
- While shards load, the response has the groups loaded so far and COORDINATOR_LOAD_IN_PROGRESS.
- Filters ignore case, and accept NotReady as not_ready.

Versions
- v4 filters by state (KIP-518). v5 filters by type (KIP-848): "classic", "consumer", "share" or "streams".
"""

from __future__ import annotations

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import CLUSTER_NAME, Authorizer, ResourceType
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponse_ListedGroup,
)

API_KEY = 16

async def handle(
    groups: GroupCoordinator,
    authorizer: Authorizer,
    context: RequestContext,
    request: ListGroupsRequest,
) -> ListGroupsResponse:
    """Return all groups to clients with DESCRIBE on the cluster, otherwise the groups that the client may DESCRIBE."""
    states = {state.strip().lower().replace("_", "") for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    found, loading = groups.list_groups()
    if not authorizer.lists(context, ResourceType.CLUSTER, CLUSTER_NAME):
        each = context.turns.each(found)
        found = [group async for group in each if authorizer.lists(context, ResourceType.GROUP, group.group_id)]
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE,
        groups=[
            ListGroupsResponse_ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_type,
                group_state=group.state.value,
                group_type=group.kind.value,
            )
            for group in found
            if (not states or group.state.lower() in states) and (not types or group.kind in types)
        ],
    )
