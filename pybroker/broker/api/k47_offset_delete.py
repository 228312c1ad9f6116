"""OffsetDelete (key 47), version 0: deletes committed offsets of topics that no member subscribes to (KIP-496)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponse_OffsetDeleteResponsePartition,
    OffsetDeleteResponse_OffsetDeleteResponseTopic,
)

API_KEY = 47


def handle(
    groups: GroupCoordinator, authorizer: Authorizer, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Coroutine[Any, Any, OffsetDeleteResponse]:
    """Respond when the tombstones are on disk. If the group has an error, the response has no partitions."""
    authorizer.require_group(context, AclOperation.DELETE, request.group_id)
    denied = {
        topic.name for topic in request.topics if not authorizer.permits_topic(context, AclOperation.READ, topic.name)
    }
    requested = [
        (topic.name, p.partition_index)
        for topic in request.topics
        if topic.name not in denied
        for p in topic.partitions
    ]
    try:
        outcome = groups.delete_offsets(request.group_id, requested)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    if isinstance(outcome, asyncio.Future):
        return _wait(request, denied, outcome)
    return _response(request, denied, outcome)


async def _wait(
    request: OffsetDeleteRequest, denied: set[str], outcome: asyncio.Future[list[ErrorCode]]
) -> OffsetDeleteResponse:
    return _response(request, denied, await outcome)


def _response(request: OffsetDeleteRequest, denied: set[str], codes: list[ErrorCode]) -> OffsetDeleteResponse:
    remaining = iter(codes)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse_OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponse_OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic.name in denied else next(remaining),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
