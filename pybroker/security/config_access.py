"""Which right the settings of a resource need: those of a topic or group its own, all others the cluster's."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

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


def refused_configs(
    authorizer: Authorizer, context: RequestContext, resources: Sequence[tuple[int, str]]
) -> list[KafkaError | None]:
    """For each resource whose settings are to be altered the refusal, or None."""
    refused: list[KafkaError | None] = []
    for resource_type, name in resources:
        try:
            require_configs(authorizer, context, AclOperation.ALTER_CONFIGS, resource_type, name)
            refused.append(None)
        except KafkaError as error:
            refused.append(error)
    return refused
