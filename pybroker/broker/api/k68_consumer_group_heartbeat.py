"""ConsumerGroupHeartbeat (key 68), versions 0–1: a member of a consumer group joins, stays, changes its subscription or
leaves, and receives its assignment (KIP-848).

Behavior
- The response leaves when its change is on disk. Most heartbeats change nothing, and data threads repeat their response
  (`coordinators.shards.cached_responses`).

Versions
- v1 adds subscription by regular expression, and members choose their own ids (KIP-1082).
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from msgspec import structs

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.api.heartbeats import answered, client_host, filled, require_may_beat
from pybroker.broker.coordinators.consumer.membership import check_form
from pybroker.broker.coordinators.consumer.model import ConsumerHeartbeat, ConsumerHeartbeatResult, MayRead
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.requests.context import CacheableResponse, RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponse_Assignment,
    ConsumerGroupHeartbeatResponse_TopicPartitions,
)

API_KEY = 68


def handle(
    groups: GroupCoordinator,
    features: FeatureAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse | CacheableResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    """Return the response, or a coroutine if something has to be written first."""
    features.require_consumer_groups()
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    may_read = partial(authorizer.permits_topic, context, AclOperation.DESCRIBE)
    try:
        require_may_beat(request.group_id, request.subscribed_topic_names or (), may_read)
        beat = _heartbeat(context, request, may_read)
        check_form(beat, groups.assignors, own_id_required=context.api_version >= 1)
        if not beat.member_id:
            beat = structs.replace(beat, member_id=str(Uuid.random()))
        groups.require_served(GroupKind.CONSUMER)
        outcome = groups.member_heartbeat(GroupKind.CONSUMER, request.group_id, beat)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if isinstance(outcome, ConsumerHeartbeatResult) and outcome.cacheable:
        answers = groups.cached_consumer_responses(request.group_id)
        return CacheableResponse(_response(outcome), request.group_id, partial(answers.keep, beat.member_id))
    return answered(outcome, _response)


def _heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, may_read: MayRead
) -> ConsumerHeartbeat:
    topics, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=client_host(context),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if topics is None else tuple(sorted(set(topics))),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((topic.topic_id, partition) for topic in owned for partition in topic.partitions),
        may_read=may_read,
    )


def _response(result: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    made: ConsumerGroupHeartbeatResponse = filled(
        ConsumerGroupHeartbeatResponse(),
        ConsumerGroupHeartbeatResponse_Assignment,
        ConsumerGroupHeartbeatResponse_TopicPartitions,
        result,
    )
    return made
