"""Records of streams groups in `__consumer_offsets`, in Kafka's key and value formats.

Key types: 17 the group epoch, 19 a member's metadata, 20 the epoch of the target assignment, 21 a member's target
assignment, 22 a member's current assignment, 23 the topology. Values are version 0. Type 18, which releases before 4.1
wrote, is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pybroker.broker.coordinators.group_base.epoch_kind import Records
from pybroker.broker.coordinators.group_base.record_types import GroupReplay, RecordTypes, with_last
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import (
    HeldTasks,
    StreamsMember,
    StreamsMemberMetadata,
    StreamsMemberState,
    Task,
    Tasks,
)
from pybroker.broker.coordinators.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import encode_versioned

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY = 17, 19, 20, 21, 22, 23

TYPES = RecordTypes(
    {
        GROUP: "StreamsGroupMetadata",
        MEMBER: "StreamsGroupMemberMetadata",
        TARGET_EPOCH: "StreamsGroupTargetAssignmentMetadata",
        TARGET: "StreamsGroupTargetAssignmentMember",
        CURRENT: "StreamsGroupCurrentMemberAssignment",
        TOPOLOGY: "StreamsGroupTopology",
    }
)
_key = TYPES.encode_key


# --- writing ----------------------------------------------------------------------------------------------------------


def changes(before: StreamsGroup | None, after: StreamsGroup) -> Records:
    """Return the records that change the state in the log from `before` to `after`. `before` None: no records yet."""
    group_id = after.group_id
    old = StreamsGroup(group_id) if before is None else before
    records: Records = {}
    for member_id in old.members.keys() - after.members.keys():
        # Write tombstones in Kafka's order. When Kafka replays a member's other records, it requires the member's
        # metadata.
        records[_key(CURRENT, group_id, member_id)] = None
        records[_key(TARGET, group_id, member_id)] = None
        records[_key(MEMBER, group_id, member_id)] = None
    for member_id, member in after.members.items():
        known = old.members.get(member_id)
        if known is None or known.metadata != member.metadata:
            records[_key(MEMBER, group_id, member_id)] = _metadata(member.metadata)
    if after.topology is not None and old.topology != after.topology:
        records[_key(TOPOLOGY, group_id)] = _topology(after.topology)
    if before is None or _of_group(before) != _of_group(after):
        records[_key(GROUP, group_id)] = _group(after)
    for member_id in after.members:
        target = after.target.get(member_id)
        if old.target.get(member_id) != target:
            # None: the member left and rejoined in the same write, and has no target assignment yet.
            records[_key(TARGET, group_id, member_id)] = None if target is None else _target(target)
    if before is None or before.target_epoch != after.target_epoch:
        records[_key(TARGET_EPOCH, group_id)] = encode_versioned(
            m.StreamsGroupTargetAssignmentMetadataValue(after.target_epoch, after.target_timestamp_ms), 0
        )
    for member_id, member in after.members.items():
        known = old.members.get(member_id)
        if known is None or _progress(known) != _progress(member):
            records[_key(CURRENT, group_id, member_id)] = _current(member)
    return records


def tombstones(group: StreamsGroup) -> Records:
    """Return tombstones for all records of a group."""
    gone = changes(group, StreamsGroup(group.group_id))
    return with_last(gone, *(_key(kind, group.group_id) for kind in (TARGET_EPOCH, GROUP, TOPOLOGY)))


def _of_group(group: StreamsGroup) -> tuple[object, ...]:
    return group.epoch, group.topics_hash, group.validated_epoch, group.assignor_settings


def _progress(member: StreamsMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


def _group(group: StreamsGroup) -> bytes:
    settings = [
        m.StreamsGroupMetadataValue_LastAssignmentConfig(name, value)
        for name, value in sorted(group.assignor_settings.items())
    ]
    value = m.StreamsGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.topics_hash,
        validated_topology_epoch=group.validated_epoch,
        last_assignment_configs=settings,
    )
    return encode_versioned(value, 0)


def _metadata(metadata: StreamsMemberMetadata) -> bytes:
    value = m.StreamsGroupMemberMetadataValue(
        metadata.instance_id,
        metadata.rack_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        metadata.topology_epoch,
        metadata.process_id,
        None if metadata.endpoint is None else m.StreamsGroupMemberMetadataValue_Endpoint(*metadata.endpoint),
        [m.StreamsGroupMemberMetadataValue_KeyValue(*tag) for tag in sorted(metadata.tags.items())],
    )
    return encode_versioned(value, 0)


def _topology(topology: Topology) -> bytes:
    def topics(internal: Iterable[InternalTopic]) -> list[m.StreamsGroupTopologyValue_TopicInfo]:
        return [
            m.StreamsGroupTopologyValue_TopicInfo(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                [m.StreamsGroupTopologyValue_TopicConfig(*config) for config in topic.configs],
            )
            for topic in internal
        ]

    value = m.StreamsGroupTopologyValue(
        topology.epoch,
        [
            m.StreamsGroupTopologyValue_Subtopology(
                part.subtopology_id,
                list(part.sources),
                list(part.source_regexes),
                topics(part.changelogs),
                list(part.repartition_sinks),
                topics(part.repartition_sources),
                [
                    m.StreamsGroupTopologyValue_CopartitionGroup(
                        list(group.sources), list(group.source_regexes), list(group.repartition_sources)
                    )
                    for group in part.copartition_groups
                ],
            )
            for part in topology.subtopologies
        ],
    )
    return encode_versioned(value, 0)


def by_subtopology(tasks: Iterable[Task]) -> Iterator[tuple[str, list[int]]]:
    """Yield subtopologies with their task numbers, both sorted."""
    found: dict[str, list[int]] = {}
    for part, index in sorted(tasks):
        found.setdefault(part, []).append(index)
    yield from found.items()


def _target(target: Tasks) -> bytes:
    def ids(tasks: Iterable[Task]) -> list[m.StreamsGroupTargetAssignmentMemberValue_TaskIds]:
        return [m.StreamsGroupTargetAssignmentMemberValue_TaskIds(*part) for part in by_subtopology(tasks)]

    value = m.StreamsGroupTargetAssignmentMemberValue(ids(target.active), ids(target.standby), ids(target.warmup))
    return encode_versioned(value, 0)


def _current(member: StreamsMember) -> bytes:
    def active(held: HeldTasks) -> list[m.StreamsGroupCurrentMemberAssignmentValue_TaskIds]:
        return [
            m.StreamsGroupCurrentMemberAssignmentValue_TaskIds(
                part, indexes, [held.active[part, index] for index in indexes]
            )
            for part, indexes in by_subtopology(held.active)
        ]

    def copies(tasks: Iterable[Task]) -> list[m.StreamsGroupCurrentMemberAssignmentValue_TaskIds]:
        return [
            m.StreamsGroupCurrentMemberAssignmentValue_TaskIds(part, indexes, [])
            for part, indexes in by_subtopology(tasks)
        ]

    has, gives = member.assigned, member.revoking
    value = m.StreamsGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        active(has),
        copies(has.standby),
        copies(has.warmup),
        active(gives),
        copies(gives.standby),
        copies(gives.warmup),
    )
    return encode_versioned(value, 0)


# --- reading ----------------------------------------------------------------------------------------------------------


class StoredStreamsGroup(GroupReplay):
    """The latest records of one streams group."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TYPES, MEMBER, TARGET, CURRENT)

    def group(self, group_id: str) -> StreamsGroup | None:
        """Return the group; None if it was deleted."""
        stored = self._alone.get(GROUP)
        if stored is None:
            return None
        group = StreamsGroup(group_id)
        group.epoch, group.topics_hash = stored.epoch, stored.metadata_hash
        group.validated_epoch = stored.validated_topology_epoch
        group.assignor_settings = {setting.key: setting.value for setting in stored.last_assignment_configs or ()}
        target = self._alone.get(TARGET_EPOCH)
        if target is not None:
            group.target_epoch, group.target_timestamp_ms = target.assignment_epoch, target.assignment_timestamp
        if (topology := self._alone.get(TOPOLOGY)) is not None:
            group.topology = read_topology(topology)
        for member_id, metadata in self._named[MEMBER].items():
            if (assigned := self._named[TARGET].get(member_id)) is not None:
                group.target[member_id] = Tasks(
                    _tasks(assigned.active_tasks), _tasks(assigned.standby_tasks), _tasks(assigned.warmup_tasks)
                )
            group.members[member_id] = _read_member(member_id, metadata, self._named[CURRENT].get(member_id))
        for member in list(group.members.values()):
            group.put(member)
        return group


