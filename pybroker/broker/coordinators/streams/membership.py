"""Membership changes of a streams group: heartbeats, leaving members, expired sessions (KIP-1071).

Pure functions that change a copy of the group. If a function raises KafkaError, it has not changed the copy.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pybroker.broker.coordinators.group_base.epoch_group import GOES_AWAY, JOINS
from pybroker.broker.coordinators.streams import topology as topologies
from pybroker.broker.coordinators.streams.assignor import Worker, sticky
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import (
    NOTHING,
    StreamsHeartbeat,
    StreamsMember,
    StreamsMemberMetadata,
    TaskOffsetReport,
    Tasks,
)
from pybroker.broker.coordinators.streams.reconciliation import reconcile
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


def check_form(beat: StreamsHeartbeat) -> None:
    """Validate the fields that do not depend on the group. Raise KafkaError INVALID_REQUEST or
    STREAMS_INVALID_TOPOLOGY."""
    problem = None
    if not beat.member_id.strip():
        problem = "MemberId can't be empty."
    elif beat.instance_id is not None and not beat.instance_id.strip():
        problem = "InstanceId can't be empty."
    elif beat.rack_id is not None and not beat.rack_id.strip():
        problem = "RackId can't be empty."
    elif beat.epoch == JOINS:
        if beat.rebalance_timeout_ms == -1:
            problem = "RebalanceTimeoutMs must be provided in first request."
        elif beat.owned != Tasks():
            problem = "ActiveTasks must be empty when (re-)joining."
            if beat.owned is not None and not beat.owned.active:
                problem = f"{'StandbyTasks' if beat.owned.standby else 'WarmupTasks'} must be empty when (re-)joining."
        elif beat.topology is None:
            problem = "Topology must be non-null when (re-)joining."
    elif beat.epoch == GOES_AWAY and beat.instance_id is None:
        problem = "InstanceId can't be null."
    elif beat.epoch < GOES_AWAY:
        problem = f"MemberEpoch is {beat.epoch}, but must be greater than or equal to -2."
    elif beat.topology is not None:
        problem = "Topology can only be provided when (re-)joining."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if beat.topology is not None:
        topologies.check(beat.topology)


class MemberEntry(msgspec.Struct, frozen=True):
    """The member's state before a heartbeat, and whether the heartbeat changes the assignor's input."""

    before: StreamsMember | None
    matters: bool


def enter(group: StreamsGroup, beat: StreamsHeartbeat, size_max: int) -> MemberEntry:
    """Add or update the member of a heartbeat; the first member sets the topology.

    Raise KafkaError if the member is refused.
    """
    _check_room(group, beat, size_max)
    before, member = _find(group, beat)
    topology = _topology(group, beat)
    _check_tasks(group, beat.owned)
    metadata = member.metadata
    changed = msgspec.structs.replace(
        metadata,
        client_id=beat.client_id,
        client_host=beat.client_host,
        instance_id=metadata.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=metadata.rack_id if beat.rack_id is None else beat.rack_id,
        rebalance_timeout_ms=(
            metadata.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms
        ),
        topology_epoch=metadata.topology_epoch if beat.topology is None else beat.topology.epoch,
        process_id=metadata.process_id if beat.process_id is None else beat.process_id,
        # A member that joins sends all fields in its heartbeat. Therefore a missing endpoint means that there is no
        # endpoint.
        endpoint=metadata.endpoint if beat.endpoint is None and beat.epoch != JOINS else beat.endpoint,
        tags=metadata.tags if beat.tags is None else dict(beat.tags),
    )
    group.start_epochs()
    group.topology = topology
    if before is not None and before.member_id != member.member_id:
        target = group.target_of(before.member_id)
        group.remove(before.member_id)
        group.target[member.member_id] = target
    if changed != metadata or before is None or before.member_id != member.member_id:
        group.put(msgspec.structs.replace(member, metadata=changed))
    if beat.offsets is not None or beat.end_offsets is not None:
        known = group.reported.get(member.member_id, TaskOffsetReport())
        group.reported[member.member_id] = TaskOffsetReport(
            known.offsets if beat.offsets is None else beat.offsets,
            known.end_offsets if beat.end_offsets is None else beat.end_offsets,
        )
    # A static member that returns with another address counts as unchanged.
    matters = changed != metadata if beat.instance_id is None else _means(changed) != _means(metadata)
    return MemberEntry(before, matters or before is None)


def _means(metadata: StreamsMemberMetadata) -> tuple[object, ...]:
    return metadata.topology_epoch, metadata.rack_id, metadata.tags, metadata.process_id


def _check_room(group: StreamsGroup, beat: StreamsHeartbeat, size_max: int) -> None:
    if beat.epoch != JOINS or beat.member_id in group.members or beat.instance_id in group.instances:
        return
    if len(group.members) >= size_max:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {size_max} members.",
        )


def _find(group: StreamsGroup, beat: StreamsHeartbeat) -> tuple[StreamsMember | None, StreamsMember]:
    """Return (the member's stored state, the member to update)."""
    fresh = StreamsMember(beat.member_id, StreamsMemberMetadata("", ""))
    if beat.epoch != JOINS:
        known = (
            group.member(beat.member_id)
            if beat.instance_id is None
            else group.instance(beat.instance_id, beat.member_id)
        )
        _check_epoch(known, beat)
        return known, known
    if beat.instance_id is None or beat.instance_id not in group.instances:
        known_or_none = group.members.get(beat.member_id)
        return known_or_none, known_or_none or fresh
    holder = group.members[group.instances[beat.instance_id]]
    if holder.member_id == beat.member_id:
        return holder, holder
    if holder.epoch != GOES_AWAY:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the"
            f" instance id is owned by {holder.member_id} member.",
        )
    # The new member takes over the tasks, and starts with the join epoch.
    return holder, msgspec.structs.replace(holder, member_id=beat.member_id, epoch=JOINS, previous_epoch=JOINS)


