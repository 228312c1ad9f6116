"""AlterConfigs (key 33), versions 0–2: replaces all settings of a resource; omitted settings return to their defaults.

Behavior
- Kafka deprecates it in favour of IncrementalAlterConfigs (KIP-339).

Versions
- v2 adds flexible encoding and topics by id (`topic_ids`).
"""

from __future__ import annotations

from pybroker.broker.admin.config_changes import ConfigOp, OpType
from pybroker.broker.admin.configs import ConfigAdmin
from pybroker.broker.api.altered_configs import altered
from pybroker.broker.api.topic_ids import Names
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponse_AlterConfigsResourceResponse,
)

API_KEY = 33


async def handle(
    configs: ConfigAdmin, names: Names, authorizer: Authorizer, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Return one response for each resource, in the request's order."""
    resources = [
        (resource, tuple(ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs))
        async for resource in context.turns.each(request.resources)
    ]
    return AlterConfigsResponse(
        responses=await altered(
            configs,
            names,
            authorizer,
            context,
            resources,
            replace=True,
            validate_only=request.validate_only,
            row=AlterConfigsResponse_AlterConfigsResourceResponse,
        )
    )
