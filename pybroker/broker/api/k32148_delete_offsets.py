"""DeleteOffsets (key 32148, pybroker's own), version 0: OffsetDelete (key 47) by topic id.

Behavior
- Kafka's request has no flexible version, so it has no tagged field for an id.
- A client that sees this key in ApiVersions may also send topic ids in tagged fields (`topic_ids`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from pybroker.broker.api.topic_ids import Names, ResolvedTopic, meant
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    DeleteOffsetsResponse_DeleteOffsetsPartitionResult,
    DeleteOffsetsResponse_DeleteOffsetsTopicResult,
)

API_KEY = 32148

Asked = list[tuple[ResolvedTopic, list[int]]]


def handle(
    groups: GroupCoordinator,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: DeleteOffsetsRequest,
) -> DeleteOffsetsResponse | Coroutine[Any, Any, DeleteOffsetsResponse]:
    """Respond when the tombstones are on disk. If the group has an error, the response has no partitions."""
    authorizer.require_group(context, AclOperation.DELETE, request.group_id)
    require = partial(authorizer.require_topic, context, AclOperation.READ)
    asked = [
        (
            meant(names, topic.name, topic.topic_id, require),
            [partition.partition_index for partition in topic.partitions],
        )
        for topic in request.topics
    ]
    requested = [(topic.name, index) for topic, indexes in asked if topic.refused is None for index in indexes]
    try:
        outcome = groups.delete_offsets(request.group_id, requested)
    except KafkaError as error:
        return DeleteOffsetsResponse(error_code=error.code, error_message=error.message)
    if isinstance(outcome, asyncio.Future):
        return _wait(asked, outcome)
    return _response(asked, outcome)


async def _wait(asked: Asked, outcome: asyncio.Future[list[ErrorCode]]) -> DeleteOffsetsResponse:
    return _response(asked, await outcome)


def _response(asked: Asked, codes: list[ErrorCode]) -> DeleteOffsetsResponse:
    remaining = iter(codes)
    return DeleteOffsetsResponse(
        topics=[
            DeleteOffsetsResponse_DeleteOffsetsTopicResult(
                name=topic.asked,
                topic_id=topic.told_id,
                partitions=[
                    DeleteOffsetsResponse_DeleteOffsetsPartitionResult(
                        partition_index=index,
                        error_code=next(remaining) if topic.refused is None else topic.refused.code,
                        error_message=None if topic.refused is None else topic.refused.message,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in asked
        ]
    )
