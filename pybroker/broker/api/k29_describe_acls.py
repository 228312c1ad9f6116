"""DescribeAcls (key 29), versions 0–3: returns the ACLs that match a filter (KIP-140, KIP-290)."""

from __future__ import annotations

from pybroker.broker.admin.acls import AclAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclFilter, AclOperation, Authorizer
from pybroker.protocol.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponse_AclDescription,
    DescribeAclsResponse_DescribeAclsResource,
)

API_KEY = 29


def handle(
    acls: AclAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Return the entries. Needs DESCRIBE on the cluster."""
    authorizer.require_cluster(context, AclOperation.DESCRIBE)
    found = acls.describe(
        AclFilter(
            request.resource_type_filter,
            request.pattern_type_filter,
            request.resource_name_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
    )
    resources: dict[tuple[int, int, str], DescribeAclsResponse_DescribeAclsResource] = {}
    for binding in found:
        resource = resources.setdefault(
            binding.pattern,
            DescribeAclsResponse_DescribeAclsResource(
                resource_type=binding.resource_type,
                resource_name=binding.name,
                pattern_type=binding.pattern_type,
                acls=[],
            ),
        )
        resource.acls.append(
            DescribeAclsResponse_AclDescription(
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission,
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))
