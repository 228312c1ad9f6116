"""ExpireDelegationToken (key 40), versions 0–2 (KIP-48): shortens a token's expiry.

Behavior
- A negative period removes the token at once.
"""

from __future__ import annotations

from pybroker.broker.admin.delegation_tokens import TokenAdmin
from pybroker.broker.api.token_requests import require_password
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol.messages import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

API_KEY = 40


async def handle(
    tokens: TokenAdmin, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Respond when every broker knows the new expiry. Only the owner, the requester and the renewers may change it."""
    try:
        require_password(context)
        expires_ms = await tokens.expire(request.hmac, request.expiry_time_period_ms, context.caller)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
