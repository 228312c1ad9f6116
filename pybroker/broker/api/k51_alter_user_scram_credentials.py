"""AlterUserScramCredentials (key 51), version 0 (KIP-554).

Behavior
- The client sends salted passwords; the broker stores keys only.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.broker.admin.users import CredentialDeletion, Upsertion, UserAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponse_AlterUserScramCredentialsResult,
)

API_KEY = 51


async def handle(
    users: UserAdmin, authorizer: Authorizer, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Respond when the credentials are in effect. Needs ALTER on the cluster."""
    results: Mapping[str, KafkaError | None]
    if not authorizer.permits_on_cluster(context, AclOperation.ALTER):
        refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        results = dict.fromkeys(
            [*(one.name for one in request.deletions), *(one.name for one in request.upsertions)], refused
        )
        return _response(results)
    results = await users.alter(
        [CredentialDeletion(one.name, one.mechanism) for one in request.deletions],
        [
            Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
            for one in request.upsertions
        ],
        context.caller,
    )
    return _response(results)


def _response(results: Mapping[str, KafkaError | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse_AlterUserScramCredentialsResult(
                user=name,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in results.items()
        ]
    )
