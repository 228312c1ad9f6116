"""OffsetDelete (key 47), version 0: forgets committed offsets of topics that no member of the group subscribes to
(KIP-496).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.context import RequestContext
from pybroker.coordinators.group.coordinator import GroupCoordinator
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
    groups: GroupCoordinator, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Coroutine[Any, Any, OffsetDeleteResponse]:
    """Answers when the tombstones are on disk. An error of the group stands at the top, and no partitions with it."""
    del context
    wanted = [(topic.name, p.partition_index) for topic in request.topics for p in topic.partitions]
    try:
        outcome = groups.delete_offsets(request.group_id, wanted)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    if isinstance(outcome, asyncio.Future):
        return _wait(request, outcome)
    return _response(request, outcome)


async def _wait(request: OffsetDeleteRequest, outcome: asyncio.Future[list[ErrorCode]]) -> OffsetDeleteResponse:
    return _response(request, await outcome)


def _response(request: OffsetDeleteRequest, codes: list[ErrorCode]) -> OffsetDeleteResponse:
    remaining = iter(codes)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse_OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponse_OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index, error_code=next(remaining)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
