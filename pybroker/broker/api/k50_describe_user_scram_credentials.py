"""DescribeUserScramCredentials (key 50), version 0 (KIP-554): returns mechanisms and iterations, never keys or
salts."""

from __future__ import annotations

from pybroker.broker.admin.users import UserAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponse_CredentialInfo,
    DescribeUserScramCredentialsResponse_DescribeUserScramCredentialsResult,
)

API_KEY = 50

Result = DescribeUserScramCredentialsResponse_DescribeUserScramCredentialsResult


def handle(
    users: UserAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of the requested users; of all users if the request contains no names. Needs DESCRIBE on
    the cluster."""
    authorizer.require_cluster(context, AclOperation.DESCRIBE)
    names = None if request.users is None else [user.name for user in request.users]
    results = []
    for name, found in users.describe(names).items():
        if isinstance(found, KafkaError):
            results.append(Result(user=name, error_code=found.code, error_message=found.message, credential_infos=[]))
            continue
        infos = [
            DescribeUserScramCredentialsResponse_CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in found
        ]
        results.append(Result(user=name, error_message=None, credential_infos=infos))
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)
