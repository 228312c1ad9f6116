"""The interface of a kind of group. Consumer, share and streams groups implement it, and differ in their records,
membership, assignment and timeouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pybroker.broker.coordinators.group_base.assignment_interval import AssignmentInterval
from pybroker.broker.coordinators.group_base.epoch_group import EpochGroup
from pybroker.broker.coordinators.group_base.group_registry import Group, GroupKind, GroupRegistry

Records = dict[bytes, bytes | None]
"""Key → value; None: a tombstone."""


Outcome = Any
"""The result of a change, or a KafkaError if the change was refused."""
Finish = Callable[[Any], Outcome]
Change = Callable[[Any], Finish]
"""Changes a copy of the group, or raises KafkaError before it changes the copy.

The returned function runs when the target assignment is known. It may change the copy again, and returns the result. It
raises KafkaError if a later change in the same batch has removed the member.
"""
Reply = Callable[[Outcome], None]


class EpochGroupManager(Protocol):
    """The methods of `EpochGroups` that a kind uses."""

    @property
    def registry(self) -> GroupRegistry: ...

    @property
    def interval(self) -> AssignmentInterval: ...

    def submit(self, group_id: str, change: Change, reply: Reply, *, of: GroupKind) -> None:
        """Change a group, which is created if it does not exist. See `ChangeBatches.submit`."""
        ...

    def submit_until_stored(self, group_id: str, change: Change, later: Callable[[Callable[[], None]], None]) -> None:
        """Change an existing group. See `ChangeBatches.submit_until_stored`."""
        ...

    def assign(self, group_id: str) -> None:
        """Compute the target assignment that the kind has delayed."""
        ...


class EpochHeartbeat(Protocol):
    """A heartbeat of a member with an epoch."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def is_plain(self) -> bool:
        """Whether the heartbeat carries none of the member's metadata (topics, topology, rack)."""
        ...

    @property
    def metadata(self) -> Any:
        """The member's metadata, as far as the heartbeat contains it."""
        ...


G = TypeVar("G", bound=EpochGroup[Any, Any])
H = TypeVar("H", bound=EpochHeartbeat)
R = TypeVar("R")


class EpochKind(ABC, Generic[G, H, R]):
    """The behaviour of one kind of group in one shard. `G`: type of the group; `H`: of a heartbeat; `R`: of its result.
    """

    group_type: ClassVar[type[Any]]
    result_type: ClassVar[type[Any]]
    """The class of results; its first two fields are the error code and the error message."""

    groups: EpochGroupManager

    def bind(self, groups: EpochGroupManager) -> None:
        """Set the manager. `EpochGroups` calls this method before all others."""
        self.groups = groups

    # --- records ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def changes(self, before: G | None, after: G) -> Records:
        """Return the records that turn one state in the log into another; `before` None: the log has no records of the
        group."""

    @abstractmethod
    def tombstones(self, group: G) -> Records:
        """Return tombstones for all records of a group."""

    # --- members ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def member_metadata(self, group: G) -> dict[str, Any]:
        """Return the members' metadata by member id, as immutable values. Metadata that all members have in common has
        the id SHARED."""

    def shared(self, beat: H) -> Any:
        """Return the part of a heartbeat's metadata that all members have in common; None if there is no such part."""
        return None

    def may_replace(self, classic: Group) -> bool:
        """Return whether the first member of this kind turns the classic group into a group of this kind."""
        return False

    @abstractmethod
    def answer(self, group: G, beat: H) -> R | None:
        """Return the result of a heartbeat that changes nothing. Return None if the heartbeat may change something.

        The caller has checked that the group has its target assignment, that topics have not changed, and that the
        heartbeat names the member's epoch.
        """

    @abstractmethod
    def join(self, draft: G, beat: H) -> Callable[[G], R]:
        """Add or update the member of a heartbeat. Raise KafkaError before changing anything.

        The returned function computes the result once the target assignment is known; it may change the draft again.
        """

    @abstractmethod
    def leave(self, draft: G, beat: H) -> R:
        """Remove the member of a heartbeat, or note that it leaves temporarily. Raise KafkaError before changing
        anything."""

    @abstractmethod
    def remove(self, draft: G, member_id: str) -> None:
        """Remove an existing member."""

    @abstractmethod
    def session_timeout_ms(self, group_id: str, member: Any) -> int:
        ...

    def revocation(self, member: Any) -> tuple[int, object] | None:
        """Return (rebalance timeout in ms, partitions or tasks that the member has to revoke); None: nothing to revoke.
        """
        return None

    # --- targets ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two target assignments."""

    def delays_target(self, draft: G) -> bool:
        """Return whether the next target assignment has to wait. When the wait is over, the kind calls
        `EpochGroupManager.assign`."""
        return False

    @abstractmethod
    def before_target(self, draft: G) -> None:
        """Update a draft before it gets a delayed target assignment."""

    @abstractmethod
    def assign(self, draft: G) -> None:
        """Compute the target assignment for the group's epoch."""

    # --- events -------------------------------------------------------------------------------------------------------

    def changed(self, group: G) -> None:
        """Called after a durable change of a group."""

    def ended(self, group_id: str) -> None:
        """Stop timers and tasks of a group that has changed to another kind or has left this broker."""
