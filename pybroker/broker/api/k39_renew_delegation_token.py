"""RenewDelegationToken (key 39), versions 0–2 (KIP-48): sets a token's expiry, within its maximum lifetime."""

from __future__ import annotations

from pybroker.broker.admin.delegation_tokens import TokenAdmin
from pybroker.broker.api.token_requests import require_password
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol.messages import RenewDelegationTokenRequest, RenewDelegationTokenResponse

API_KEY = 39


async def handle(
    tokens: TokenAdmin, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Respond when every broker knows the new expiry. Only the owner, the requester and the renewers may renew."""
    try:
        require_password(context)
        expires_ms = await tokens.renew(request.hmac, request.renew_period_ms, context.caller)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
