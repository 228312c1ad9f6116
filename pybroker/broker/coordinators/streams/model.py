"""The data types of a streams group: tasks, member descriptions, member states. Immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

import msgspec

from pybroker.broker.coordinators.streams.topology import Topology
from pybroker.protocol.error_codes import ErrorCode

Task = tuple[str, int]
"""(subtopology id, partition): processes one partition of a subtopology's input topics."""

TaskOffsets = Mapping[Task, int]
"""Changelog offsets by task. The value is the sum over the task's state stores."""

NO_TASKS: frozenset[Task] = frozenset()


class StreamsGroupState(StrEnum):
    """The states, spelt as in StreamsGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of the topology are missing or have wrong partition counts."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsMemberState(IntEnum):
    """Reconciliation states of members, numbered as Kafka stores them."""

    STABLE = 1
    """The member owns exactly its target assignment, or has not received the new target assignment yet."""
    UNREVOKED = 2
    """The member has to revoke tasks and has not confirmed the revocation yet."""
    UNRELEASED = 3
    """The member waits for tasks that other members have not revoked."""


class StatusCode(IntEnum):
    """Status codes of StreamsGroupHeartbeat responses."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(msgspec.Struct, frozen=True):
    """A status code with its explanation."""

    code: StatusCode
    detail: str


class Tasks(msgspec.Struct, frozen=True):
    """Tasks by role: a target assignment, or the tasks that a member reports.

    A warm-up task prepares the state of a task that will move later. Neither Kafka 4.4 nor this coordinator assigns
    warm-up tasks.
    """

    active: frozenset[Task] = NO_TASKS
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    def shares_any(self, held: HeldTasks) -> bool:
        """Return whether `held` contains at least one of these tasks in the same role."""
        return not (
            self.active.isdisjoint(held.active)
            and self.standby.isdisjoint(held.standby)
            and self.warmup.isdisjoint(held.warmup)
        )

    def is_within(self, held: HeldTasks) -> bool:
        """Return whether `held` contains all of these tasks in the same roles."""
        return self.active <= held.active.keys() and self.standby <= held.standby and self.warmup <= held.warmup


class HeldTasks(msgspec.Struct, frozen=True):
    """Tasks that a member may be running."""

    active: Mapping[Task, int] = {}
    """Task → the member epoch in which the task was assigned."""
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """The tasks without their epochs."""
        return Tasks(frozenset(self.active), self.standby, self.warmup)


NOTHING = HeldTasks()


class StreamsMemberMetadata(msgspec.Struct, frozen=True):
    """A member's process, endpoint, topology epoch and tags; stored as StreamsGroupMemberMetadata."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """The id of the application instance, which may have one member per thread."""
    endpoint: tuple[str, int] | None = None
    """(host, port) for interactive queries."""
    tags: Mapping[str, str] = {}


class StreamsMember(msgspec.Struct, frozen=True):
    member_id: str
    metadata: StreamsMemberMetadata
    epoch: int = 0
    """The epoch of the target assignment that the member has reached or moves to. GOES_AWAY: a static member that has
    left temporarily."""
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: HeldTasks = NOTHING
    revoking: HeldTasks = NOTHING
    """Tasks that the member has to revoke; it may still be running them."""

    @property
    def instance_id(self) -> str | None:
        """The group.instance.id."""
        return self.metadata.instance_id

    @property
    def process_id(self) -> str:
        """The id of the application instance to which the member belongs."""
        return self.metadata.process_id

    def moved_to(self, epoch: int) -> StreamsMember:
        """Return the member in an epoch. Its current epoch becomes its previous epoch, because the member repeats the
        old epoch if it loses the response. As in Kafka, an unchanged epoch becomes the previous epoch, too."""
        return msgspec.structs.replace(self, epoch=epoch, previous_epoch=self.epoch)

    def is_settled(self, target_epoch: int) -> bool:
        """Return whether the member owns exactly its target assignment."""
        return self.state is StreamsMemberState.STABLE and self.epoch == target_epoch


class TaskOffsetReport(msgspec.Struct, frozen=True):
    """The changelog offsets that a member has reported. They are not stored in the log, because members report them
    again."""

    offsets: TaskOffsets = {}
    end_offsets: TaskOffsets = {}


class StreamsHeartbeat(msgspec.Struct, frozen=True):
    """A StreamsGroupHeartbeat, independent of its version. A field is None if it has not changed since the previous
    heartbeat.
    """

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    endpoint_epoch: int = 0
    """The endpoint epoch of the partitions that the member has received."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    tags: Mapping[str, str] | None = None
    offsets: TaskOffsets | None = None
    end_offsets: TaskOffsets | None = None
    shutdown: bool = False
    """The member requests the shutdown of the whole application."""
    knows_tags: bool = True
    """StreamsGroupHeartbeat 1 or later: the response may list missing client tags."""

    @property
    def metadata(self) -> tuple[StreamsMemberMetadata, TaskOffsetReport]:
        """The member's metadata, as far as the heartbeat contains it, without the topology, which all members have in
        common."""
        metadata = StreamsMemberMetadata(
            self.client_id,
            self.client_host,
            self.instance_id,
            self.rack_id,
            process_id=self.process_id or "",
            endpoint=self.endpoint,
            tags=self.tags or {},
        )
        return metadata, TaskOffsetReport(self.offsets or {}, self.end_offsets or {})

    @property
    def is_plain(self) -> bool:
        """Whether the heartbeat contains only the member's id and epoch."""
        return (
            self.epoch > 0
            and not self.shutdown
            and self.rebalance_timeout_ms == -1
            and self.rack_id is None
            and self.topology is None
            and self.owned is None
            and self.process_id is None
            and self.endpoint is None
            and self.tags is None
            and self.offsets is None
            and self.end_offsets is None
        )


class EndpointPartitions(msgspec.Struct, frozen=True):
    """The partitions of source topics, by topic name, for which one member's endpoint answers queries."""

    endpoint: tuple[str, int]
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


class MissingTopic(msgspec.Struct, frozen=True):
    """An internal topic that the topology needs but that does not exist."""

    name: str
    partitions: int
    replication_factor: int
    """−1: the broker's default."""
    configs: Mapping[str, str]


class StreamsHeartbeatResult(msgspec.Struct, frozen=True):
    """The result of a StreamsGroupHeartbeat."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    offset_interval_ms: int = 0
    recovery_lag: int = -1
    statuses: tuple[Status, ...] = ()
    assigned: Tasks | None = None
    """The tasks of the member; None if they have not changed since the previous response."""
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    """The partitions by endpoint; None if they have not changed since the previous response."""
    missing: tuple[MissingTopic, ...] = ()
    """Internal topics that must exist before tasks are assigned."""
