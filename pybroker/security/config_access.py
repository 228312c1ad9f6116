"""Which right the settings of a resource need: those of a topic or group its own, all others the cluster's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from pybroker.errors import KafkaError
from pybroker.requests.context import RequestContext
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


class Resource(Protocol):
    """What has settings."""

    @property
    def resource_type(self) -> int:
        """Kafka's code."""
        ...

    @property
    def resource_name(self) -> str:
        """Its name, or its id as text."""
        ...


Changed = TypeVar("Changed", bound=Resource)


async def alter_permitted(
    authorizer: Authorizer,
    context: RequestContext,
    resources: Sequence[Changed],
    alter: Callable[[list[Changed]], Awaitable[Sequence[KafkaError | None]]],
) -> list[KafkaError | None]:
    """Alters the settings of those resources for which the client has the right; for each its error or None, in
    order."""
    results: list[KafkaError | None] = []
    permitted: list[Changed] = []
    for resource in resources:
        try:
            require_configs(
                authorizer, context, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name
            )
        except KafkaError as error:
            results.append(error)
        else:
            permitted.append(resource)
            results.append(None)
    altered = iter(await alter(permitted))
    return [error if error is not None else next(altered) for error in results]
