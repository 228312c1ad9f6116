"""DescribeCluster (key 60), versions 0–2.

Behavior
- A dead broker is listed as fenced, on request, while it is registered.
- Endpoint type 2 (controllers) lists the voters of the metadata quorum: brokers are controllers, too, and serve the
  controllers' requests at their listeners for clients.

Versions
- v1 adds the endpoint type: 1 means brokers; without a metadata quorum, 2 (controllers) is refused with
  MISMATCHED_ENDPOINT_TYPE. v2 includes fenced brokers on request (KIP-1073).
"""

from __future__ import annotations

from pybroker.broker.admin.cluster_description import OPERATIONS_NOT_ASKED, ClusterAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer, cluster_operations
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponse_DescribeClusterBroker,
)

API_KEY = 60

ENDPOINTS_OF_BROKERS = 1
ENDPOINTS_OF_CONTROLLERS = 2


def handle(
    cluster: ClusterAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Return the brokers that the metadata cache shows."""
    kind = request.endpoint_type
    listed = cluster.controllers(context.listener) if kind == ENDPOINTS_OF_CONTROLLERS else None
    if kind == ENDPOINTS_OF_BROKERS:
        listed = cluster.brokers(context.listener)
    if listed is None:
        known = kind == ENDPOINTS_OF_CONTROLLERS
        return DescribeClusterResponse(
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            error_message=f"This listener serves endpoint type {ENDPOINTS_OF_BROKERS} (brokers), not {kind}.",
        )
    with_fenced = request.include_fenced_brokers and kind == ENDPOINTS_OF_BROKERS
    fenced = cluster.fenced_brokers(context.listener) if with_fenced else []
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterResponse_DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                is_fenced=is_fenced,
            )
            for brokers, is_fenced in ((listed, False), (fenced, True))
            for broker in brokers
        ],
        endpoint_type=kind,
        cluster_authorized_operations=(
            cluster_operations(authorizer, context)
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )
