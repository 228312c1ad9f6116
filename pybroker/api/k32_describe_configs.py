"""DescribeConfigs, versions 0 to 4: settings of topics, of this broker, of all brokers (broker with an empty
name), and logger levels.

v1 brought sources and synonyms, v3 types and documentation, v4 flexible encoding. Asked of another broker's
settings: INVALID_REQUEST,
as Kafka answers. Differs from Kafka in showing every synonym that decides a value (see `admin.config_views`),
and in knowing no
settings of client metrics or groups: these resource types answer INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pybroker.admin.config_views import ConfigEntry
from pybroker.admin.configs import ConfigAdmin
from pybroker.config import ConfigSource
from pybroker.context import RequestContext
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
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer
from pybroker.security.config_access import require_configs

API_KEY = 32


def handle(
    configs: ConfigAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """One result for each resource, in the request's order."""
    return DescribeConfigsResponse(
        results=[
            _describe(
                configs,
                partial(require_configs, authorizer, context, AclOperation.DESCRIBE_CONFIGS),
                resource,
                request.include_synonyms,
                request.include_documentation,
            )
            for resource in request.resources
        ]
    )


def _describe(
    configs: ConfigAdmin,
    require: Callable[[int, str], None],
    resource: DescribeConfigsRequest_DescribeConfigsResource,
    synonyms: bool,
    documentation: bool,
) -> DescribeConfigsResponse_DescribeConfigsResult:
    result = DescribeConfigsResponse_DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        require(resource.resource_type, resource.resource_name)
        entries = configs.describe(resource.resource_type, resource.resource_name, resource.configuration_keys)
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
            DescribeConfigsResponse_DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in (entry.synonyms if synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )
