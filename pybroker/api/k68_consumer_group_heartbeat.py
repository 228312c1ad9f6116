"""ConsumerGroupHeartbeat (key 68), versions 0–1: a member of a consumer group joins, lives, tells what changed, leaves,
and is told what it may read (KIP-848).

v1 has subscription by regular expression, and members make their ids themselves (KIP-1082). Answered when what it
changes is on disk; most heartbeats change nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.admin.features import FeatureAdmin
from pybroker.coordinators.consumer.membership import check_form
from pybroker.coordinators.consumer.model import Heartbeat, HeartbeatResult
from pybroker.coordinators.consumer.records import by_topic
from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponse_Assignment,
    ConsumerGroupHeartbeatResponse_TopicPartitions,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 68


def handle(
    groups: GroupCoordinator,
    features: FeatureAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    """Answers at once when nothing has to be written."""
    features.require_consumer_groups()
    authorizer.require_group(context, AclOperation.READ, request.group_id)

    def may_read(name: str) -> bool:
        return authorizer.permits_topic(context, AclOperation.DESCRIBE, name)

    try:
        if not all(may_read(name) for name in request.subscribed_topic_names or ()):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The group id is empty.")
        beat = _heartbeat(context, request)
        check_form(beat, groups.assignors, own_id_required=context.api_version >= 1)
        outcome = groups.consumer_heartbeat(request.group_id, beat, may_read)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if isinstance(outcome, asyncio.Future):
        return _wait(outcome)
    return _response(outcome)


def _heartbeat(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Heartbeat:
    topics, owned = request.subscribed_topic_names, request.topic_partitions
    return Heartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        # As Java prints an address that was not looked up; tools cut the slash off.
        client_host=f"/{context.client_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if topics is None else tuple(sorted(set(topics))),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((topic.topic_id, partition) for topic in owned for partition in topic.partitions),
    )


async def _wait(outcome: asyncio.Future[HeartbeatResult]) -> ConsumerGroupHeartbeatResponse:
    return _response(await outcome)


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
    )
    if result.assigned is not None:
        response.assignment = ConsumerGroupHeartbeatResponse_Assignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponse_TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(result.assigned)
            ]
        )
    return response
