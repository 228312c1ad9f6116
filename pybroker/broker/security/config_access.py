"""The permission for configs: that of the topic or group itself, else the cluster's."""

from __future__ import annotations

from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.acls import AclOperation
from pybroker.broker.security.authorizer import Authorizer

TOPIC, GROUP = 2, 32
"""Kafka's codes of config resource types, which differ from those of ACLs."""


def require_configs(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, resource_type: int, name: str
) -> None:
    """Raise TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED unless the operation is permitted."""
    if resource_type == TOPIC:
        authorizer.require_topic(context, operation, name)
    elif resource_type == GROUP:
        authorizer.require_group(context, operation, name)
    else:
        authorizer.require_cluster(context, operation)
