"""The nouns of a streams group: tasks, what a member says, how far it has come. Immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

import msgspec

from pybroker.broker.coordinators.streams.topology import Topology
from pybroker.protocol.error_codes import ErrorCode

Task = tuple[str, int]
"""(subtopology id, partition): the work on one partition of a subtopology's input topics."""

TaskOffsets = Mapping[Task, int]
"""Changelog offsets of tasks, summed over their stores."""

JOINS, LEAVES, GOES_AWAY = 0, -1, -2
"""Epochs with a meaning of their own in a heartbeat: a member joins, leaves for ever, or (a static one) for a while."""

NO_TASKS: frozenset[Task] = frozenset()


class GroupState(StrEnum):
    """The states, spelt as StreamsGroupDescribe and ListGroups print them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of the topology are missing or do not fit together."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """How far a member is, by the numbers that Kafka stores."""

    STABLE = 1
    """It has what the latest target gives it, or nobody has told it of a newer one."""
    UNREVOKED = 2
    """It was told to give tasks back and has not said yet that it did."""
    UNRELEASED = 3
    """It waits for tasks that others have not given back."""


class StatusCode(IntEnum):
    """What a heartbeat's answer tells of the group, by the numbers of StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(msgspec.Struct, frozen=True):
    """One of them, in words."""

    code: StatusCode
    detail: str


class Tasks(msgspec.Struct, frozen=True):
    """Tasks by role: what a target gives, or what a member says it runs. A warm-up task prepares the state of a task
    that moves later; Kafka 4.4 hands none out, and neither does this coordinator."""

    active: frozenset[Task] = NO_TASKS
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    def shares_any(self, held: Held) -> bool:
        """One of the tasks is held, in the same role."""
        return not (
            self.active.isdisjoint(held.active)
            and self.standby.isdisjoint(held.standby)
            and self.warmup.isdisjoint(held.warmup)
        )

    def is_within(self, held: Held) -> bool:
        """All of the tasks are held, each in its role."""
        return self.active <= held.active.keys() and self.standby <= held.standby and self.warmup <= held.warmup


class Held(msgspec.Struct, frozen=True):
    """Tasks that a member may be running."""

    active: Mapping[Task, int] = {}
    """Task → the member epoch at which it got it."""
    standby: frozenset[Task] = NO_TASKS
    warmup: frozenset[Task] = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """Without the epochs."""
        return Tasks(frozenset(self.active), self.standby, self.warmup)


NOTHING = Held()


class Said(msgspec.Struct, frozen=True):
    """What a member says of itself; stored as StreamsGroupMemberMetadata."""

    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    """Of the instance, which may have a member for each of its threads."""
    endpoint: tuple[str, int] | None = None
    """(host, port) for interactive queries."""
    tags: Mapping[str, str] = {}


class Member(msgspec.Struct, frozen=True):
    """One member."""

    member_id: str
    said: Said
    epoch: int = 0
    """The target epoch that it has reached, or is on its way to; GOES_AWAY of a static member that is away."""
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = NOTHING
    revoking: Held = NOTHING
    """What it was told to give back, and may still run."""

    @property
    def instance_id(self) -> str | None:
        """Its group.instance.id."""
        return self.said.instance_id

    @property
    def process_id(self) -> str:
        """The instance it is a thread of."""
        return self.said.process_id

    def moved_to(self, epoch: int) -> Member:
        """The same at another epoch; the one before is remembered, as the answer that tells the new one may be lost."""
        return self if epoch == self.epoch else msgspec.structs.replace(self, epoch=epoch, previous_epoch=self.epoch)

    def is_settled(self, target_epoch: int) -> bool:
        """It has everything that the target gives it and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class Reported(msgspec.Struct, frozen=True):
    """What a member has told of the changelogs of its tasks. Not stored: it is told again."""

    offsets: TaskOffsets = {}
    end_offsets: TaskOffsets = {}


class Heartbeat(msgspec.Struct, frozen=True):
    """A StreamsGroupHeartbeat, free of versions. None: as in the heartbeat before."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    endpoint_epoch: int = 0
    """The latest of `partitions by endpoint` that the member knows."""
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
    """The whole application shall end."""
    knows_tags: bool = True
    """StreamsGroupHeartbeat 1: it can be told which tags it lacks."""

    @property
    def is_plain(self) -> bool:
        """It tells nothing but that the member lives, in its epoch."""
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
    """What may be asked of one member's endpoint: partitions of source topics, by name."""

    endpoint: tuple[str, int]
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


class MissingTopic(msgspec.Struct, frozen=True):
    """An internal topic that the topology needs and nobody has made."""

    name: str
    partitions: int
    replication_factor: int
    """−1: the broker's default."""
    configs: Mapping[str, str]


class HeartbeatResult(msgspec.Struct, frozen=True):
    """What a StreamsGroupHeartbeat is answered with."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    offset_interval_ms: int = 0
    recovery_lag: int = -1
    statuses: tuple[Status, ...] = ()
    assigned: Tasks | None = None
    """None: as it was told before."""
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    """None: as it was told before."""
    missing: tuple[MissingTopic, ...] = ()
    """Internal topics that have to be made before anything is assigned."""
