"""DescribeDelegationToken (key 41), versions 0–3 (KIP-48).

Versions
- v3 returns who requested the token (KIP-373).
"""

from __future__ import annotations

from pybroker.broker.admin.delegation_tokens import TokenAdmin
from pybroker.broker.api.token_requests import parties, require_password, type_and_name
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeDelegationTokenResponse_DescribedDelegationToken,
    DescribeDelegationTokenResponse_DescribedDelegationTokenRenewer,
)

API_KEY = 41


def handle(
    tokens: TokenAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens that the client owns or may renew. Others need DESCRIBE on the token, or DESCRIBE_TOKENS on its
    owner.
    """

    def visible(token: DelegationToken) -> bool:
        return (
            token.may_be_changed_by(context.principal)
            or authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or authorizer.permits(context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )

    owners = None
    if request.owners is not None:
        owners = [f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners]
    try:
        require_password(context)
        found = tokens.describe(owners, visible)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code, tokens=[])
    return DescribeDelegationTokenResponse(tokens=[_shown(token, hmac) for token, hmac in found])


def _shown(token: DelegationToken, hmac: bytes) -> DescribeDelegationTokenResponse_DescribedDelegationToken:
    return DescribeDelegationTokenResponse_DescribedDelegationToken(
        **parties(token.owner, token.requester),
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribeDelegationTokenResponse_DescribedDelegationTokenRenewer(*type_and_name(renewer))
            for renewer in token.renewers
        ],
    )
