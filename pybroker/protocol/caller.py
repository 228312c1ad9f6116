"""A client, as rights and quotas know it, and how it stands in Envelope's two fields for it when its request is
forwarded (KIP-590): its principal, here as text in UTF-8, and the bytes of its address, as Kafka sends them. What only
quotas want to know goes beside the event (SubmitEvent)."""

from __future__ import annotations

import ipaddress

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """Who wants something."""

    principal: str
    host: str
    """Its address."""
    client_id: str = ""
    """What it calls itself."""
    slowed_only: bool = False
    """Its request is of a version from before THROTTLING_QUOTA_EXCEEDED (KIP-599): over its quota it is told to wait,
    and not refused."""


class UnreadableCallerError(ValueError):
    """The fields name nobody."""


def packed_caller(caller: Caller | None) -> tuple[bytes | None, bytes]:
    """`request_principal` and `client_host_address`; (None, b"") where a broker asks by itself."""
    if caller is None:
        return None, b""
    try:
        address = ipaddress.ip_address(caller.host).packed
    except ValueError:
        # Not an address: what is permitted or denied to single hosts does not concern it, here as there.
        address = b""
    return caller.principal.encode(), address


def unpacked_caller(
    principal: bytes | None, address: bytes, client_id: str = "", *, slowed_only: bool = False
) -> Caller | None:
    """What `packed_caller` has packed, and what went beside it. Raises UnreadableCallerError."""
    if principal is None:
        return None
    try:
        host = str(ipaddress.ip_address(address)) if address else ""
        return Caller(principal.decode(), host, client_id, slowed_only)
    except ValueError as problem:
        raise UnreadableCallerError(str(problem)) from None
