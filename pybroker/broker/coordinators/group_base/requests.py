"""Requests of classic members, and offset commits of all members, independent of the protocol version."""

from __future__ import annotations

import msgspec

from pybroker.native import Uuid

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), in the member's order of preference."""

NO_REASON = "no reason given"
"""The reason in log lines for a request without a reason (KIP-800)."""


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
    """A member that leaves. A client names it by its member id, an administrator by its instance id alone."""

    member_id: str
    instance_id: str | None
    reason: str = NO_REASON


class CommitItem(msgspec.Struct, frozen=True, gc=False):
    """One partition of a commit. The topic is given by name or by id."""

    name: str | None
    topic_id: Uuid | None
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    timestamp_ms: int = -1
    """Commit time that the client has set (OffsetCommit 1); −1: the broker's time applies."""


class CommitRequest(msgspec.Struct, frozen=True):
    """An OffsetCommit, independent of its version."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    """−1: the client is not a member (an administrator, or a consumer that assigns its partitions itself)."""
    items: tuple[CommitItem, ...]
    retention_ms: int = -1
    knows_member_epochs: bool = False
    """OffsetCommit 9 or later: the client supports KIP-848."""
    producer: tuple[int, int] | None = None
    """(id, epoch) of the producer whose transaction contains the commit."""
