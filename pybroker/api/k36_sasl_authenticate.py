"""SaslAuthenticate, versions 0–2: the tokens of a mechanism (KIP-152), and how long the session lasts (KIP-368, v1)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from pybroker.requests.context import Authenticated, LastResponse, RequestContext
from pybroker.security.mechanisms import AuthenticationError
from pybroker.security.sasl import SaslServer

API_KEY = 36


def handle(
    sasl: SaslServer, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Authenticated | LastResponse | Coroutine[Any, Any, LastResponse]:
    """A failure is told late, and ends the connection."""
    try:
        outcome = sasl.answer(context, request.auth_bytes)
    except AuthenticationError as problem:
        return _refuse(sasl.failure_delay_s, problem.message)
    except KafkaError as error:
        response = SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
        # On a listener without SASL, and after authentication, the connection is none the worse for it.
        harmless = context.sasl_authenticated or not sasl.mechanisms(context.listener)
        return response if harmless else LastResponse(response)
    if outcome.principal is None:
        return SaslAuthenticateResponse(auth_bytes=outcome.token)
    # Clients before version 1 cannot authenticate again, and Kafka lets them be (KIP-368).
    # Nobody outlives a delegation token.
    lifetime = outcome.session_lifetime_ms if context.api_version >= 1 or outcome.by_token else None
    response = SaslAuthenticateResponse(auth_bytes=outcome.token, session_lifetime_ms=lifetime or 0)
    return Authenticated(response, outcome.principal, outcome.by_token, lifetime)


async def _refuse(delay_s: float, message: str) -> LastResponse:
    await asyncio.sleep(delay_s)
    return LastResponse(
        SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
    )
