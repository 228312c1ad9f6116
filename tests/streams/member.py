"""Members of a streams group (KIP-1071) that send raw requests: each acts when the test says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import NEVER_MS, Port, ask

LEAVES, GOES_AWAY = -1, -2

Tasks = dict[str, dict[str, list[int]]]
"""Role → subtopology → partitions."""
NONE: Tasks = {"active": {}, "standby": {}, "warmup": {}}


def subtopology(
    part: str,
    *,
    sources: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartition: tuple[str, ...] = (),
    changelogs: tuple[str, ...] = (),
    together: bool = False,
    regexes: tuple[str, ...] = (),
    partitions: int = 0,
) -> m.StreamsGroupHeartbeatRequest_Subtopology:
    """Return a subtopology. together: all inputs are copartitioned. partitions: the partition count of its repartition
    topics, if given."""
    groups = [
        m.StreamsGroupHeartbeatRequest_CopartitionGroup(
            source_topics=list(range(len(sources))), repartition_source_topics=list(range(len(repartition)))
        )
    ]
    return m.StreamsGroupHeartbeatRequest_Subtopology(
        subtopology_id=part,
        source_topics=list(sources),
        source_topic_regex=list(regexes),
        state_changelog_topics=[
            m.StreamsGroupHeartbeatRequest_TopicInfo(
                name=name,
                topic_configs=[m.StreamsGroupHeartbeatRequest_KeyValue(key="cleanup.policy", value="compact")],
            )
            for name in changelogs
        ],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[
            m.StreamsGroupHeartbeatRequest_TopicInfo(name=name, partitions=partitions) for name in repartition
        ],
        copartition_groups=groups if together else [],
    )


def counting(source: str, group: str) -> list[m.StreamsGroupHeartbeatRequest_Subtopology]:
    """Return a topology that reads one topic, and counts the records of another one, which it writes."""
    words, counts = f"{group}-words-repartition", f"{group}-counts-changelog"
    return [
        subtopology("0", sources=(source,), sinks=(words,)),
        subtopology("1", repartition=(words,), changelogs=(counts,)),
    ]


@dataclass
class StreamsMember:
    """A member that sends all fields each time, so a lost request can be repeated."""

    port: Port
    group: str
    member_id: str
    parts: list[m.StreamsGroupHeartbeatRequest_Subtopology]
    process_id: str = ""
    instance_id: str | None = None
    endpoint: tuple[str, int] | None = None
    topology_epoch: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    endpoint_epoch: int = 0
    told: Tasks = field(default_factory=lambda: dict(NONE))
    """The assigned tasks."""
    owned: Tasks = field(default_factory=lambda: dict(NONE))
    """The tasks that the member runs."""
    version: int = 1

    def request(self, epoch: int, **more: Any) -> m.StreamsGroupHeartbeatRequest:
        """Return a heartbeat."""
        topology = m.StreamsGroupHeartbeatRequest_Topology(epoch=self.topology_epoch, subtopologies=self.parts)
        request = m.StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=NEVER_MS,
            topology=topology if epoch == 0 else None,
            process_id=self.process_id or self.member_id,
            user_endpoint=None
            if self.endpoint is None
            else m.StreamsGroupHeartbeatRequest_Endpoint(host=self.endpoint[0], port=self.endpoint[1]),
            client_tags=[m.StreamsGroupHeartbeatRequest_KeyValue(key=key, value=tag) for key, tag in self.tags.items()],
            active_tasks=self._ids("active"),
            standby_tasks=self._ids("standby"),
            warmup_tasks=self._ids("warmup"),
        )
        for name, value in more.items():
            setattr(request, name, value)
        return request

    def _ids(self, role: str) -> list[m.StreamsGroupHeartbeatRequest_TaskIds]:
        return [
            m.StreamsGroupHeartbeatRequest_TaskIds(subtopology_id=part, partitions=partitions)
            for part, partitions in self.owned[role].items()
        ]

    def send(self, epoch: int | None = None, **more: Any) -> Any:
        """Send one heartbeat, whatever the response. OSError if the broker does not respond."""
        request = self.request(self.epoch if epoch is None else epoch, **more)
        answer = ask(self.port, request, self.version, lambda answer: int(answer.error_code))
        if answer.error_code == 0 and answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.told = {
                    role: {ids.subtopology_id: list(ids.partitions) for ids in getattr(answer, f"{role}_tasks")}
                    for role in NONE
                }
        return answer

    def beat(self, **more: Any) -> Any:
        """Send one heartbeat."""
        answer = self.send(**more)
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        return answer

    def obey(self) -> None:
        """Run the assigned tasks and no others."""
        self.owned = self.told

    def leave(self, epoch: int = LEAVES, **more: Any) -> None:
        """Leave for ever, or (GOES_AWAY, a static member) temporarily. The member may have left before."""
        answer = self.send(epoch, **more)
        assert answer.error_code in (0, ErrorCode.UNKNOWN_MEMBER_ID), ErrorCode(answer.error_code).name

    def commit(self, topic: str, partition: int, offset: int, epoch: int | None = None) -> int:
        """Commit with the member's id and epoch; return the error code."""
        one = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            topics=[m.OffsetCommitRequest_OffsetCommitRequestTopic(name=topic, partitions=[one])],
        )
        answer = ask(self.port, request, 9, lambda answer: int(answer.topics[0].partitions[0].error_code))
        return int(answer.topics[0].partitions[0].error_code)


