"""DescribeClientQuotas (key 48), versions 0–1 (KIP-546)."""

from __future__ import annotations

from pybroker.broker.admin.quotas import Component, QuotaAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponse_EntityData,
    DescribeClientQuotasResponse_EntryData,
    DescribeClientQuotasResponse_ValueData,
)

API_KEY = 48


def handle(
    quotas: QuotaAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas from this broker's view of the cluster. Needs DESCRIBE_CONFIGS on the cluster."""
    components = [
        Component(component.entity_type, component.match_type, component.match) for component in request.components
    ]
    try:
        authorizer.require_cluster(context, AclOperation.DESCRIBE_CONFIGS)
        found = quotas.describe(components, strict=request.strict)
    except KafkaError as error:
        # As in Kafka: null, not an empty list, tells old clients of an error.
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            DescribeClientQuotasResponse_EntryData(
                entity=[
                    DescribeClientQuotasResponse_EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ],
                values=[
                    DescribeClientQuotasResponse_ValueData(key=key, value=value) for key, value in values.items()
                ],
            )
            for entity, values in found
        ],
    )
