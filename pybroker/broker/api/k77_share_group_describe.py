"""ShareGroupDescribe (key 77), version 1: returns state, epochs and members of share groups (KIP-932).

Behavior
- A group of another type answers GROUP_ID_NOT_FOUND. A group with a topic that the caller may not DESCRIBE answers
  TOPIC_AUTHORIZATION_FAILED, without members.
"""

from __future__ import annotations

from pybroker.broker.admin.cluster_description import OPERATIONS_NOT_ASKED
from pybroker.broker.api.described_groups import DescribedGroupSources, described
from pybroker.broker.coordinators.consumer.records import by_topic
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.share.assignor import NAME
from pybroker.broker.coordinators.share.group import ShareGroup, ShareGroupMember
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.protocol.messages import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponse_Assignment,
    ShareGroupDescribeResponse_DescribedGroup,
    ShareGroupDescribeResponse_Member,
    ShareGroupDescribeResponse_TopicPartitions,
)

API_KEY = 77


def handle(
    sources: DescribedGroupSources, authorizer: Authorizer, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Return the descriptions. Not a coroutine: everything is in memory."""
    groups, topics, features = sources

    def describe(group_id: str) -> ShareGroupDescribeResponse_DescribedGroup:
        return _described(groups.describe(group_id, ShareGroup), topics)

    served = features.require_share_groups
    failed = ShareGroupDescribeResponse_DescribedGroup
    answers = described(request, authorizer, context, served, describe=describe, failed=failed)
    return ShareGroupDescribeResponse(groups=answers)


def _described(group: ShareGroup, topics: Topics) -> ShareGroupDescribeResponse_DescribedGroup:
    return ShareGroupDescribeResponse_DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=NAME,
        members=[_member(member, topics) for member in group.members.values()],
        authorized_operations=OPERATIONS_NOT_ASKED,
    )


def _member(member: ShareGroupMember, topics: Topics) -> ShareGroupDescribeResponse_Member:
    return ShareGroupDescribeResponse_Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=ShareGroupDescribeResponse_Assignment(
            # Omit deleted topics, because they have no name.
            topic_partitions=[
                ShareGroupDescribeResponse_TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
                for topic_id, indexes in by_topic(member.assigned)
                if (name := topics.topic_name(topic_id)) is not None
            ]
        ),
    )
