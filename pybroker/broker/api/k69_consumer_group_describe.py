"""ConsumerGroupDescribe (key 69), versions 0–1: returns state, epochs and members of consumer groups (KIP-848).

Behavior
- A group of another type answers GROUP_ID_NOT_FOUND. A group with a topic that the caller may not DESCRIBE answers
  TOPIC_AUTHORIZATION_FAILED, without members.

Versions
- v1 shows which members use the classic protocol (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.broker.admin.cluster_description import OPERATIONS_NOT_ASKED
from pybroker.broker.api.described_groups import DescribedGroupSources, described
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import ConsumerMember, Partition
from pybroker.broker.coordinators.consumer.records import by_topic
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponse_Assignment,
    ConsumerGroupDescribeResponse_DescribedGroup,
    ConsumerGroupDescribeResponse_Member,
    ConsumerGroupDescribeResponse_TopicPartitions,
)

API_KEY = 69

MEMBER_CLASSIC, MEMBER_CONSUMER = 0, 1


def handle(
    sources: DescribedGroupSources,
    authorizer: Authorizer,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse:
    """Return the descriptions. Not a coroutine: everything is in memory."""
    groups, topics, features = sources

    def describe(group_id: str) -> ConsumerGroupDescribeResponse_DescribedGroup:
        return _described(groups.describe(group_id, ConsumerGroup), topics, groups.assignors[0])

    served = features.require_consumer_groups
    failed = ConsumerGroupDescribeResponse_DescribedGroup
    answers = described(request, authorizer, context, served, describe=describe, failed=failed)
    return ConsumerGroupDescribeResponse(groups=answers)


def _described(
    group: ConsumerGroup, topics: Topics, default_assignor: str
) -> ConsumerGroupDescribeResponse_DescribedGroup:
    return ConsumerGroupDescribeResponse_DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
        members=[_member(group, member, topics) for member in group.members.values()],
        authorized_operations=OPERATIONS_NOT_ASKED,
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> ConsumerGroupDescribeResponse_Member:
    subscription = member.subscription
    return ConsumerGroupDescribeResponse_Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
        # As in Kafka, the field is empty, not null, if there is no regular expression.
        subscribed_topic_regex=subscription.regex or "",
        assignment=_assignment([*member.assigned, *member.revoking], topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=MEMBER_CLASSIC if member.is_classic else MEMBER_CONSUMER,
    )


def _assignment(partitions: Iterable[Partition], topics: Topics) -> ConsumerGroupDescribeResponse_Assignment:
    """Return the assignment. Omit deleted topics, because they have no name."""
    return ConsumerGroupDescribeResponse_Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse_TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in by_topic(partitions)
            if (name := topics.topic_name(topic_id)) is not None
        ]
    )
