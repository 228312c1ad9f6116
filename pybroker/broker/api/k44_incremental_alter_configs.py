"""IncrementalAlterConfigs, versions 0 and 1 (KIP-339): SET, DELETE, APPEND and SUBTRACT on single settings.

v1 brought flexible encoding, and topics by id (`topic_ids`). Each resource succeeds or fails as a whole; a
resource that is named twice fails, as in Kafka.
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
    """One response for each resource, in the request's order."""
    resources = [
        (resource, tuple(ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs))
        for resource in request.resources
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
