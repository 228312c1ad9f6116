"""Who asks, and in which version: what a handler gets beside the decoded message."""

from __future__ import annotations

import msgspec


class RequestContext(msgspec.Struct, frozen=True):
    """Taken from the connection and the request's header."""

    api_key: int
    api_version: int
    client_id: str | None
    principal: str
    """"User:ANONYMOUS" without authentication."""
    listener: str
    client_host: str
    connection_id: int
