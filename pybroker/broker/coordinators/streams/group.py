"""One streams group: epochs, members, topology, the target. Pure data and its bookkeeping; no IO, no clock, no timers.

    member joins, leaves, says something new, a topic or a setting changes ──► epoch + 1
    epoch > target epoch, and nothing delays it                            ──► a new target at that epoch (`membership`)
    a member's heartbeat                                                   ──► one step towards it (`reconciliation`)

A task is active at one member at most: who was given it keeps it until it has said that it gave it back, or is removed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.coordinators.streams.model import GroupState, Member, Reported, Task, Tasks
from pybroker.broker.coordinators.streams.topology import Configured, Topology
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NOBODY: frozenset[str] = frozenset()
NO_TARGET = Tasks()


class StreamsGroup(msgspec.Struct):
    """See the module. What is in its dictionaries is immutable: a `fork` is changed and put in place of the original
    when the change is on disk."""

    group_id: str
    life: object = msgspec.field(default_factory=object)
    """The same while the group lives, also when it changes its protocol."""
    epoch: int = 0
    topics_hash: int = 0
    """Of the topics that the topology needs and that exist, with their partitions; 0: none."""
    validated_epoch: int = -1
    """Epoch of the topology for which all topics are there; −1: they are not."""
    assignor_settings: Mapping[str, str] = {}
    """With which the latest target was asked for."""
    target_epoch: int = 0
    target_timestamp_ms: int = 0
    """0: the next target waits for nothing."""
    target: dict[str, Tasks] = {}
    members: dict[str, Member] = {}
    instances: dict[str, str] = {}
    """group.instance.id → member id."""
    topology: Topology | None = None
    running: dict[Task, str] = {}
    """Task → the member at which it is active, or may still be."""
    copied: dict[Task, frozenset[str]] = {}
    """Task → members that have it as standby or warm-up, or may still."""
    successor: Mapping[bytes, bytes | None] | None = None
    """What is stored in place of the group when it becomes a classic one; None: it stays."""
    # Not stored: found out, or told, again.
    looked_at: int = -1
    """Version of the broker's view of topics that `configured` takes into account; −1: none."""
    configured: Configured | None = None
    reported: dict[str, Reported] = {}
    """Member → what it told of its tasks' changelogs."""
    shutdown_by: str | None = None
    """The member that asked for the end of the whole application."""
    endpoint_epoch: int = 0
    """Grows with what may be asked of whose endpoint."""

    def fork(self) -> StreamsGroup:
        """A copy to be changed."""
        return msgspec.structs.replace(
            self,
            target=dict(self.target),
            members=dict(self.members),
            instances=dict(self.instances),
            running=dict(self.running),
            copied=dict(self.copied),
            reported=dict(self.reported),
        )

    def become(self, other: StreamsGroup) -> None:
        """Takes over everything of a copy."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    @property
    def state(self) -> GroupState:
        """What tools are shown."""
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(member.is_settled(self.target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Members may be reading it."""
        return bool(self.members) and self.topology is not None and self.topology.reading(topic) is not None

    # --- members ------------------------------------------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """Takes a member in, or in place of what was known of it."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        for held in (member.assigned, member.revoking):
            for task in held.active:
                runs = self.running.setdefault(task, member.member_id)
                if runs != member.member_id:
                    raise ValueError(f"group {self.group_id}: task {task} of {runs} is given to {member.member_id}")
            for task in held.standby | held.warmup:
                self.copied[task] = self.copied.get(task, NOBODY) | {member.member_id}

    def remove(self, member_id: str) -> None:
        """Forgets a member; what it had is free."""
        member = self.members.pop(member_id)
        self.target.pop(member_id, None)
        self.reported.pop(member_id, None)
        self._release(member)

    def _release(self, member: Member) -> None:
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        for held in (member.assigned, member.revoking):
            for task in held.active:
                if self.running.get(task) == member.member_id:
                    del self.running[task]
            for task in held.standby | held.warmup:
                left = self.copied.get(task, NOBODY) - {member.member_id}
                if left:
                    self.copied[task] = left
                else:
                    self.copied.pop(task, None)

    def member(self, member_id: str) -> Member:
        """KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def instance(self, instance_id: str, member_id: str) -> Member:
        """A static member that is who it says. KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        holder = self.instances.get(instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
            )
        return self.members[holder]

    def target_of(self, member_id: str) -> Tasks:
        """What the target gives a member."""
        return self.target.get(member_id, NO_TARGET)

    def others(self, member: Member) -> Others:
        """What others than a member may be running."""
        return Others(self, member)


class Others:
    """`reconciliation.Holders` of one member of a group."""

    __slots__ = ("_group", "_member")

    def __init__(self, group: StreamsGroup, member: Member) -> None:
        self._group = group
        self._member = member

    def runs(self, task: Task) -> bool:
        """A task is active at another member."""
        return self._group.running.get(task, self._member.member_id) != self._member.member_id

    def runs_beside(self, task: Task) -> bool:
        """At another one of the same process."""
        return self.runs(task) and self._is_beside(self._group.running[task])

    def copies_beside(self, task: Task) -> bool:
        """Another member of the same process has it as standby or warm-up."""
        others = self._group.copied.get(task, NOBODY) - {self._member.member_id}
        return any(self._is_beside(other) for other in others)

    def _is_beside(self, member_id: str) -> bool:
        return self._group.members[member_id].process_id == self._member.process_id
