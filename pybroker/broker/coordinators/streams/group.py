"""One streams group: epochs, members, topology, target assignment. Data structures only: no IO, no clock, no timers.

    member joins, leaves, changes; a topic or a setting changes ──► group epoch + 1
    group epoch > target epoch, no delay ──► a new target assignment at the group epoch (`membership`)
    a member's heartbeat                 ──► one step towards its target assignment (`reconciliation`)

A task is active on at most one member: a member keeps it until it confirms the revocation or is removed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from pybroker.broker.coordinators.group_base.epoch_group import EpochGroup
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.streams.model import StreamsGroupState, StreamsMember, Task, TaskOffsetReport, Tasks
from pybroker.broker.coordinators.streams.topology import ConfiguredTopology, Topology
from pybroker.native import Uuid

NOBODY: frozenset[str] = frozenset()
NO_TARGET = Tasks()


class StreamsGroup(EpochGroup[StreamsMember, Tasks]):
    kind = GroupKind.STREAMS

    validated_epoch: int = -1
    """Epoch of the topology for which all topics exist; −1 while topics are missing."""
    assignor_settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The assignor settings that the last target assignment used."""
    topology: Topology | None = None
    running: dict[Task, str] = msgspec.field(default_factory=dict)
    """Task → the member on which it is active. If the member has to revoke the task, it may not have confirmed this
    yet."""
    copied: dict[Task, frozenset[str]] = msgspec.field(default_factory=dict)
    """Task → members that have it as standby or warm-up. If a member has to revoke the task, it may not have confirmed
    this yet."""
    # The log does not contain the following fields. The coordinator recomputes them, or members report them again.
    configured: ConfiguredTopology | None = None
    """The topology with task and partition counts, for the topics in version `looked_at` of the view."""
    reported: dict[str, TaskOffsetReport] = msgspec.field(default_factory=dict)
    """Member → the changelog offsets that it has reported."""
    shutdown_by: str | None = None
    """The member that requested the shutdown of the whole application."""
    endpoint_epoch: int = 0
    """Increases whenever the partitions of an endpoint change."""

    @property
    def state(self) -> StreamsGroupState:
        """The state that StreamsGroupDescribe and ListGroups return."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_settled(self.target_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members may be reading the topic."""
        return bool(self.members) and self.topology is not None and self.topology.reading(topic) is not None

    # --- members ------------------------------------------------------------------------------------------------------

    def put(self, member: StreamsMember) -> None:
        """Add a member, or replace its previous state."""
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
        """Remove a member and release its tasks."""
        member = self.members.pop(member_id)
        self.target.pop(member_id, None)
        self.reported.pop(member_id, None)
        self._release(member)

    def _release(self, member: StreamsMember) -> None:
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

    def target_of(self, member_id: str) -> Tasks:
        """Return the member's target assignment."""
        return self.target.get(member_id, NO_TARGET)

    def others(self, member: StreamsMember) -> Others:
        """Return the tasks that other members may be running."""
        return Others(self, member)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def has_owned(self, member: StreamsMember, request: CommitRequest, topics: Topics) -> bool:
        """Return whether the member owned the tasks of a commit in the commit's epoch, and still owns them."""
        if self.topology is None:
            return False
        since = {**member.revoking.active, **member.assigned.active}
        for item in request.items:
            part = self.topology.reading(item.name or topics.topic_name(item.topic_id or Uuid.ZERO) or "")
            if part is None or since.get((part.subtopology_id, item.partition), math.inf) > request.generation:
                return False
        return True


class Others:
    """Implements `reconciliation.Holders` for one member of a group."""

    __slots__ = ("_group", "_member")

    def __init__(self, group: StreamsGroup, member: StreamsMember) -> None:
        self._group = group
        self._member = member

    def runs(self, task: Task) -> bool:
        """Return whether the task is active on another member."""
        return self._group.running.get(task, self._member.member_id) != self._member.member_id

    def runs_beside(self, task: Task) -> bool:
        """Return whether the task is active on another member of the same process."""
        return self.runs(task) and self._is_beside(self._group.running[task])

    def copies_beside(self, task: Task) -> bool:
        """Return whether another member of the same process has the task as standby or warm-up."""
        others = self._group.copied.get(task, NOBODY) - {self._member.member_id}
        return any(self._is_beside(other) for other in others)

    def _is_beside(self, member_id: str) -> bool:
        return self._group.members[member_id].process_id == self._member.process_id
