"""ListConfigResources (key 74), versions 0–1 (KIP-714, KIP-1142): lists resources that have settings.

Behavior
- Groups and client-metrics subscriptions are listed if they have settings of their own.

Versions
- v0 lists client-metrics subscriptions only.

Differs from Kafka
- It omits topics and groups that the client may not DESCRIBE.
"""

from __future__ import annotations

from pybroker.broker.admin.cluster_description import ClusterAdmin
from pybroker.broker.admin.config_changes import ResourceType
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.broker.security.authorizer import ResourceType as AclResourceType
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponse_ConfigResource,
)

API_KEY = 74

LISTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(
    cluster: ClusterAdmin,
    view: ClusterView,
    authorizer: Authorizer,
    context: RequestContext,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse:
    """Return the resources from this broker's view of the cluster. An unknown resource type answers
    UNSUPPORTED_VERSION.
    """
    if not authorizer.permits_on_cluster(context, AclOperation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    requested = tuple(dict.fromkeys(request.resource_types)) or LISTED
    if context.api_version == 0:
        requested = (ResourceType.CLIENT_METRICS,)
    if not set(requested) <= set(LISTED):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    found = []
    for kind in requested:
        for name in _names(kind, cluster, view, authorizer, context):
            found.append(ListConfigResourcesResponse_ConfigResource(resource_name=name, resource_type=kind))
    return ListConfigResourcesResponse(config_resources=found)


def _names(
    kind: int, cluster: ClusterAdmin, view: ClusterView, authorizer: Authorizer, context: RequestContext
) -> list[str]:
    if kind == ResourceType.TOPIC:
        return [name for name in sorted(view.image.topics) if authorizer.lists(context, AclResourceType.TOPIC, name)]
    if kind == ResourceType.GROUP:
        groups = sorted(name for name, stored in view.image.group_configs.items() if stored.config)
        return [name for name in groups if authorizer.lists(context, AclResourceType.GROUP, name)]
    if kind == ResourceType.CLIENT_METRICS:
        return sorted(name for name, stored in view.image.client_metrics.items() if stored.config)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker.broker_id) for broker in cluster.brokers(context.listener)]
    return []
