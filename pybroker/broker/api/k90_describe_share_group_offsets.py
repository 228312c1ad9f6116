"""DescribeShareGroupOffsets (key 90), versions 0–1: returns the start offsets of share groups (KIP-932).

Behavior
- A request without topics returns every topic for which the group has state and which the caller may DESCRIBE. −1 means
  that the group has not begun to read the partition.

Versions
- v1 adds the lag (KIP-1226): the number of records that the group has not read yet, −1 if the leader cannot be reached.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.share_partition.ends import PartitionEnds
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseTopic,
)

API_KEY = 90


class ShareOffsetSources(NamedTuple):
    """The services that the handler reads."""

    shares: ShareCoordination
    topics: Topics
    features: FeatureAdmin
    ends: PartitionEnds


async def handle(
    sources: ShareOffsetSources,
    authorizer: Authorizer,
    context: RequestContext,
    request: DescribeShareGroupOffsetsRequest,
) -> DescribeShareGroupOffsetsResponse:
    """Return the start offsets that the coordinators of the states report."""
    answers = []
    for group in request.groups:
        answer = DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
        try:
            sources.features.require_share_groups()
            authorizer.require_group(context, AclOperation.DESCRIBE, group.group_id)
            if not group.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
            answer.topics = await _topics(sources, authorizer, context, group)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        answers.append(answer)
    return DescribeShareGroupOffsetsResponse(groups=answers)


async def _topics(
    sources: ShareOffsetSources, authorizer: Authorizer, context: RequestContext, group: Any
) -> list[DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseTopic]:
    def may(name: str) -> bool:
        return authorizer.permits_topic(context, AclOperation.DESCRIBE, name)

    answers = []
    if group.topics is None:
        for topic_id, topic in sources.shares.partitions_of(group.group_id).items():
            if sources.topics.topic_name(topic_id) is not None and may(topic.name):
                partitions = [
                    await _partition(sources, group.group_id, topic_id, index) for index in sorted(topic.partitions)
                ]
                answers.append(_topic(topic.name, topic_id, partitions))
        return answers
    # As in Kafka, a group that does not exist has no offset in the requested partitions.
    for requested in group.topics:
        named = sources.topics.topic_id(requested.topic_name) if may(requested.topic_name) else None
        problem = None
        if not may(requested.topic_name):
            problem = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif named is None:
            problem = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = []
        for index in requested.partitions:
            if problem is not None or named is None:
                partitions.append(_refused(index, problem or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                partitions.append(await _partition(sources, group.group_id, named, index))
        answers.append(_topic(requested.topic_name, named or Uuid.ZERO, partitions))
    return answers


def _topic(name: str, topic_id: Uuid, partitions: list[Any]) -> Any:
    return DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id, partitions=partitions
    )


def _refused(index: int, code: ErrorCode, message: str | None = None) -> Any:
    return DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=-1, leader_epoch=0, error_code=code, error_message=message
    )


async def _partition(sources: ShareOffsetSources, group_id: str, topic_id: Uuid, index: int) -> Any:
    try:
        found = await sources.shares.offset(group_id, topic_id, index)
    except KafkaError as error:
        return _refused(index, ErrorCode(error.code), error.message)
    lag = -1
    if found.start_offset >= 0 and found.complete_count >= 0:
        end = await sources.ends.end(topic_id, index)
        if end is not None:
            lag = max(end - found.start_offset - found.complete_count, 0)
    return DescribeShareGroupOffsetsResponse_DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=found.start_offset, leader_epoch=found.leader_epoch, lag=lag
    )
