"""The behaviour of streams groups (KIP-1071): their heartbeats, target assignments and timeouts.

Pure functions in `membership`, `topology` and `reconciliation` make the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group_base.epoch_group import JOINS
from pybroker.broker.coordinators.group_base.epoch_kind import EpochKind
from pybroker.broker.coordinators.group_base.group_registry import Group
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.metadata_size import SHARED
from pybroker.broker.coordinators.group_base.topics_hash import TopicView, hash_of
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.streams import membership, records
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import (
    EndpointPartitions,
    MissingTopic,
    Status,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsMember,
    StreamsMemberState,
    Task,
)
from pybroker.broker.coordinators.streams.settings import StreamsSettings
from pybroker.broker.coordinators.streams.topology import (
    ConfiguredTopology,
    MissingInternal,
    MissingSources,
    PartitionCountError,
    Topology,
    Unfit,
    configure,
)
from pybroker.native import Uuid

_CODES: dict[type[Unfit], StatusCode] = {
    MissingSources: StatusCode.MISSING_SOURCE_TOPICS,
    PartitionCountError: StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
    MissingInternal: StatusCode.MISSING_INTERNAL_TOPICS,
}


class StreamsKind(EpochKind[StreamsGroup, StreamsHeartbeat, StreamsHeartbeatResult]):
    group_type = StreamsGroup
    changes = staticmethod(records.changes)
    tombstones = staticmethod(records.tombstones)
    result_type = StreamsHeartbeatResult

    def __init__(
        self, clock: Clock, timers: TimerWheel, view: TopicView, settings: StreamsSettings, statistics: GroupStatistics
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._view = view
        self._settings = settings
        self._statistics = statistics
        self._waiting: set[str] = set()
        """Groups that delay their first assignment until more members have joined."""

    # --- members ------------------------------------------------------------------------------------------------------

    def member_metadata(self, group: StreamsGroup) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            member_id: (member.metadata, group.reported.get(member_id)) for member_id, member in group.members.items()
        }
        # A group without members keeps its topology.
        return metadata if group.topology is None else {**metadata, SHARED: group.topology}

    def shared(self, beat: StreamsHeartbeat) -> Topology | None:
        return beat.topology

    def may_replace(self, classic: Group) -> bool:
        return classic.is_empty

    def answer(self, group: StreamsGroup, beat: StreamsHeartbeat) -> StreamsHeartbeatResult | None:
        member = group.members[beat.member_id]
        if (
            not beat.is_plain
            or beat.instance_id not in (None, member.instance_id)
            or member.state is not StreamsMemberState.STABLE
            or group.configured is None
            or group.assignor_settings != self._settings.of_assignor(group.group_id)
        ):
            return None
        return self._result(group, member, beat, with_assignment=False)

    def join(self, draft: StreamsGroup, beat: StreamsHeartbeat) -> Callable[[StreamsGroup], StreamsHeartbeatResult]:
        trial = draft.fork()
        was_empty = trial.is_empty
        entered = membership.enter(trial, beat, self._settings.max_size)
        if self._look(trial) or entered.matters:
            trial.epoch += 1
        draft.become(trial)
        if beat.shutdown:
            membership.ask_shutdown(draft, beat.member_id)
        if was_empty:
            self._wait_for_others(draft.group_id)
        before = entered.before

        def finish(draft: StreamsGroup) -> StreamsHeartbeatResult:
            moved = membership.progress(draft, beat.member_id, beat.owned)
            changed = before is None or moved.assigned != before.assigned
            endpoint_changed = moved.metadata.endpoint != (None if before is None else before.metadata.endpoint)
            if endpoint_changed or (changed and moved.metadata.endpoint is not None):
                draft.endpoint_epoch += 1
            # The member reports tasks that differ from its assignment. It may have lost the response with the
            # assignment.
            differs = beat.owned is not None and beat.owned != moved.assigned.tasks
            return self._result(draft, moved, beat, with_assignment=changed or differs or beat.epoch == JOINS)

        return finish

    def leave(self, draft: StreamsGroup, beat: StreamsHeartbeat) -> StreamsHeartbeatResult:
        membership.leave(draft, beat)
        # The target assignment must use the current topics, even if no member has sent a heartbeat since the group was
        # loaded.
        self._look(draft)
        return StreamsHeartbeatResult(member_id=beat.member_id, epoch=beat.epoch)

    def remove(self, draft: StreamsGroup, member_id: str) -> None:
        membership.remove(draft, member_id)
        self._look(draft)

    def session_timeout_ms(self, group_id: str, member: StreamsMember) -> int:
        return self._settings.session_timeout_ms(group_id)

    def revocation(self, member: StreamsMember) -> tuple[int, object] | None:
        if member.state is not StreamsMemberState.UNREVOKED:
            return None
        return member.metadata.rebalance_timeout_ms, (member.epoch, member.revoking)

    def _result(
        self, group: StreamsGroup, member: StreamsMember, beat: StreamsHeartbeat, *, with_assignment: bool
    ) -> StreamsHeartbeatResult:
        group_id, settings = group.group_id, self._settings
        knows = beat.endpoint_epoch == group.endpoint_epoch
        return StreamsHeartbeatResult(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=settings.heartbeat_interval_ms(group_id),
            offset_interval_ms=settings.task_offset_interval_ms(group_id),
            recovery_lag=settings.recovery_lag(group_id),
            statuses=tuple(self._statuses(group, member, beat)),
            assigned=member.assigned.tasks if with_assignment else None,
            endpoint_epoch=group.endpoint_epoch,
            endpoints=None if knows else partitions_by_endpoint(group, self._partitions),
            missing=_missing(group.configured),
        )

    def _statuses(self, group: StreamsGroup, member: StreamsMember, beat: StreamsHeartbeat) -> list[Status]:
        found: list[Status] = []
        topology = group.topology
        if topology is not None and member.metadata.topology_epoch < topology.epoch:
            found.append(
                Status(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch {member.metadata.topology_epoch} is behind the group's topology epoch"
                    f" {topology.epoch}.",
                )
            )
        if group.epoch > group.target_epoch:
            why = "initial rebalance delay" if group.group_id in self._waiting else "assignment interval"
            found.append(Status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {why}."))
        problem = None if group.configured is None else group.configured.problem
        if problem is not None:
            found.append(Status(_CODES[type(problem)], str(problem)))
        if group.shutdown_by is not None:
            found.append(
                Status(
                    StatusCode.SHUTDOWN_APPLICATION,
                    f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for"
                    " the entire application.",
                )
            )
        tags = self._settings.tags(group.group_id)
        if beat.knows_tags and (lacking := [tag for tag in tags if tag not in member.metadata.tags]):
            found.append(
                Status(
                    StatusCode.MISSING_CLIENT_TAGS,
                    "Missing required client tags for rack-aware standby assignment:"
                    f" [{', '.join(lacking)}]. Configure them via 'client.tag.<tagKey>' in your Streams config.",
                )
            )
        return found

    # --- topics, epochs and targets -----------------------------------------------------------------------------------

    def _partitions(self, name: str) -> int:
        topic_id = self._view.topic_id(name)
        return 0 if topic_id is None else self._view.partition_count(topic_id)

    def _topics(self, topology: Topology) -> dict[Uuid, int]:
        """Return the existing topics that the topology needs, with their partition counts."""
        found: dict[Uuid, int] = {}
        for name in topology.required:
            topic_id = self._view.topic_id(name)
            if topic_id is not None and (count := self._view.partition_count(topic_id)):
                found[topic_id] = count
        return found

    def _look(self, draft: StreamsGroup) -> bool:
        """Record the current topics and settings; return whether they have changed since the last check."""
        topology, view = draft.topology, self._view
        if topology is None:
            return False
        changed = False
        if draft.configured is None or draft.looked_at != view.version:
            draft.looked_at = view.version
            known = hash_of(self._topics(topology))
            changed = known != draft.topics_hash
            if changed or draft.configured is None:
                draft.topics_hash = known
                draft.configured = configure(topology, self._partitions)
        validated = topology.epoch if draft.configured.is_ready else -1
        settings = self._settings.of_assignor(draft.group_id)
        changed |= validated != draft.validated_epoch or settings != draft.assignor_settings
        draft.validated_epoch, draft.assignor_settings = validated, settings
        return changed

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._settings.assignment_interval_ms(group_id)

    def delays_target(self, draft: StreamsGroup) -> bool:
        return not draft.is_empty and draft.group_id in self._waiting

    def before_target(self, draft: StreamsGroup) -> None:
        if self._look(draft):
            draft.epoch += 1

    def assign(self, draft: StreamsGroup) -> None:
        membership.assign(draft, self._settings.standbys(draft.group_id), self._clock.wall_ms())
        self._statistics.streams_rebalances += 1

    def _wait_for_others(self, group_id: str) -> None:
        delay_ms = self._settings.initial_delay_ms(group_id)
        if delay_ms and group_id not in self._waiting:
            self._waiting.add(group_id)
            self._timers.schedule(_first(group_id), delay_ms, lambda: self._end_wait(group_id))

    def _end_wait(self, group_id: str) -> None:
        self._waiting.discard(group_id)
        self.groups.assign(group_id)

    def ended(self, group_id: str) -> None:
        self._waiting.discard(group_id)
        self._timers.cancel(_first(group_id))


def _missing(configured: ConfiguredTopology | None) -> tuple[MissingTopic, ...]:
    if configured is None:
        return ()
    return tuple(
        MissingTopic(topic.name, topic.partitions, topic.replication_factor or -1, dict(topic.configs))
        for topic in configured.missing
    )


def _first(group_id: str) -> tuple[str, str]:
    return "streams first assignment", group_id


def partitions_by_endpoint(group: StreamsGroup, count_of: Callable[[str], int]) -> tuple[EndpointPartitions, ...]:
    """Return one entry for each member with an endpoint. `count_of`: returns the partition count of a topic."""
    return tuple(
        EndpointPartitions(
            member.metadata.endpoint,
            _sources(group, member.assigned.active, count_of),
            _sources(group, member.assigned.standby | member.assigned.warmup, count_of),
        )
        for member in group.members.values()
        if member.metadata.endpoint is not None
    )


def _sources(group: StreamsGroup, tasks: Iterable[Task], count_of: Callable[[str], int]) -> dict[str, tuple[int, ...]]:
    """Return the partitions of the tasks' input topics, by topic."""
    parts = {} if group.configured is None else group.configured.subtopologies
    found: dict[str, list[int]] = {}
    for part, index in sorted(tasks):
        if part not in parts:
            continue
        inputs = (*parts[part].sources, *(topic.name for topic in parts[part].repartition_sources))
        for name in inputs:
            if index < count_of(name):
                found.setdefault(name, []).append(index)
    return {name: tuple(indexes) for name, indexes in found.items()}
