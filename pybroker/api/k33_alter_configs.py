"""AlterConfigs, versions 0 to 2: replaces all settings of a resource; what is not named goes back to its default.

v2 brought flexible encoding. Kafka calls it deprecated (KIP-339) in favour of IncrementalAlterConfigs.
"""

from __future__ import annotations

from pybroker.admin.config_changes import ConfigOp, OpType, ResourceOps
from pybroker.admin.configs import ConfigAdmin
from pybroker.api.altered_configs import altered
from pybroker.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponse_AlterConfigsResourceResponse,
)
from pybroker.requests.context import RequestContext
from pybroker.security.authorizer import Authorizer

API_KEY = 33


async def handle(
    configs: ConfigAdmin, authorizer: Authorizer, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """One response for each resource, in the request's order."""
    resources = [
        ResourceOps(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs),
            replace=True,
        )
        for resource in request.resources
    ]
    return AlterConfigsResponse(
        responses=await altered(
            configs,
            authorizer,
            context,
            resources,
            validate_only=request.validate_only,
            row=AlterConfigsResponse_AlterConfigsResourceResponse,
        )
    )
