"""StreamsGroupDescribe (key 89), versions 0–1: returns state, epochs, topology and members of streams groups
(KIP-1071).

Behavior
- A group of another type answers GROUP_ID_NOT_FOUND. A group with a topic that the caller may not DESCRIBE answers
  TOPIC_AUTHORIZATION_FAILED, without members.

Versions
- v1 adds the assignor and whether the group has a topology description; it has none here (key 93).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pybroker.broker.admin.cluster_description import OPERATIONS_NOT_ASKED
from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.api.described_groups import described
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.streams.assignor import NAME
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import StreamsMember, Task, TaskOffsetReport, TaskOffsets, Tasks
from pybroker.broker.coordinators.streams.records import by_subtopology
from pybroker.broker.coordinators.streams.topology import ConfiguredTopic, InternalTopic
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.protocol.messages import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponse_Assignment,
    StreamsGroupDescribeResponse_DescribedGroup,
    StreamsGroupDescribeResponse_Endpoint,
    StreamsGroupDescribeResponse_KeyValue,
    StreamsGroupDescribeResponse_Member,
    StreamsGroupDescribeResponse_Subtopology,
    StreamsGroupDescribeResponse_TaskIds,
    StreamsGroupDescribeResponse_TaskOffset,
    StreamsGroupDescribeResponse_TopicInfo,
    StreamsGroupDescribeResponse_Topology,
)

API_KEY = 89

NOT_REQUESTED, NOT_STORED = 0, 1
"""Status of a topology's description."""


class StreamsGroupSources(NamedTuple):
    """The services that the handler needs."""

    groups: GroupCoordinator
    features: FeatureAdmin


def handle(
    sources: StreamsGroupSources, authorizer: Authorizer, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Return the descriptions. Not a coroutine: everything is in memory."""
    groups, features = sources

    def served() -> None:
        features.require_streams_groups()
        groups.require_served(GroupKind.STREAMS)

    def describe(group_id: str) -> StreamsGroupDescribeResponse_DescribedGroup:
        answer = _described(groups.describe(group_id, StreamsGroup))
        answer.topology_description_status = NOT_STORED if request.include_topology_description else NOT_REQUESTED
        return answer

    failed = StreamsGroupDescribeResponse_DescribedGroup
    answers = described(request, authorizer, context, served, describe=describe, failed=failed, topics_of=_topics_of)
    return StreamsGroupDescribeResponse(groups=answers)


def _topics_of(answer: StreamsGroupDescribeResponse_DescribedGroup) -> set[str]:
    names: set[str] = set()
    for part in () if answer.topology is None else answer.topology.subtopologies or ():
        names.update((*part.source_topics, *part.repartition_sink_topics))
        names.update(topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics))
    return names


def _described(group: StreamsGroup) -> StreamsGroupDescribeResponse_DescribedGroup:
    return StreamsGroupDescribeResponse_DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
        authorized_operations=OPERATIONS_NOT_ASKED,
        assignor_name=NAME,
    )


def _topology(group: StreamsGroup) -> StreamsGroupDescribeResponse_Topology | None:
    """Return the topology. If all topics exist, it has partition counts; otherwise it is as the members sent it."""
    if group.topology is None:
        return None
    configured = group.configured
    if configured is not None and configured.is_ready:
        parts = [
            StreamsGroupDescribeResponse_Subtopology(
                part_id,
                list(made.sources),
                list(made.repartition_sinks),
                _topics(made.changelogs),
                _topics(made.repartition_sources),
            )
            for part_id, made in configured.subtopologies.items()
        ]
    else:
        parts = [
            StreamsGroupDescribeResponse_Subtopology(
                part.subtopology_id,
                sorted(part.sources),
                sorted(part.repartition_sinks),
                _topics(part.changelogs),
                _topics(part.repartition_sources),
            )
            for part in group.topology.subtopologies
        ]
    return StreamsGroupDescribeResponse_Topology(epoch=group.topology.epoch, subtopologies=parts)


def _topics(topics: Iterable[ConfiguredTopic | InternalTopic]) -> list[StreamsGroupDescribeResponse_TopicInfo]:
    return [
        StreamsGroupDescribeResponse_TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [StreamsGroupDescribeResponse_KeyValue(*config) for config in topic.configs],
        )
        for topic in sorted(topics, key=lambda one: one.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> StreamsGroupDescribeResponse_Member:
    metadata, reported = member.metadata, group.reported.get(member.member_id, TaskOffsetReport())
    return StreamsGroupDescribeResponse_Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if metadata.endpoint is None else StreamsGroupDescribeResponse_Endpoint(*metadata.endpoint),
        client_tags=[StreamsGroupDescribeResponse_KeyValue(*tag) for tag in sorted(metadata.tags.items())],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_assignment(member.assigned.tasks),
        target_assignment=_assignment(group.target_of(member.member_id)),
        is_classic=False,
    )


def _offsets(offsets: TaskOffsets) -> list[StreamsGroupDescribeResponse_TaskOffset]:
    return [
        StreamsGroupDescribeResponse_TaskOffset(subtopology_id=part, partition=index, offset=offset)
        for (part, index), offset in sorted(offsets.items())
    ]


def _assignment(tasks: Tasks) -> StreamsGroupDescribeResponse_Assignment:
    def ids(of_role: Iterable[Task]) -> list[StreamsGroupDescribeResponse_TaskIds]:
        return [
            StreamsGroupDescribeResponse_TaskIds(subtopology_id=part, partitions=indexes)
            for part, indexes in by_subtopology(of_role)
        ]

    return StreamsGroupDescribeResponse_Assignment(ids(tasks.active), ids(tasks.standby), ids(tasks.warmup))
