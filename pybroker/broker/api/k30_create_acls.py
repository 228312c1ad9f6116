"""CreateAcls (key 30), versions 0–3: adds ACLs (KIP-140, KIP-290)."""

from __future__ import annotations

from pybroker.broker.admin.acls import AclAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclBinding, AclOperation, Authorizer
from pybroker.protocol.messages import CreateAclsRequest, CreateAclsResponse, CreateAclsResponse_AclCreationResult

API_KEY = 30


async def handle(
    acls: AclAdmin, authorizer: Authorizer, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Respond when the entries are in effect. Needs ALTER on the cluster."""
    authorizer.require_cluster(context, AclOperation.ALTER)
    bindings = [
        AclBinding(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.resource_name,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        async for creation in context.turns.each(request.creations)
    ]
    problems = await acls.create(bindings, context.caller, context.turns)
    return CreateAclsResponse(
        results=[
            CreateAclsResponse_AclCreationResult(error_message=None)
            if problem is None
            else CreateAclsResponse_AclCreationResult(error_code=problem.code, error_message=problem.message)
            async for problem in context.turns.each(problems)
        ]
    )
