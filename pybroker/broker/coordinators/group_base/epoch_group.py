"""The common parts of consumer, share and streams groups: member epochs and a target assignment.

    a change of members or topics ──► group epoch + 1
    group epoch > target epoch    ──► a new target assignment at the group epoch
    a member's heartbeat          ──► one step from its current to its target assignment
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from pybroker.broker.coordinators.group_base.group_registry import Group
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

JOINS, LEAVES, GOES_AWAY = 0, -1, -2
"""Special epochs in a heartbeat: a member joins, leaves, or (a static member) leaves temporarily."""

FIRST_EPOCH = 1


class EpochMember(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


M = TypeVar("M", bound=EpochMember)
T = TypeVar("T")


class EpochGroup(msgspec.Struct, Group, Generic[M, T], eq=False):
    """A group with epochs. `M`: the type of its members; `T`: the type of a member's target assignment.

    The values in its dictionaries are immutable. To change a group, change a copy (`fork`), and install it with
    `become` once the change is durable.
    """

    group_id: str
    identity: object = msgspec.field(default_factory=object)
    epoch: int = 0
    topics_hash: int = 0
    """Hash of the topics that the members subscribe to and their partition counts; 0: no topics."""
    target_epoch: int = 0
    target_timestamp_ms: int = 0
    """Wall time (ms) of the last target assignment. 0: compute the next one without delay."""
    target: dict[str, T] = {}
    members: dict[str, M] = {}
    instances: dict[str, str] = {}
    """group.instance.id → member id."""
    looked_at: int = -1
    """Version of the broker's topic view from which the group epoch was computed; −1: none."""
    successor: Mapping[bytes, bytes | None] | None = None
    """Records of the classic group that is to replace this group; None: the group keeps its kind."""

    def fork(self) -> Self:
        """Return a copy for changes."""
        copied = {
            name: value.copy() for name in self.__struct_fields__ if isinstance(value := getattr(self, name), dict)
        }
        return msgspec.structs.replace(self, **copied)

    def become(self, other: EpochGroup[M, T]) -> None:
        """Take over the state of a changed copy."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    def start_epochs(self) -> None:
        """Start a new group's epochs at 1 when its first member joins, as Kafka does.

        The first member then joins in epoch 2. Therefore a member that waits for the first target assignment has an
        epoch above 0.
        """
        if not self.epoch:
            self.epoch = self.target_epoch = FIRST_EPOCH

    # --- members ------------------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> M:
        """Return a member. Raise KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def instance(self, instance_id: str, member_id: str) -> M:
        """Return a static member with this member id. Raise KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        holder = self.instances.get(instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
            )
        return self.members[holder]

    # --- offsets ------------------------------------------------------------------------------------------------------

    def check_commit(self, request: CommitRequest, topics: Topics) -> None:
        """Check a commit by the member's epoch.

        A member may commit with an older epoch for partitions that it owned in that epoch and still owns. Raise
        KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION or UNSUPPORTED_VERSION.
        """
        if request.generation < 0:
            names_member = bool(request.member_id) or request.instance_id is not None
            if self.is_empty or (request.producer is not None and not names_member):
                return
        member = self.member(request.member_id)
        if request.producer is None and not request.knows_member_epochs and self.has_epoch(member):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "OffsetCommit version 9 or above must be used by members of this group."
            )
        self.check_instance(request)
        epoch = request.generation
        if epoch != member.epoch and not (epoch < member.epoch and self.has_owned(member, request, topics)):
            error = self.stale(member, epoch)
            # Kafka's producer fails fatally with STALE_MEMBER_EPOCH; with ILLEGAL_GENERATION it aborts the transaction.
            raise error if request.producer is None else KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message)

    def has_epoch(self, member: M) -> bool:
        """Return whether the member uses member epochs. Classic members use generations."""
        return True

    def check_instance(self, request: CommitRequest) -> None:
        """Check the instance id of a commit. Raise KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""

    def has_owned(self, member: M, request: CommitRequest, topics: Topics) -> bool:
        """Return whether the member owned the partitions of a commit in the commit's epoch, and still owns them."""
        raise NotImplementedError

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Raise KafkaError UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION if the member must not fetch
        offsets."""
        member = self.member(member_id)
        if epoch != member.epoch:
            raise self.stale(member, epoch)

    def stale(self, member: M, epoch: int) -> KafkaError:
        """Return the error for a member that names a wrong epoch."""
        return KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH if self.has_epoch(member) else ErrorCode.ILLEGAL_GENERATION,
            f"The member epoch {epoch} is not the one that the coordinator knows ({member.epoch}).",
        )
