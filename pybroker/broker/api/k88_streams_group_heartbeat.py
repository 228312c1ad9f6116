"""StreamsGroupHeartbeat (key 88), versions 0–1: a member of a streams group joins, stays, sends its topology and tasks
or leaves, and receives its tasks (KIP-1071).

Behavior
- The response leaves when its change is on disk. Most heartbeats change nothing.
- The broker creates missing internal topics with the permissions of the client that sends the heartbeat.

Versions
- v1 adds missing client tags and the acceptable recovery lag.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pybroker.broker.admin.automatic_topics import StreamsTopics
from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.admin.topic_names import check_topic_name
from pybroker.broker.admin.topics import TopicSpec
from pybroker.broker.api.heartbeats import answered, client_host, require_may_beat
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.streams.membership import check_form
from pybroker.broker.coordinators.streams.model import (
    EndpointPartitions,
    MissingTopic,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    Task,
    TaskOffsets,
    Tasks,
)
from pybroker.broker.coordinators.streams.records import by_subtopology, read_topology
from pybroker.broker.coordinators.streams.topology import Topology
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import INTERNAL_TOPICS
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponse_Endpoint,
    StreamsGroupHeartbeatResponse_EndpointToPartitions,
    StreamsGroupHeartbeatResponse_Status,
    StreamsGroupHeartbeatResponse_TaskIds,
    StreamsGroupHeartbeatResponse_TopicPartition,
)

API_KEY = 88

PROBLEMS_TOLD = 3
"""Limit of failed topics whose reason the status contains."""


class StreamsHeartbeatSources(NamedTuple):
    """The services that the handler needs."""

    groups: GroupCoordinator
    topics: StreamsTopics
    features: FeatureAdmin


def handle(
    sources: StreamsHeartbeatSources,
    authorizer: Authorizer,
    context: RequestContext,
    request: StreamsGroupHeartbeatRequest,
) -> StreamsGroupHeartbeatResponse | Coroutine[Any, Any, StreamsGroupHeartbeatResponse]:
    """Return the response, or a coroutine if something has to be written first."""
    sources.features.require_streams_groups()
    sources.groups.require_served(GroupKind.STREAMS)
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    try:
        beat = _beat(context, request)
        required = () if beat.topology is None else _required(beat.topology)
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        _require_names(required)
        require_may_beat(request.group_id, required, partial(authorizer.permits_topic, context, AclOperation.DESCRIBE))
        check_form(beat)
        if beat.owned is None and (request.active_tasks, request.standby_tasks, request.warmup_tasks) != (None,) * 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "If one task-type is non-null, all must be non-null.")
        outcome = sources.groups.member_heartbeat(GroupKind.STREAMS, request.group_id, beat)
    except KafkaError as error:
        return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return answered(outcome, partial(_response, sources, authorizer, context, request.group_id))


def _required(topology: Topology) -> tuple[str, ...]:
    """Return all topics that the application's topology reads and writes."""
    sinks = (name for part in topology.subtopologies for name in part.repartition_sinks)
    return tuple(sorted({*topology.required, *sinks}))


def _require_names(names: Iterable[str]) -> None:
    """Raise KafkaError STREAMS_INVALID_TOPOLOGY for an internal topic of the broker or an invalid topic name."""
    own = [name for name in names if name in INTERNAL_TOPICS]
    if own:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(own)} in a Kafka Streams topology is prohibited.",
        )
    for name in names:
        try:
            check_topic_name(name)
        except KafkaError:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {name} are not valid topic names."
            ) from None


