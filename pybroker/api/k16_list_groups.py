"""ListGroups (key 16), versions 0–5: all groups of this broker.

v4 filters by state (KIP-518), v5 by type (KIP-848); both without regard to case. Every group here is of the type
"classic". While shards load, the groups known so far come with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponse_ListedGroup,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import CLUSTER_NAME, ResourceType
from pybroker.security.authorizer import Authorizer

API_KEY = 16

GROUP_TYPE = "classic"


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """A plain function. Who may describe the cluster sees all groups, others those that they may describe."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    found, loading = groups.list_groups()
    if not authorizer.lists(context, ResourceType.CLUSTER, CLUSTER_NAME):
        found = [group for group in found if authorizer.lists(context, ResourceType.GROUP, group.group_id)]
    if types and GROUP_TYPE not in types:
        found = []
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE,
        groups=[
            ListGroupsResponse_ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=GROUP_TYPE,
            )
            for group in found
            if not states or group.state.value.lower() in states
        ],
    )
