"""ShareGroupHeartbeat (key 76), version 1: a member of a share group joins, lives, tells what it subscribes to, leaves,
and is told what it may read (KIP-932). Answered when what it changes is on disk; most heartbeats change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.admin.features import FeatureAdmin
from pybroker.coordinators.consumer.records import by_topic
from pybroker.coordinators.group.share import ShareCoordination
from pybroker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult, check_form
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponse_Assignment,
    ShareGroupHeartbeatResponse_TopicPartitions,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 76


def handle(
    shares: ShareCoordination,
    features: FeatureAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: ShareGroupHeartbeatRequest,
) -> ShareGroupHeartbeatResponse | Coroutine[Any, Any, ShareGroupHeartbeatResponse]:
    """Answers at once when nothing has to be written."""
    features.require_share_groups()
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    topics = request.subscribed_topic_names
    try:
        if not all(authorizer.permits_topic(context, AclOperation.DESCRIBE, name) for name in topics or ()):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The group id is empty.")
        beat = ShareHeartbeat(
            request.member_id,
            request.member_epoch,
            context.client_id or "",
            # As Java prints an address that was not looked up; tools cut the slash off.
            f"/{context.client_host}",
            request.rack_id,
            None if topics is None else tuple(sorted(set(topics))),
        )
        check_form(beat)
        outcome = shares.heartbeat(request.group_id, beat)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if isinstance(outcome, asyncio.Future):
        return _wait(outcome)
    return _response(outcome)


async def _wait(outcome: asyncio.Future[ShareHeartbeatResult]) -> ShareGroupHeartbeatResponse:
    return _response(await outcome)


def _response(result: ShareHeartbeatResult) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
    )
    if result.assigned is not None:
        response.assignment = ShareGroupHeartbeatResponse_Assignment(
            topic_partitions=[
                ShareGroupHeartbeatResponse_TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(result.assigned)
            ]
        )
    return response