def _beat(context: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeat:
    lists = request.active_tasks, request.standby_tasks, request.warmup_tasks
    owned = None if None in lists else Tasks(*(_tasks(tasks or ()) for tasks in lists))
    endpoint = request.user_endpoint
    return StreamsHeartbeat(
        request.member_id,
        request.member_epoch,
        context.client_id or "",
        client_host(context),
        request.endpoint_information_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        None if request.topology is None else read_topology(request.topology),
        owned,
        request.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        None if request.client_tags is None else {tag.key: tag.value for tag in request.client_tags},
        _offsets(request.task_offsets),
        _offsets(request.task_end_offsets),
        request.shutdown_application,
        context.api_version >= 1,
    )


def _tasks(rows: Iterable[Any]) -> frozenset[Task]:
    return frozenset((ids.subtopology_id, index) for ids in rows for index in ids.partitions)


def _offsets(rows: Iterable[Any] | None) -> TaskOffsets | None:
    return None if rows is None else {(row.subtopology_id, row.partition): row.offset for row in rows}


def _response(
    sources: StreamsHeartbeatSources,
    authorizer: Authorizer,
    context: RequestContext,
    group_id: str,
    result: StreamsHeartbeatResult,
) -> StreamsGroupHeartbeatResponse:
    more = _make_topics(sources, authorizer, context, group_id, result.missing) if result.missing else ""
    statuses = [
        StreamsGroupHeartbeatResponse_Status(
            status_code=status.code,
            status_detail=status.detail + (more if status.code is StatusCode.MISSING_INTERNAL_TOPICS else ""),
        )
        for status in result.statuses
    ]
    response = StreamsGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        task_offset_interval_ms=result.offset_interval_ms,
        acceptable_recovery_lag=result.recovery_lag,
        status=statuses,
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=None
        if result.endpoints is None
        else [_endpoint(endpoint) for endpoint in result.endpoints],
    )
    if result.assigned is not None:
        response.active_tasks = _task_ids(result.assigned.active)
        response.standby_tasks = _task_ids(result.assigned.standby)
        response.warmup_tasks = _task_ids(result.assigned.warmup)
    return response


def _task_ids(tasks: Iterable[Task]) -> list[StreamsGroupHeartbeatResponse_TaskIds]:
    return [
        StreamsGroupHeartbeatResponse_TaskIds(subtopology_id=part, partitions=indexes)
        for part, indexes in by_subtopology(tasks)
    ]


def _endpoint(one: EndpointPartitions) -> StreamsGroupHeartbeatResponse_EndpointToPartitions:
    host, port = one.endpoint
    active, standby = (
        [
            StreamsGroupHeartbeatResponse_TopicPartition(topic=name, partitions=list(indexes))
            for name, indexes in sorted(by_topic.items())
        ]
        for by_topic in (one.active, one.standby)
    )
    return StreamsGroupHeartbeatResponse_EndpointToPartitions(
        user_endpoint=StreamsGroupHeartbeatResponse_Endpoint(host=host, port=port),
        active_partitions=active,
        standby_partitions=standby,
    )


def _make_topics(
    sources: StreamsHeartbeatSources,
    authorizer: Authorizer,
    context: RequestContext,
    group_id: str,
    missing: Sequence[MissingTopic],
) -> str:
    """Start to create the missing topics. Return the status text for topics whose creation has failed."""
    names = [topic.name for topic in missing]
    everywhere = authorizer.may_on_cluster(context, AclOperation.CREATE)
    forbidden = [
        name
        for name in names
        if not everywhere and not authorizer.permits(context, AclOperation.CREATE, ResourceType.TOPIC, name)
    ]
    if forbidden:
        return f"; Unauthorized to CREATE on topics {', '.join(forbidden)}."
    specs = [TopicSpec(topic.name, topic.partitions, topic.replication_factor, (), topic.configs) for topic in missing]
    timeout_ms = 2 * sources.groups.settings.streams.heartbeat_interval_ms(group_id)
    sources.topics.make(specs, timeout_ms, context.principal, context.caller)
    problems = [f"{name} ({why})" for name, why in sources.topics.problems(names).items()]
    if not problems:
        return ""
    rest = len(problems) - PROBLEMS_TOLD
    return f"; Creation failed: {', '.join(problems[:PROBLEMS_TOLD])}{f' and {rest} more' if rest > 0 else ''}."
