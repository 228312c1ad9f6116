"""What AlterConfigs (key 33) and IncrementalAlterConfigs (key 44) have in common: they ask for different changes, and
answer alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pybroker.admin.config_changes import ResourceOps
from pybroker.admin.configs import ConfigAdmin
from pybroker.requests.context import RequestContext
from pybroker.security.authorizer import Authorizer
from pybroker.security.config_access import alter_permitted

Row = TypeVar("Row")


async def altered(
    configs: ConfigAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    resources: Sequence[ResourceOps],
    *,
    validate_only: bool,
    row: Callable[..., Row],
) -> list[Row]:
    """Changes the settings of those resources for which the client has the right. One row of the response for each, in
    the request's order; `row` is its class."""
    results = await alter_permitted(
        authorizer,
        context,
        resources,
        lambda permitted: configs.alter(permitted, validate_only, context.caller),
    )
    return [
        row(
            error_code=problem.code if problem is not None else 0,
            error_message=problem.message if problem is not None else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, problem in zip(resources, results, strict=True)
    ]
