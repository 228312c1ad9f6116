"""DeleteAcls (key 31), versions 0–3: removes the ACLs that match filters (KIP-140, KIP-290)."""

from __future__ import annotations

from pybroker.broker.admin.acls import AclAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclBinding, AclFilter, AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponse_DeleteAclsFilterResult,
    DeleteAclsResponse_DeleteAclsMatchingAcl,
)

API_KEY = 31


async def handle(
    acls: AclAdmin, authorizer: Authorizer, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Respond when the entries are no longer in effect. Needs ALTER on the cluster."""
    authorizer.require_cluster(context, AclOperation.ALTER)
    filters = [
        AclFilter(
            entry.resource_type_filter,
            entry.pattern_type_filter,
            entry.resource_name_filter,
            entry.principal_filter,
            entry.host_filter,
            entry.operation,
            entry.permission_type,
        )
        async for entry in context.turns.each(request.filters)
    ]
    results = []
    async for outcome in context.turns.each(await acls.delete(filters, context.caller, context.turns)):
        if isinstance(outcome, KafkaError):
            results.append(
                DeleteAclsResponse_DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.message)
            )
        else:
            results.append(
                DeleteAclsResponse_DeleteAclsFilterResult(
                    error_message=None,
                    matching_acls=[_matching(binding) async for binding in context.turns.each(outcome)],
                )
            )
    return DeleteAclsResponse(filter_results=results)


def _matching(binding: AclBinding) -> DeleteAclsResponse_DeleteAclsMatchingAcl:
    return DeleteAclsResponse_DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=binding.resource_type,
        resource_name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
