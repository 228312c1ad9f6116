"""Which right the settings of a resource need: those of a topic or group its own, all others the cluster's."""

from __future__ import annotations

from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.acls import AclOperation
from pybroker.broker.security.authorizer import Authorizer

TOPIC, GROUP = 2, 32
"""Kafka's codes of config resources (not those of access control)."""


def require_configs(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, resource_type: int, name: str
) -> None:
    """Raises TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED."""
    if resource_type == TOPIC:
        authorizer.require_topic(context, operation, name)
    elif resource_type == GROUP:
        authorizer.require_group(context, operation, name)
    else:
        authorizer.require_cluster(context, operation)