def _check_epoch(member: StreamsMember, beat: StreamsHeartbeat) -> None:
    """Check the member epoch in a heartbeat.

    The previous epoch is also valid if the member runs no task beyond its assignment: such a member has lost the
    response with the new epoch.
    """
    if beat.epoch == member.epoch:
        return
    late = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned.is_within(member.assigned)
    if beat.epoch < member.epoch and late:
        return
    than = "greater" if beat.epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {than} member epoch ({beat.epoch}) than the one known by the group"
        f" coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _topology(group: StreamsGroup, beat: StreamsHeartbeat) -> topologies.Topology | None:
    """Return the group's topology after the heartbeat. The first member sets the topology; after that it does not
    change."""
    if group.topology is None or beat.topology is None:
        return group.topology or beat.topology
    if beat.topology.epoch >= group.topology.epoch and beat.topology != group.topology:
        # Apache Kafka 4.4 refuses it with the same code and text.
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return group.topology


def _check_tasks(group: StreamsGroup, owned: Tasks | None) -> None:
    if owned is None or group.configured is None or not group.configured.is_ready:
        return
    parts = group.configured.subtopologies
    for part, index in sorted(owned.active | owned.standby | owned.warmup):
        if part not in parts:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Subtopology {part} does not exist in the topology.")
        if not 0 <= index < parts[part].tasks:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task {index} for subtopology {part} is invalid. Number of tasks for this subtopology:"
                f" {parts[part].tasks}",
            )


def leave(group: StreamsGroup, beat: StreamsHeartbeat) -> None:
    """Remove a member. With epoch GOES_AWAY, keep the assignment of this static member until its session expires.

    Raise KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if beat.instance_id is None:
        member = group.member(beat.member_id)
    else:
        member = group.instance(beat.instance_id, beat.member_id)
    if beat.shutdown:
        ask_shutdown(group, beat.member_id)
    if beat.epoch == GOES_AWAY:
        # Epoch 0 allows the replacing member to commit from its first epoch on.
        held = msgspec.structs.replace(member.assigned, active=dict.fromkeys(member.assigned.active, 0))
        group.put(msgspec.structs.replace(member, epoch=GOES_AWAY, assigned=held, revoking=NOTHING))
    else:
        remove(group, member.member_id)


def remove(group: StreamsGroup, member_id: str) -> None:
    """Remove a member. The next target assignment gives its tasks to other members."""
    group.remove(member_id)
    group.epoch += 1
    if not group.members:
        group.shutdown_by = None


def ask_shutdown(group: StreamsGroup, member_id: str) -> None:
    """Request that all members shut down. The request is valid until all members have left."""
    if group.shutdown_by is None:
        group.shutdown_by = member_id


def assign(group: StreamsGroup, standbys: int, now_ms: int) -> None:
    """Compute the target assignment for the group epoch; it is empty while topics are missing."""
    if group.configured is not None and group.configured.is_ready:
        group.target = sticky(list(_workers(group)), group.configured.subtopologies, standbys)
    else:
        group.target = dict.fromkeys(group.members, Tasks())
    group.target_epoch = group.epoch
    # In an empty group, the first member gets its target assignment without waiting for the assignment interval.
    group.target_timestamp_ms = now_ms if group.members else 0


def _workers(group: StreamsGroup) -> Iterable[Worker]:
    for member in group.members.values():
        reported = group.reported.get(member.member_id, TaskOffsetReport())
        yield Worker(member.member_id, member.process_id, member.assigned, reported.offsets)


def progress(group: StreamsGroup, member_id: str, owned: Tasks | None) -> StreamsMember:
    """Move a member one step towards its target assignment; return its new state.

    Raise KafkaError UNKNOWN_MEMBER_ID if the member left in the same batch.
    """
    member = group.member(member_id)
    moved = reconcile(member, group.target_epoch, group.target_of(member_id), group.others(member), owned)
    if moved is not member:
        group.put(moved)
    return moved
