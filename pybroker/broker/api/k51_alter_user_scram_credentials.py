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
            [*(deletion.name for deletion in request.deletions), *(upsertion.name for upsertion in request.upsertions)],
            refused,
        )
        return await _response(results, context)
    results = await users.alter(
        [
            CredentialDeletion(deletion.name, deletion.mechanism)
            async for deletion in context.turns.each(request.deletions)
        ],
        [
            Upsertion(
                upsertion.name, upsertion.mechanism, upsertion.iterations, upsertion.salt, upsertion.salted_password
            )
            async for upsertion in context.turns.each(request.upsertions)
        ],
        context.caller,
        context.turns,
    )
    return await _response(results, context)


async def _response(
    results: Mapping[str, KafkaError | None], context: RequestContext
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse_AlterUserScramCredentialsResult(
                user=name,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            async for name, error in context.turns.each(results.items())
        ]
    )