def _read_member(member_id: str, metadata: Any, current: Any) -> StreamsMember:
    endpoint = metadata.user_endpoint
    of_itself = StreamsMemberMetadata(
        metadata.client_id,
        metadata.client_host,
        metadata.instance_id,
        metadata.rack_id,
        metadata.rebalance_timeout_ms,
        metadata.topology_epoch,
        metadata.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in metadata.client_tags},
    )
    if current is None:
        return StreamsMember(member_id, of_itself)
    known = {state.value for state in StreamsMemberState}
    epoch = current.member_epoch
    return StreamsMember(
        member_id,
        of_itself,
        epoch,
        current.previous_member_epoch,
        # A later release wrote this unknown state. The member's next step computes the tasks that it has to revoke.
        StreamsMemberState(current.state) if current.state in known else StreamsMemberState.UNRELEASED,
        HeldTasks(_active(current.active_tasks, epoch), _tasks(current.standby_tasks), _tasks(current.warmup_tasks)),
        HeldTasks(
            _active(current.active_tasks_pending_revocation, epoch),
            _tasks(current.standby_tasks_pending_revocation),
            _tasks(current.warmup_tasks_pending_revocation),
        ),
    )


def _tasks(stored: Iterable[Any]) -> frozenset[Task]:
    return frozenset((ids.subtopology_id, index) for ids in stored for index in ids.partitions)


def _active(stored: Iterable[Any], epoch: int) -> Mapping[Task, int]:
    held: dict[Task, int] = {}
    for ids in stored:
        since = ids.assignment_epochs
        for place, index in enumerate(ids.partitions):
            # Kafka before 4.3 stores no epoch per task.
            held[ids.subtopology_id, index] = since[place] if since and place < len(since) else epoch
    return held


def read_topology(stored: Any) -> Topology:
    """Return the topology of a record or a heartbeat."""

    def topics(infos: Iterable[Any]) -> tuple[InternalTopic, ...]:
        return tuple(
            InternalTopic(
                info.name,
                info.partitions,
                info.replication_factor,
                tuple((config.key, config.value) for config in info.topic_configs),
            )
            for info in infos
        )

    parts = (
        Subtopology(
            part.subtopology_id,
            tuple(part.source_topics),
            tuple(part.source_topic_regex),
            topics(part.state_changelog_topics),
            tuple(part.repartition_sink_topics),
            topics(part.repartition_source_topics),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
                )
                for group in part.copartition_groups
            ),
        )
        for part in stored.subtopologies
    )
    return Topology(stored.epoch, tuple(sorted(parts, key=lambda part: part.subtopology_id)))
