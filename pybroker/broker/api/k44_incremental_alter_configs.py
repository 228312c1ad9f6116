"""IncrementalAlterConfigs (key 44), versions 0–1 (KIP-339): applies SET, DELETE, APPEND and SUBTRACT to settings.

Behavior
- Each resource succeeds or fails as a whole. A resource that is named twice fails, as in Kafka.

Versions
- v1 adds flexible encoding and topics by id (`topic_ids`).
"""

from __future__ import annotations

from pybroker.broker.admin.config_changes import ConfigOp
from pybroker.broker.admin.configs import ConfigAdmin
from pybroker.broker.api.altered_configs import altered
from pybroker.broker.api.topic_ids import Names
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponse_AlterConfigsResourceResponse,
)

API_KEY = 44


async def handle(
    configs: ConfigAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse:
    """Return one response for each resource, in the request's order."""
    resources = [
        (resource, tuple(ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs))
        async for resource in context.turns.each(request.resources)
    ]
    return IncrementalAlterConfigsResponse(
        responses=await altered(
            configs,
            names,
            authorizer,
            context,
            resources,
            validate_only=request.validate_only,
            row=IncrementalAlterConfigsResponse_AlterConfigsResourceResponse,
        )
    )
