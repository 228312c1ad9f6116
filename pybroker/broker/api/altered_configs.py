"""Code that AlterConfigs (33), IncrementalAlterConfigs (44) and DescribeConfigs (32) share: topic resources by name or
id, and the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from pybroker.broker.admin.config_changes import ConfigOp, ResourceOps
from pybroker.broker.admin.configs import ConfigAdmin
from pybroker.broker.api.topic_ids import Names, ResolvedTopic, meant
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import TOPIC, AclOperation, Authorizer, require_configs
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

Row = TypeVar("Row")


class Resource(Protocol):
    """A resource in a request."""

    @property
    def resource_type(self) -> int:
        """The resource type, numbered as in Kafka."""
        ...

    @property
    def resource_name(self) -> str:
        """The name of the resource."""
        ...

    @property
    def topic_id(self) -> Uuid:
        """ZERO: the request has no id."""
        ...


def meant_resource(names: Names, resource: Resource, require: Callable[[int, str], None]) -> ResolvedTopic:
    """Resolve the resource of a request; only topics have ids. `require` checks the client's permission and raises
    KafkaError if it is missing.
    """
    authorize = partial(require, resource.resource_type)
    if resource.resource_type == TOPIC:
        return meant(names, resource.resource_name, resource.topic_id, authorize)
    found = meant(names, resource.resource_name, Uuid.ZERO, authorize)
    if resource.topic_id != Uuid.ZERO and found.refused is None:
        of_no_topic = KafkaError(ErrorCode.INVALID_REQUEST, "The resource has a topic id but is not a topic.")
        return found._replace(refused=of_no_topic)
    return found


async def altered(
    configs: ConfigAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    resources: Sequence[tuple[Resource, tuple[ConfigOp, ...]]],
    *,
    replace: bool = False,
    validate_only: bool,
    row: Callable[..., Row],
) -> list[Row]:
    """Change the settings of the resources that the client may alter. Return one row of class `row` for each resource,
    in the request's order.
    """
    require = partial(require_configs, authorizer, context, AclOperation.ALTER_CONFIGS)
    asked = [meant_resource(names, resource, require) async for resource, _ in context.turns.each(resources)]
    permitted = [
        ResourceOps(resource.resource_type, entity.name, ops, replace, entity.topic_id)
        async for entity, (resource, ops) in context.turns.each(zip(asked, resources, strict=True))
        if entity.refused is None
    ]
    outcomes = iter(await configs.alter(permitted, validate_only, context.caller, context.turns))
    results = [entity.refused if entity.refused is not None else entity.outcome(next(outcomes)) for entity in asked]
    return [
        row(
            error_code=problem.code if problem is not None else 0,
            error_message=problem.message if problem is not None else None,
            resource_type=resource.resource_type,
            resource_name=entity.asked,
            topic_id=entity.told_id,
        )
        async for entity, (resource, _), problem in context.turns.each(zip(asked, resources, results, strict=True))
    ]
