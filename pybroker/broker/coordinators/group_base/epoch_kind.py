"""What consumer, share and streams groups do in their own ways: records, membership, assignment, timeouts."""

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
"""The result of a change; a KafkaError if the change was refused."""
Finish = Callable[[Any], Outcome]
Change = Callable[[Any], Finish]
"""Changes the copy, or raises KafkaError before changing it.

The returned function is called when the target is known. It may change the copy again, and returns the result or
raises KafkaError: a later change of the same batch may have removed its member.
"""
Reply = Callable[[Outcome], None]


class EpochGroupManager(Protocol):
    """What a kind asks of the manager of all kinds (`EpochGroups`)."""

    @property
    def registry(self) -> GroupRegistry: ...

    @property
    def interval(self) -> AssignmentInterval: ...

    def submit(self, group_id: str, change: Change, reply: Reply, *, of: GroupKind) -> None:
        """Change a group, which is created if it does not exist; see `ChangeBatches`."""
        ...

    def submit_until_stored(self, group_id: str, change: Change, later: Callable[[Callable[[], None]], None]) -> None:
        """Change an existing group; see `ChangeBatches`."""
        ...

    def assign(self, group_id: str) -> None:
        """Compute the target that the kind has delayed."""
        ...


class EpochHeartbeat(Protocol):
    """A heartbeat of a member with an epoch."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def is_plain(self) -> bool:
        """Whether the member does not describe itself."""
        ...

    @property
    def metadata(self) -> Any:
        """The member's description of itself, as far as the heartbeat has it."""
        ...


G = TypeVar("G", bound=EpochGroup[Any, Any])
H = TypeVar("H", bound=EpochHeartbeat)
R = TypeVar("R")


class EpochKind(ABC, Generic[G, H, R]):
    """One kind of groups with epochs, in one shard. `G`: a group; `H`: a heartbeat; `R`: its result."""

    group_type: ClassVar[type[Any]]
    result_type: ClassVar[type[Any]]
    """The class of results; its first fields are the error code and the error message."""

    groups: EpochGroupManager

    def bind(self, groups: EpochGroupManager) -> None:
        """Take the manager of all kinds, which calls this before any other method."""
        self.groups = groups

    # --- records ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def changes(self, before: G | None, after: G) -> Records:
        """Return the records that turn the first state in the log (None: nothing) into the second."""

    @abstractmethod
    def tombstones(self, group: G) -> Records:
        """Return tombstones for all records of a group."""

    # --- members ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def member_metadata(self, group: G) -> dict[str, Any]:
        """Return the members' descriptions of themselves by member id, immutable values; what they share has the id
        SHARED."""

    def shared(self, beat: H) -> Any:
        """Return what a heartbeat describes for all members; None: nothing."""
        return None

    def may_replace(self, classic: Group) -> bool:
        """Return whether the first member turns this classic group into a group of this kind."""
        return False

    @abstractmethod
    def answer(self, group: G, beat: H) -> R | None:
        """Return the result for a heartbeat of a member if it changes nothing; None: it may.

        The group has its target, the topics have not changed, and the member names its epoch.
        """

    @abstractmethod
    def join(self, draft: G, beat: H) -> Callable[[G], R]:
        """Add or update the heartbeat's member. Raise KafkaError before changing anything.

        The returned function gives the result once the target is known; it may change the draft again.
        """

    @abstractmethod
    def leave(self, draft: G, beat: H) -> R:
        """Remove the heartbeat's member, or note that it is away. Raise KafkaError before changing anything."""

    @abstractmethod
    def remove(self, draft: G, member_id: str) -> None:
        """Remove an existing member."""

    @abstractmethod
    def session_timeout_ms(self, group_id: str, member: Any) -> int:
        """Return the session timeout of a member."""

    def revocation(self, member: Any) -> tuple[int, object] | None:
        """Return (rebalance timeout in ms, what the member has to revoke); None: nothing."""
        return None

    # --- targets ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two targets."""

    def delays_target(self, draft: G) -> bool:
        """Return whether the next target has to wait; the kind then calls `EpochGroups.assign` when it is due."""
        return False

    @abstractmethod
    def before_target(self, draft: G) -> None:
        """Bring a draft up to date before it gets a delayed target."""

    @abstractmethod
    def assign(self, draft: G) -> None:
        """Compute the target for the group's epoch."""

    # --- events -------------------------------------------------------------------------------------------------------

    def changed(self, group: G) -> None:
        """Act on a durable change of a group."""

    def ended(self, group_id: str) -> None:
        """Stop timers and tasks of a group that is no longer of this kind, or no longer here."""
