"""AlterClientQuotas (key 49), versions 0–1 (KIP-546).

Behavior
- Each entity succeeds or fails by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.broker.admin.quotas import Alteration, QuotaAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponse_EntityData,
    AlterClientQuotasResponse_EntryData,
)

API_KEY = 49


async def handle(
    quotas: QuotaAdmin, authorizer: Authorizer, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Respond when every broker shows the change. Needs ALTER_CONFIGS on the cluster."""
    results: Sequence[KafkaError | None]
    if not authorizer.permits_on_cluster(context, AclOperation.ALTER_CONFIGS):
        refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        results = [refused] * len(request.entries)
    else:
        alterations = [
            Alteration(
                [(component.entity_type, component.entity_name) for component in entry.entity],
                [(op.key, None if op.remove else op.value) for op in entry.ops],
            )
            async for entry in context.turns.each(request.entries)
        ]
        results = await quotas.alter(alterations, context.caller, context.turns, validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponse_EntryData(
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
                entity=[
                    AlterClientQuotasResponse_EntityData(
                        entity_type=component.entity_type, entity_name=component.entity_name
                    )
                    for component in entry.entity
                ],
            )
            async for entry, error in context.turns.each(zip(request.entries, results, strict=True))
        ]
    )
