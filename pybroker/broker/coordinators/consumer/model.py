"""The nouns of a consumer group: what a member says, and how far it has come. Immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

import msgspec

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

Partition = tuple[Uuid, int]
"""A partition of one incarnation of a topic."""

JOINS, LEAVES, GOES_AWAY = 0, -1, -2
"""Epochs with a meaning of their own in a heartbeat: a member joins, leaves for ever, or (a static one) for a while."""


class GroupState(StrEnum):
    """The states, spelt as ConsumerGroupDescribe and ListGroups print them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """How far a member is, by the numbers that Kafka stores."""

    STABLE = 1
    """It has what the latest target gives it, or nobody has told it of a newer one."""
    UNREVOKED = 2
    """It was told to give partitions back and has not said yet that it did."""
    UNRELEASED = 3
    """It waits for partitions that others have not given back."""


class ClassicSide(msgspec.Struct, frozen=True):
    """What a member has that speaks the classic protocol (JoinGroup, SyncGroup) in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in its order of preference."""


class Subscription(msgspec.Struct, frozen=True):
    """What a member says of itself; stored as ConsumerGroupMemberMetadata."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    """Names, sorted."""
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    """None: it heartbeats as KIP-848 says."""


class Member(msgspec.Struct, frozen=True):
    """One member."""

    member_id: str
    subscription: Subscription
    epoch: int = 0
    """The target epoch that it has reached, or is on its way to; GOES_AWAY of a static member that is away."""
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Partition, int] = {}
    """What it may read → the member epoch at which it got it."""
    revoking: Mapping[Partition, int] = {}
    """What it was told to give back, and may still read."""

    @property
    def instance_id(self) -> str | None:
        """Its group.instance.id."""
        return self.subscription.instance_id

    @property
    def is_classic(self) -> bool:
        """It speaks the classic protocol."""
        return self.subscription.classic is not None

    def moved_to(self, epoch: int) -> Member:
        """The same at another epoch; the one before is remembered, as the answer that tells the new one may be lost.
        """
        return self if epoch == self.epoch else msgspec.structs.replace(self, epoch=epoch, previous_epoch=self.epoch)

    def is_settled(self, target_epoch: int) -> bool:
        """It has everything that the target gives it and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class Resolved(msgspec.Struct, frozen=True):
    """What a regular expression matched when it was looked at last; stored as ConsumerGroupRegularExpression."""

    topics: tuple[str, ...]
    version: int
    """Of the broker's view of topics; says nothing to another broker."""
    timestamp_ms: int


class Heartbeat(msgspec.Struct, frozen=True):
    """A ConsumerGroupHeartbeat, free of versions. None: as in the heartbeat before."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[Partition] | None = None

    @property
    def is_full(self) -> bool:
        """It tells everything: the member joins, or does not know whether it was heard."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topics is not None or self.regex is not None)
            and self.owned is not None
        )

    @property
    def is_plain(self) -> bool:
        """It tells nothing but that the member lives, in its epoch."""
        return (
            self.epoch > 0
            and self.owned is None
            and self.topics is None
            and self.regex is None
            and self.assignor is None
            and self.rack_id is None
            and self.rebalance_timeout_ms == -1
        )


class HeartbeatResult(msgspec.Struct, frozen=True):
    """What a ConsumerGroupHeartbeat is answered with."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: frozenset[Partition] | None = None
    """None: as it was told before."""
    stands: bool = False
    """The same heartbeat is answered so until something happens to the group."""
