"""Requests of classic group members, independent of their versions."""

from __future__ import annotations

import msgspec

from pybroker.broker.coordinators.group.group import Protocols

NO_REASON = "no reason given"
"""The reason in log lines for clients that give none (KIP-800)."""


class JoinRequest(msgspec.Struct, frozen=True):
    """A JoinGroup, independent of its version."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    requires_known_member_id: bool
    supports_skipping_assignment: bool
    reason: str = NO_REASON


class SyncRequest(msgspec.Struct, frozen=True):
    """A SyncGroup, independent of its version."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


class LeavingMember(msgspec.Struct, frozen=True):
    """A member that leaves: named by member id, or (by an administrator) by instance id alone."""

    member_id: str
    instance_id: str | None
    reason: str = NO_REASON
