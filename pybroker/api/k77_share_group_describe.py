"""ShareGroupDescribe (key 77), version 1: state, epochs and members of share groups (KIP-932).

Any other group is GROUP_ID_NOT_FOUND. A group with a topic that the caller may not describe is
TOPIC_AUTHORIZATION_FAILED, without its members.
"""

from __future__ import annotations

from pybroker.api.share_records import ShareAdmin
from pybroker.coordinators.consumer.records import by_topic
from pybroker.coordinators.shards.ports import Topics
from pybroker.coordinators.share.assignor import NAME
from pybroker.coordinators.share.group import ShareGroup, ShareMember
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponse_Assignment,
    ShareGroupDescribeResponse_DescribedGroup,
    ShareGroupDescribeResponse_Member,
    ShareGroupDescribeResponse_TopicPartitions,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation, ResourceType
from pybroker.security.authorizer import Authorizer

API_KEY = 77

NOT_ASKED = -(1 << 31)


def handle(
    sources: ShareAdmin, authorizer: Authorizer, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """A plain function."""
    shares, topics, features = sources
    answers = []
    # Each once: a few bytes of a name would otherwise buy all members of the group, each time.
    for group_id in dict.fromkeys(request.group_ids):
        try:
            features.require_share_groups()
            authorizer.require_group(context, AclOperation.DESCRIBE, group_id)
            if not group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
            answer = _described(shares.describe(group_id), topics)
            _check_topics(answer, authorizer, context)
        except KafkaError as error:
            answer = ShareGroupDescribeResponse_DescribedGroup(
                group_id=group_id, error_code=error.code, error_message=error.message
            )
        else:
            if request.include_authorized_operations:
                answer.authorized_operations = authorizer.operations(context, ResourceType.GROUP, group_id)
        answers.append(answer)
    return ShareGroupDescribeResponse(groups=answers)


def _check_topics(
    answer: ShareGroupDescribeResponse_DescribedGroup, authorizer: Authorizer, context: RequestContext
) -> None:
    names = {
        name
        for member in answer.members
        for name in (
            *member.subscribed_topic_names,
            *(topic.topic_name for topic in member.assignment.topic_partitions),
        )
    }
    if not all(authorizer.permits_topic(context, AclOperation.DESCRIBE, name) for name in names):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "Members of the group read topics that this client may not describe.",
        )


def _described(group: ShareGroup, topics: Topics) -> ShareGroupDescribeResponse_DescribedGroup:
    return ShareGroupDescribeResponse_DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=NAME,
        members=[_member(member, topics) for member in group.members.values()],
        authorized_operations=NOT_ASKED,
    )


def _member(member: ShareMember, topics: Topics) -> ShareGroupDescribeResponse_Member:
    return ShareGroupDescribeResponse_Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=ShareGroupDescribeResponse_Assignment(
            # Without what belongs to topics that are gone: they have no name.
            topic_partitions=[
                ShareGroupDescribeResponse_TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
                for topic_id, indexes in by_topic(member.assigned)
                if (name := topics.topic_name(topic_id)) is not None
            ]
        ),
    )
