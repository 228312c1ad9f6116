"""What members ask of their group, free of versions."""

from __future__ import annotations

import msgspec

from pybroker.broker.coordinators.group.group import Protocols

NO_REASON = "no reason given"
"""What the log says where a client names none (KIP-800)."""


class JoinRequest(msgspec.Struct, frozen=True):
    """A JoinGroup, free of versions."""

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
    """A SyncGroup, free of versions."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


class LeavingMember(msgspec.Struct, frozen=True):
    """Who leaves: by member id, or (an administrator) by instance id alone."""

    member_id: str
    instance_id: str | None
    reason: str = NO_REASON
