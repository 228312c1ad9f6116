"""The client behind a request, for authorization and quotas.

When a broker forwards a request to the controller in an Envelope (KIP-590), the Envelope contains the client's
principal (as UTF-8 text) and the bytes of its address, as in Kafka. The fields that only quotas need are in the event's
message (SubmitEvent).
"""

from __future__ import annotations

import ipaddress

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """The client that sent a request."""

    principal: str
    host: str
    """The client's address."""
    client_id: str = ""
    """The client id from the request header."""
    slowed_only: bool = False
    """Whether the request's version is older than THROTTLING_QUOTA_EXCEEDED (KIP-599). If so, a client over its quota
    is throttled instead of refused."""


class UnreadableCallerError(ValueError):
    """The fields do not identify a client."""


def packed_caller(caller: Caller | None) -> tuple[bytes | None, bytes]:
    """Return `request_principal` and `client_host_address`; (None, b"") for a broker's own request."""
    if caller is None:
        return None, b""
    try:
        address = ipaddress.ip_address(caller.host).packed
    except ValueError:
        # The address is not an IP address, so ACLs of single hosts do not apply to the client, on either broker.
        address = b""
    return caller.principal.encode(), address


def unpacked_caller(
    principal: bytes | None, address: bytes, client_id: str = "", *, slowed_only: bool = False
) -> Caller | None:
    """Return the caller from `packed_caller`'s fields and the fields beside them. Raises UnreadableCallerError."""
    if principal is None:
        return None
    try:
        host = str(ipaddress.ip_address(address)) if address else ""
        return Caller(principal.decode(), host, client_id, slowed_only)
    except ValueError as problem:
        raise UnreadableCallerError(str(problem)) from None
