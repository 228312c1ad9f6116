"""What the four requests about delegation tokens share (KIP-48): who may ask, and principals on the wire."""

from __future__ import annotations

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.requests.context import RequestContext

ANONYMOUS = "User:ANONYMOUS"


def require_password(context: RequestContext) -> None:
    """Raises DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: nobody knows who asks, or who asks has logged in by a token."""
    if context.by_token or context.principal == ANONYMOUS:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "Delegation tokens are for clients that have authenticated, and not by a token.",
        )


def type_and_name(principal: str) -> tuple[str, str]:
    """`User:alice` as the wire has it."""
    kind, _, name = principal.partition(":")
    return kind, name