def settle(*members: StreamsMember) -> None:
    """Send heartbeats until every member runs its target tasks."""
    while True:
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            member.beat()
            member.obey()
        if before == [(member.epoch, member.owned) for member in members]:
            return


def told(answer: Any) -> dict[str, object]:
    """Return the contents of a heartbeat's response."""

    def ids(tasks: Any) -> object:
        return None if tasks is None else {one.subtopology_id: list(one.partitions) for one in tasks}

    endpoints = answer.partitions_by_user_endpoint
    return {
        "error": ErrorCode(answer.error_code).name,
        "message": answer.error_message,
        "member": answer.member_id,
        "epoch": answer.member_epoch,
        "interval": answer.heartbeat_interval_ms,
        "offset interval": answer.task_offset_interval_ms,
        "lag": getattr(answer, "acceptable_recovery_lag", None),
        "statuses": None if answer.status is None else [(one.status_code, one.status_detail) for one in answer.status],
        "tasks": [ids(answer.active_tasks), ids(answer.standby_tasks), ids(answer.warmup_tasks)],
        "endpoint epoch": answer.endpoint_information_epoch,
        "endpoints": None
        if endpoints is None
        else sorted(
            (
                one.user_endpoint.host,
                one.user_endpoint.port,
                sorted((each.topic, tuple(each.partitions)) for each in one.active_partitions),
                sorted((each.topic, tuple(each.partitions)) for each in one.standby_partitions),
            )
            for one in endpoints
        ),
        "description": answer.topology_description_required,
    }


def described(port: Port, group: str, version: int = 1) -> Any:
    """Return the response to StreamsGroupDescribe."""
    request = m.StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    return ask(port, request, version, lambda answer: int(answer.groups[0].error_code)).groups[0]


def picture(port: Port, group: str) -> dict[str, object]:
    """Return everything that the coordinator shows of a group: epochs, topology, members with current and target tasks,
    and committed offsets."""
    shown = described(port, group)
    if shown.error_code:
        return {"error": ErrorCode(shown.error_code).name, "message": shown.error_message}

    def tasks(assignment: Any) -> object:
        return [
            {one.subtopology_id: list(one.partitions) for one in getattr(assignment, f"{role}_tasks")} for role in NONE
        ]

    def topics(infos: Any) -> object:
        return [
            (info.name, info.partitions, info.replication_factor, [(one.key, one.value) for one in info.topic_configs])
            for info in infos
        ]

    fetched = ask(
        port,
        m.OffsetFetchRequest(groups=[m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=None)]),
        8,
        lambda answer: int(answer.groups[0].error_code),
    ).groups[0]
    return {
        "state": shown.group_state,
        "epochs": (shown.group_epoch, shown.assignment_epoch),
        "assignor": shown.assignor_name,
        "topology": None
        if shown.topology is None
        else (
            shown.topology.epoch,
            [
                (
                    part.subtopology_id,
                    list(part.source_topics),
                    list(part.repartition_sink_topics),
                    topics(part.state_changelog_topics),
                    topics(part.repartition_source_topics),
                )
                for part in shown.topology.subtopologies
            ],
        ),
        "members": {
            member.member_id: {
                "epoch": member.member_epoch,
                "instance": member.instance_id,
                "client": member.client_id,
                "topology": member.topology_epoch,
                "process": member.process_id,
                "endpoint": None
                if member.user_endpoint is None
                else (member.user_endpoint.host, member.user_endpoint.port),
                "tags": {tag.key: tag.value for tag in member.client_tags},
                "has": tasks(member.assignment),
                "shall have": tasks(member.target_assignment),
            }
            for member in shown.members
        },
        "operations": shown.authorized_operations,
        "offsets": {
            (topic.name, one.partition_index): one.committed_offset
            for topic in fetched.topics
            for one in topic.partitions
        },
    }
