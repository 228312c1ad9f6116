"""ListGroups (key 16), versions 0–5: lists the groups that this broker coordinates.

Behavior
- While shards load, the response has the groups loaded so far and COORDINATOR_LOAD_IN_PROGRESS.
- Filters ignore case, and accept NotReady as not_ready.

Versions
- v4 filters by state (KIP-518). v5 filters by type (KIP-848): "classic", "consumer", "share" or "streams".
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.group.streams import StreamsCoordination
from pybroker.broker.coordinators.group.subscription import CONSUMER_PROTOCOL_TYPE
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.acls import CLUSTER_NAME, ResourceType
from pybroker.broker.security.authorizer import Authorizer
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponse_ListedGroup,
)

API_KEY = 16

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class ListedGroupSources(NamedTuple):
    """Where the groups of each kind are."""

    groups: GroupCoordinator
    shares: ShareCoordination
    streams: StreamsCoordination


async def handle(
    sources: ListedGroupSources,
    authorizer: Authorizer,
    context: RequestContext,
    request: ListGroupsRequest,
) -> ListGroupsResponse:
    """Who may describe the cluster sees all groups, others those that they may describe."""
    states = {state.strip().lower().replace("_", "") for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    groups, shares, streams = sources
    classic, loading = groups.list_groups()
    found = [
        *((group.group_id, group.protocol_type or "", group.state.value, CLASSIC) for group in classic),
        *(
            (group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, CONSUMER)
            for group in groups.list_consumer_groups()
        ),
        *((group.group_id, SHARE, group.state.value, SHARE) for group in shares.list()),
        *((group.group_id, STREAMS, group.state.value, STREAMS) for group in streams.list()),
    ]
    if not authorizer.lists(context, ResourceType.CLUSTER, CLUSTER_NAME):
        each = context.turns.each(found)
        found = [row async for row in each if authorizer.lists(context, ResourceType.GROUP, row[0])]
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE,
        groups=[
            ListGroupsResponse_ListedGroup(
                group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=kind
            )
            for group_id, protocol_type, state, kind in found
            if (not states or state.lower() in states) and (not types or kind in types)
        ],
    )
