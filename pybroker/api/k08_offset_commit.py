"""OffsetCommit (key 8), versions 1–10: stores how far a group has read; answered when it is on disk.

v1 has a commit timestamp for each partition, v2–4 a retention for the request, v6 leader epochs, v7
group.instance.id, v10 topic ids in place of names. A name or id that does not exist gets its error in its slots; the
others are committed. Differs from Kafka: a member whose generation formed before a topic was deleted and created
again cannot commit for that name (REBALANCE_IN_PROGRESS, and the group rebalances); Kafka stores the old position for
the new topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.coordinators.group.commits import CommitItem, CommitRequest
from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.coordinators.shards.ports import Topics
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequest_OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponse_OffsetCommitResponsePartition,
    OffsetCommitResponse_OffsetCommitResponseTopic,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 8


def handle(
    groups: GroupCoordinator,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    """Answers at once when nothing has to be written, else when it is."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    by_id = context.api_version >= 10
    denied = [_denied(topics, authorizer, context, topic, by_id=by_id) for topic in request.topics]
    items = tuple(
        CommitItem(
            None if by_id else topic.name,
            topic.topic_id if by_id else None,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata,
            partition.commit_timestamp,
        )
        for topic, refused in zip(request.topics, denied, strict=True)
        if not refused
        for partition in topic.partitions
    )
    try:
        outcome = groups.commit(
            CommitRequest(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                items,
                request.retention_time_ms,
                ErrorCode.GROUP_ID_NOT_FOUND if context.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION,
            )
        )
    except KafkaError as error:
        return _response(request, denied, [ErrorCode(error.code)] * len(items))
    if isinstance(outcome, asyncio.Future):
        return _wait(request, denied, outcome)
    return _response(request, denied, outcome)


def _denied(
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    topic: OffsetCommitRequest_OffsetCommitRequestTopic,
    *,
    by_id: bool,
) -> bool:
    """An id that nobody has is unknown before anything is asked of the authorizer."""
    name = topics.topic_name(topic.topic_id) if by_id else topic.name
    return name is not None and not authorizer.permits_topic(context, AclOperation.READ, name)


async def _wait(
    request: OffsetCommitRequest, denied: list[bool], outcome: asyncio.Future[list[ErrorCode]]
) -> OffsetCommitResponse:
    return _response(request, denied, await outcome)


def _response(request: OffsetCommitRequest, denied: list[bool], codes: list[ErrorCode]) -> OffsetCommitResponse:
    """`codes` are in the order of the request's partitions that were not denied."""
    remaining = iter(codes)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse_OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse_OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED if refused else next(remaining),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic, refused in zip(request.topics, denied, strict=True)
        ]
    )
