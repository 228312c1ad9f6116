"""DescribeConfigs (key 32), versions 0–4: returns settings of topics, groups, client metrics, brokers and loggers.

Behavior
- A broker with an empty name means the defaults of all brokers. Settings of another broker answer INVALID_REQUEST, as
  in Kafka.

Versions
- v1 adds sources and synonyms, v3 types and documentation, v4 flexible encoding and topics by id (`topic_ids`).

Differs from Kafka
- It shows every synonym that determines a value (`admin.config_views`).
- If a request repeats a resource identically, the response contains it once: otherwise a few bytes of the request would
  cause 20 KB of response.
"""

from __future__ import annotations

from functools import partial

from pybroker.broker.admin.config_views import ConfigEntry
from pybroker.broker.admin.configs import ConfigAdmin
from pybroker.broker.api.altered_configs import meant_resource
from pybroker.broker.api.topic_ids import Names, ResolvedTopic
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, require_configs
from pybroker.config import ConfigSource
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequest_DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponse_DescribeConfigsResourceResult,
    DescribeConfigsResponse_DescribeConfigsResult,
    DescribeConfigsResponse_DescribeConfigsSynonym,
)

API_KEY = 32


async def handle(
    configs: ConfigAdmin, names: Names, authorizer: Authorizer, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Return one result for each resource, in the request's order."""
    require = partial(require_configs, authorizer, context, AclOperation.DESCRIBE_CONFIGS)
    asked = {
        (
            resource.resource_type,
            resource.resource_name,
            resource.topic_id,
            tuple(resource.configuration_keys or ()),
        ): resource
        for resource in request.resources
    }
    results: list[DescribeConfigsResponse_DescribeConfigsResult] = []
    # Describing one resource takes 0.5 to 2 ms, so other requests run between two resources.
    async for resource in context.turns.each(asked.values()):
        topic = meant_resource(names, resource, require)
        results.append(_describe(configs, topic, resource, request.include_synonyms, request.include_documentation))
    return DescribeConfigsResponse(results=results)


def _describe(
    configs: ConfigAdmin,
    meant: ResolvedTopic,
    resource: DescribeConfigsRequest_DescribeConfigsResource,
    synonyms: bool,
    documentation: bool,
) -> DescribeConfigsResponse_DescribeConfigsResult:
    result = DescribeConfigsResponse_DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=meant.asked, topic_id=meant.told_id
    )
    try:
        if meant.refused is not None:
            raise meant.refused
        entries = configs.describe(resource.resource_type, meant.name, resource.configuration_keys)
    except KafkaError as problem:
        result.error_code, result.error_message = problem.code, problem.message
        return result
    result.error_code = ErrorCode.NONE
    result.configs = [_shown(entry, synonyms, documentation) for entry in entries]
    return result


def _shown(
    entry: ConfigEntry, synonyms: bool, documentation: bool
) -> DescribeConfigsResponse_DescribeConfigsResourceResult:
    return DescribeConfigsResponse_DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse_DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in (entry.synonyms if synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )
