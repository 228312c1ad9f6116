"""ShareGroupHeartbeat (key 76), version 1: a member of a share group joins, stays, changes its subscription or leaves,
and receives its assignment (KIP-932).

Behavior
- The response leaves when its change is on disk. Most heartbeats change nothing.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.api.heartbeats import answered, client_host, filled, require_may_beat
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult, check_form
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponse_Assignment,
    ShareGroupHeartbeatResponse_TopicPartitions,
)

API_KEY = 76


def handle(
    groups: GroupCoordinator,
    features: FeatureAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: ShareGroupHeartbeatRequest,
) -> ShareGroupHeartbeatResponse | Coroutine[Any, Any, ShareGroupHeartbeatResponse]:
    """Return the response, or a coroutine if something has to be written first."""
    features.require_share_groups()
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    topics = request.subscribed_topic_names
    try:
        may_read = partial(authorizer.permits_topic, context, AclOperation.DESCRIBE)
        require_may_beat(request.group_id, topics or (), may_read)
        beat = ShareHeartbeat(
            request.member_id,
            request.member_epoch,
            context.client_id or "",
            client_host(context),
            request.rack_id,
            None if topics is None else tuple(sorted(set(topics))),
        )
        check_form(beat)
        outcome = groups.member_heartbeat(GroupKind.SHARE, request.group_id, beat)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return answered(outcome, _response)


def _response(result: ShareHeartbeatResult) -> ShareGroupHeartbeatResponse:
    made: ShareGroupHeartbeatResponse = filled(
        ShareGroupHeartbeatResponse(),
        ShareGroupHeartbeatResponse_Assignment,
        ShareGroupHeartbeatResponse_TopicPartitions,
        result,
    )
    return made
