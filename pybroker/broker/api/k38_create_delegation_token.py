"""CreateDelegationToken (key 38), versions 0–3 (KIP-48).

Versions
- v3 may name another owner (KIP-373).
"""

from __future__ import annotations

from pybroker.broker.admin.delegation_tokens import TokenAdmin
from pybroker.broker.api.token_requests import parties, require_password
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import CreateDelegationTokenRequest, CreateDelegationTokenResponse

API_KEY = 38


async def handle(
    tokens: TokenAdmin, authorizer: Authorizer, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Respond when every broker knows the token. Needs CREATE_TOKENS on the owner, if that is another user."""
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    try:
        require_password(context)
        if owner != context.principal and not authorizer.permits(
            context, AclOperation.CREATE_TOKENS, ResourceType.USER, owner
        ):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
        token, hmac = await tokens.create(owner, renewers, request.max_lifetime_ms, context.caller)
    except KafkaError as error:
        return CreateDelegationTokenResponse(
            error_code=error.code,
            **parties(owner, context.principal),
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        )
    return CreateDelegationTokenResponse(
        **parties(token.owner, token.requester),
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
    )
