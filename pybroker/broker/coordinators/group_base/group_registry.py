"""The interface of a group of any kind, and the registry of one shard's groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class GroupKind(StrEnum):
    """The kinds of groups, spelt as in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group:
    """A group of any kind. The defaults suit groups whose members have epochs (`EpochGroup`)."""

    __slots__ = ()

    kind: ClassVar[GroupKind]
    expires: ClassVar[bool] = True
    """Whether the group is deleted when it has neither members nor offsets."""

    group_id: str
    identity: object
    """An object that identifies the group even after the group changes its kind."""
    members: Mapping[str, Any]

    @property
    def state(self) -> StrEnum:
        """The state that DescribeGroups and ListGroups return."""
        raise NotImplementedError

    @property
    def listed_type(self) -> str:
        """The protocol type that ListGroups returns."""
        return self.kind.value

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def expects_members(self) -> bool:
        """Whether the group waits for clients to which it has assigned member ids. Such a group does not expire."""
        return False

    def require_empty(self) -> None:
        """Raise KafkaError NON_EMPTY_GROUP if the group has members."""
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} has members.")

    # --- offsets ------------------------------------------------------------------------------------------------------

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members may read the topic; offsets of such a topic do not expire."""
        raise NotImplementedError

    def check_commit(self, request: CommitRequest, topics: Topics) -> None:
        """Raise KafkaError if the group's state forbids the commit."""
        raise NotImplementedError

    def incarnation_error(
        self, request: CommitRequest, name: str, topic_id: Uuid, topics: Topics, removals: Removals
    ) -> ErrorCode | None:
        """Return the error if a commit by name may be for an earlier incarnation than `topic_id`; otherwise None."""
        return None

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Raise KafkaError if a member in this epoch must not fetch the group's offsets."""

    def check_offset_deletion(self) -> None:
        """Raise KafkaError if the group's kind or state forbids deletions of offsets."""

    def retained_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return the wall time (ms) at which the retention of an offset starts; None while the offset does not expire.
        """
        return commit_timestamp_ms


G = TypeVar("G", bound=Group)


class GroupRegistry:
    """The groups of one shard, of all kinds. There is at most one group for each id."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.creating: dict[str, GroupKind] = {}
        """Kinds of groups whose creation is being written. Until the write ends, a classic group with the same id may
        exist."""

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> Group | None:
        """Return a group as it is in the log."""
        return self._groups.get(group_id)

    def get_as(self, group_id: str, kind: type[G]) -> G | None:
        """Return a group as it is in the log, if it is of this kind."""
        group = self._groups.get(group_id)
        return group if isinstance(group, kind) else None

    def all_of(self, kind: type[G]) -> list[G]:
        """Return all groups of one kind."""
        return [group for group in self._groups.values() if isinstance(group, kind)]

    def kind(self, group_id: str) -> GroupKind | None:
        """Return the kind of a group, even if the group is still being created. Return None if there is no group."""
        group = self._groups.get(group_id)
        return self.creating.get(group_id) or (None if group is None else group.kind)

    def find(self, group_id: str, kind: type[G]) -> G:
        """Return a group of this kind. Raise KafkaError GROUP_ID_NOT_FOUND."""
        group = self.get_as(group_id, kind)
        if group is None:
            self.require(group_id, kind.kind)
            raise not_found(group_id)
        return group

    def require(
        self, group_id: str, *kinds: GroupKind, code: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND
    ) -> GroupKind | None:
        """Return the kind of a group; None if there is no group. Raise KafkaError `code` if the group has a kind that
        is not in `kinds`."""
        kind = self.kind(group_id)
        if kind is None or kind in kinds:
            return kind
        raise is_not(group_id, kinds[0], code)

    def put(self, group: Group) -> Group | None:
        """Add a group, or replace the group with the same id. Return the replaced group."""
        before = self._groups.get(group.group_id)
        self._groups[group.group_id] = group
        return before

    def remove(self, group_id: str) -> None:
        self._groups.pop(group_id, None)

    def clear(self) -> None:
        self._groups.clear()
        self.creating.clear()


def not_found(group_id: str, kind: GroupKind | None = None) -> KafkaError:
    """Return the error for a group that does not exist. As in Kafka, the message contains the kind only for streams
    groups."""
    what = "Streams group" if kind is GroupKind.STREAMS else "Group"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")


def is_not(group_id: str, kind: GroupKind, code: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> KafkaError:
    """Return the error for a group of another kind."""
    return KafkaError(code, f"Group {group_id} is not a {kind} group.")
