"""Code that the requests about delegation tokens (KIP-48) share: the permission to send them, and principals on the
wire."""

from __future__ import annotations

from typing import Any

from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

ANONYMOUS = "User:ANONYMOUS"


def require_password(context: RequestContext) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if the client is anonymous or has logged in with a token."""
    if context.by_token or context.principal == ANONYMOUS:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "Delegation tokens require a client that has authenticated without a delegation token.",
        )


def type_and_name(principal: str) -> tuple[str, str]:
    """Return `User:alice` as the type and name of the wire format."""
    kind, _, name = principal.partition(":")
    return kind, name


def parties(owner: str, requester: str) -> dict[str, Any]:
    """Return the response fields for the token's owner and requester."""
    kind, name = type_and_name(owner)
    asked_kind, asked_name = type_and_name(requester)
    return {
        "principal_type": kind,
        "principal_name": name,
        "token_requester_principal_type": asked_kind,
        "token_requester_principal_name": asked_name,
    }
