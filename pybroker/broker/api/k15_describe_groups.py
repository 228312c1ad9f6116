"""DescribeGroups (key 15), versions 0–6: returns the state and members of classic groups.

Behavior
- Member metadata is returned only while the group is stable.

Versions
- v3 returns the caller's authorized operations on request. v4 adds group.instance.id.
- v6 answers GROUP_ID_NOT_FOUND for a group that does not exist (before: the state "Dead" without an error).
"""

from __future__ import annotations

from pybroker.broker.admin.cluster_description import OPERATIONS_NOT_ASKED
from pybroker.broker.coordinators.group.classic_group import ClassicGroup, ClassicGroupState
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponse_DescribedGroup,
    DescribeGroupsResponse_DescribedGroupMember,
)

API_KEY = 15


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Return the descriptions. Not a coroutine: everything is in memory."""
    answers = []
    # Return each group only once. Otherwise each repetition of a name, a few bytes, would return all members of the
    # group again.
    for group_id in dict.fromkeys(request.groups):
        if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            answers.append(
                DescribeGroupsResponse_DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
                    error_message="Group authorization failed.",
                )
            )
            continue
        allowed = OPERATIONS_NOT_ASKED
        if request.include_authorized_operations:
            allowed = authorizer.operations(context, ResourceType.GROUP, group_id)
        answers.append(_describe(groups, context.api_version, group_id, allowed))
    return DescribeGroupsResponse(groups=answers)


def _describe(
    groups: GroupCoordinator, version: int, group_id: str, allowed: int
) -> DescribeGroupsResponse_DescribedGroup:
    try:
        return _described(groups.describe(group_id, ClassicGroup), allowed)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribeGroupsResponse_DescribedGroup(
                group_id=group_id, error_code=error.code, error_message=error.message
            )
        missing = version >= 6
        return DescribeGroupsResponse_DescribedGroup(
            group_id=group_id,
            group_state=ClassicGroupState.DEAD,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if missing else None,
            authorized_operations=allowed,
        )


def _described(group: ClassicGroup, allowed: int) -> DescribeGroupsResponse_DescribedGroup:
    stable = group.state is ClassicGroupState.STABLE
    return DescribeGroupsResponse_DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            DescribeGroupsResponse_DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
        authorized_operations=allowed,
    )
