"""Membership changes of a share group: heartbeats, leaving members, expired sessions (KIP-932).

Pure functions that change a copy of the group. If a function raises KafkaError, it has not changed the copy.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.coordinators.group_base.epoch_group import JOINS, LEAVES
from pybroker.broker.coordinators.share.assignor import simple
from pybroker.broker.coordinators.share.group import Partition, ShareGroup, ShareGroupMember
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

MEMBER_ID_LENGTH_MAX = 36


class ShareHeartbeat(msgspec.Struct, frozen=True):
    """A ShareGroupHeartbeat. A field is None if it has not changed since the previous heartbeat."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None

    @property
    def metadata(self) -> tuple[object, ...]:
        """The member's subscription and rack, as far as the heartbeat contains them."""
        return self.client_id, self.client_host, self.rack_id, self.topics

    @property
    def is_plain(self) -> bool:
        """Whether the heartbeat contains only the member's id and epoch."""
        return self.topics is None and self.rack_id is None


class ShareHeartbeatResult(msgspec.Struct, frozen=True):
    """The result of a ShareGroupHeartbeat."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: frozenset[Partition] | None = None
    """The partitions of the member; None if they have not changed since the previous response."""


def check_form(beat: ShareHeartbeat) -> None:
    """Validate the fields that do not depend on the group. Raise KafkaError INVALID_REQUEST."""
    problem = None
    if not beat.member_id.strip():
        problem = "The member id is empty. A member chooses its own id."
    elif len(beat.member_id) > MEMBER_ID_LENGTH_MAX:
        problem = f"member_id is longer than {MEMBER_ID_LENGTH_MAX} characters, which is the length of a UUID's text."
    elif beat.rack_id == "":
        problem = "rack_id is empty. Send null if the member has no rack."
    elif beat.epoch == JOINS and not beat.topics:
        problem = "A member that joins must subscribe to topics."
    elif beat.epoch < LEAVES:
        problem = f"Invalid member epoch {beat.epoch}: the lowest is -1."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def enter(group: ShareGroup, beat: ShareHeartbeat, size_max: int) -> ShareGroupMember | None:
    """Add or update the member of a heartbeat, and raise the group epoch if the target assignment may change. Return
    the member's previous state.

    Raise KafkaError if the member is refused.
    """
    group.start_epochs()
    before = group.members.get(beat.member_id)
    if beat.epoch != JOINS:
        before = group.member(beat.member_id)
        if beat.epoch not in (before.epoch, before.previous_epoch):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"Member {beat.member_id} is in epoch {before.epoch}, not in {beat.epoch}. It must rejoin.",
            )
    elif before is None and len(group.members) >= size_max:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group already has {size_max} members (group.share.max.size)."
        )
    known = before or ShareGroupMember(beat.member_id, beat.client_id, beat.client_host)
    now = msgspec.structs.replace(
        known,
        client_id=beat.client_id,
        client_host=beat.client_host,
        rack_id=known.rack_id if beat.rack_id is None else beat.rack_id,
        topics=known.topics if beat.topics is None else beat.topics,
    )
    if now != before:
        group.members[beat.member_id] = now
    if before is None or before.topics != now.topics:
        group.epoch += 1
    return before


def remove(group: ShareGroup, member_id: str) -> None:
    """Remove a member. The next target assignment gives its partitions to other members. Raise KafkaError
    UNKNOWN_MEMBER_ID.
    """
    group.member(member_id)
    del group.members[member_id]
    group.target.pop(member_id, None)
    group.epoch += 1


def assign(group: ShareGroup, topics: Mapping[Uuid, tuple[str, int]], now_ms: int) -> None:
    """Compute the target assignment for the group epoch. topics: existing topics with name and partition count."""
    by_name = {
        name: frozenset((topic_id, index) for index in range(count) if group.has_state((topic_id, index)))
        for topic_id, (name, count) in topics.items()
    }
    wishes = {
        member.member_id: frozenset[Partition]().union(*(by_name.get(name, ()) for name in member.topics))
        for member in group.members.values()
    }
    group.target = simple(wishes, group.target)
    group.target_epoch = group.epoch
    # In an empty group, the first member gets its target assignment without waiting for the assignment interval.
    group.target_timestamp_ms = now_ms if group.members else 0


def progress(group: ShareGroup, member_id: str, topics: Mapping[Uuid, tuple[str, int]]) -> ShareGroupMember:
    """Give the member its target assignment.

    If the target assignment is outdated, omit topics to which the member no longer subscribes. topics: as in `assign`.
    Raise KafkaError UNKNOWN_MEMBER_ID if the member left in the same batch.
    """
    member, target = group.member(member_id), group.target.get(member_id, frozenset())
    if group.epoch > group.target_epoch:
        requested = {topic_id for topic_id, (name, _) in topics.items() if name in member.topics}
        target = frozenset(partition for partition in target if partition[0] in requested)
    moved = member.moved_to(group.target_epoch, target)
    group.members[member_id] = moved
    return moved
