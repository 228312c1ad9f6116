"""SaslAuthenticate (key 36), versions 0–2: carries the tokens of a SASL mechanism (KIP-152).

Versions
- v1 adds the session lifetime (KIP-368).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pybroker.broker.requests.context import LastResponse, LoginResponse, RequestContext
from pybroker.broker.security.sasl_mechanisms import SaslFailedError
from pybroker.broker.security.sasl_server import SaslServer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

API_KEY = 36

KEYS_WAIT_S = 5.0
"""Longest wait in seconds for an identity provider's keys before the token is refused."""

Answer = SaslAuthenticateResponse | LoginResponse | LastResponse


def handle(
    sasl: SaslServer, context: RequestContext, request: SaslAuthenticateRequest
) -> Answer | Coroutine[Any, Any, Answer]:
    """Respond to a token. If authentication fails, the broker sends the failure after a delay and closes the
    connection.
    """
    try:
        outcome = sasl.answer(context, request.auth_bytes)
    except SaslFailedError as problem:
        return _refuse(sasl.failure_delay_s, problem.message)
    except KafkaError as error:
        response = SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
        # On a listener without SASL, and after authentication, this request does not close the connection.
        harmless = context.sasl_authenticated or not sasl.mechanisms(context.listener)
        return response if harmless else LastResponse(response)
    if outcome.wait is not None:
        return _again(outcome.wait, sasl, context, request)
    if outcome.principal is None:
        return SaslAuthenticateResponse(auth_bytes=outcome.token)
    # Clients before version 1 cannot re-authenticate, so Kafka does not limit their session (KIP-368).
    lifetime = outcome.session_lifetime_ms if context.api_version >= 1 or outcome.must_end else None
    response = SaslAuthenticateResponse(auth_bytes=outcome.token, session_lifetime_ms=lifetime or 0)
    return LoginResponse(response, outcome.principal, outcome.by_token, lifetime)


async def _again(
    wait: asyncio.Future[None], sasl: SaslServer, context: RequestContext, request: SaslAuthenticateRequest
) -> Answer:
    """Evaluate the token again. A connection waits only once for an identity provider's keys. A key that is still
    missing after this wait does not exist.
    """
    await asyncio.wait([wait], timeout=KEYS_WAIT_S)
    answer = handle(sasl, context, request)
    return await answer if isinstance(answer, Coroutine) else answer


async def _refuse(delay_s: float, message: str) -> LastResponse:
    await asyncio.sleep(delay_s)
    return LastResponse(
        SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
    )
