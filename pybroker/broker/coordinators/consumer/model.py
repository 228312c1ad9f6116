"""The data types of a consumer group: subscriptions and member states. Immutable values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum

import msgspec

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

Partition = tuple[Uuid, int]
"""A partition of one incarnation of a topic."""

MayRead = Callable[[str], bool]
"""Returns whether the client may see a topic. Regular expressions match only topics that the client may see."""


class ConsumerGroupState(StrEnum):
    """The states, spelt as in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerMemberState(IntEnum):
    """Reconciliation states of members, numbered as Kafka stores them."""

    STABLE = 0
    """The member owns exactly its target assignment, or has not received the new target assignment yet."""
    UNREVOKED = 1
    """The member has to revoke partitions and has not confirmed the revocation yet."""
    UNRELEASED = 2
    """The member waits for partitions that other members have not revoked."""


class ClassicSide(msgspec.Struct, frozen=True):
    """The classic protocol data (JoinGroup, SyncGroup) of a member of a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), in the member's order of preference."""


class ConsumerSubscription(msgspec.Struct, frozen=True):
    """A member's subscription and settings; stored as ConsumerGroupMemberMetadata."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    """Topic names, sorted."""
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    """Set if the member uses the classic protocol; None: the consumer protocol (KIP-848)."""


class ConsumerMember(msgspec.Struct, frozen=True):
    member_id: str
    subscription: ConsumerSubscription
    epoch: int = 0
    """The epoch of the target assignment that the member has reached or moves to. GOES_AWAY: a static member that has
    left temporarily."""
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Mapping[Partition, int] = {}
    """Partitions that the member may read → the member epoch in which it got them."""
    revoking: Mapping[Partition, int] = {}
    """Partitions that the member has to revoke; it may still be reading them."""

    @property
    def instance_id(self) -> str | None:
        """The group.instance.id."""
        return self.subscription.instance_id

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.subscription.classic is not None

    def moved_to(self, epoch: int) -> ConsumerMember:
        """Return the member in an epoch. Its current epoch becomes its previous epoch, because the member repeats the
        old epoch if it loses the response. As in Kafka, an unchanged epoch becomes the previous epoch, too."""
        return msgspec.structs.replace(self, epoch=epoch, previous_epoch=self.epoch)

    def is_settled(self, target_epoch: int) -> bool:
        """Return whether the member owns exactly its target assignment."""
        return self.state is ConsumerMemberState.STABLE and self.epoch == target_epoch


class ResolvedRegex(msgspec.Struct, frozen=True):
    """The topics that a regular expression matched at its last check; stored as ConsumerGroupRegularExpression."""

    topics: tuple[str, ...]
    version: int
    """Version of this broker's topic view when the expression was matched. Other brokers count their versions
    independently."""
    timestamp_ms: int


class ConsumerHeartbeat(msgspec.Struct, frozen=True):
    """A ConsumerGroupHeartbeat, independent of its version. A field is None if it has not changed since the previous
    heartbeat."""

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
    may_read: MayRead = lambda _: True

    @property
    def metadata(self) -> ConsumerSubscription:
        """The member's subscription and settings, as far as the heartbeat contains them."""
        return ConsumerSubscription(
            self.client_id,
            self.client_host,
            self.instance_id,
            self.rack_id,
            self.topics or (),
            self.regex,
            assignor=self.assignor,
        )

    @property
    def is_full(self) -> bool:
        """Whether the heartbeat has all fields. Members send all fields when they join, or after a lost response."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topics is not None or self.regex is not None)
            and self.owned is not None
        )

    @property
    def is_plain(self) -> bool:
        """Whether the heartbeat contains only the member's id and epoch."""
        return (
            self.epoch > 0
            and self.owned is None
            and self.topics is None
            and self.regex is None
            and self.assignor is None
            and self.rack_id is None
            and self.rebalance_timeout_ms == -1
        )


class ConsumerHeartbeatResult(msgspec.Struct, frozen=True):
    """The result of a ConsumerGroupHeartbeat."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: frozenset[Partition] | None = None
    """The partitions of the member; None if they have not changed since the previous response."""
    cacheable: bool = False
    """Whether data threads may repeat this response for the same heartbeat, until the group changes."""
