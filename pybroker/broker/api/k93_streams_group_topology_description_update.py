"""StreamsGroupTopologyDescriptionUpdate (key 93), version 0: a member sends the topology of its application for a
plug-in.

Behavior
- Plug-ins are Java classes, so this broker has none. It never asks members for the request, and answers as a Kafka
  without a plug-in.
"""

from __future__ import annotations

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import StreamsGroupTopologyDescriptionUpdateRequest

API_KEY = 93


def handle(
    groups: GroupCoordinator,
    features: FeatureAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: StreamsGroupTopologyDescriptionUpdateRequest,
) -> None:
    """Refuse every request with KafkaError."""
    features.require_streams_groups()
    groups.require_served(GroupKind.STREAMS)
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION, "The broker has no streams group topology description plugin configured."
    )
