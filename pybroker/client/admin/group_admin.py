"""AdminClient's calls about consumer groups and their committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.client_errors import broker_error, is_retriable
from pybroker.client.cluster_metadata import (
    Partition,
    TopicPartition,
    by_name,
    by_topic,
    by_topic_and_id,
    partition_of,
    topic_id_of,
)
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.offset_requests import (
    OFFSETS_BY_ID,
    fetched_offsets,
    offset_commit_topics,
    offset_fetch_request,
)
from pybroker.client.connection.request_schema import request_schema
from pybroker.client.consumer.group.protocol_bytes import read_assignment
from pybroker.client.offset_types import OffsetAndMetadata, with_metadata
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group. state and type are "" if the broker does not report them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group and the partitions it reads."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members.

    state: Stable, Empty, PreparingRebalance, CompletingRebalance or Dead for a classic group; Stable, Empty, Assigning,
    Reconciling or Dead for a consumer group (KIP-848); Stable, Empty or Dead for a share group (KIP-932, protocol_type
    "share"); a streams group (KIP-1071, protocol_type "streams") is NotReady while topics of the application are
    missing. A streams member's assignment has the input partitions of its active tasks, if the topic has that many
    partitions.
    """

    group_id: str
    state: str
    protocol_type: str
    partition_assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int


class GroupsAdmin(AdminBase):
    """Calls about groups and their committed offsets."""

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers. states: only groups in one of these states; empty = all."""
        cluster = await self._network.refresh(())
        request = m.ListGroupsRequest(states_filter=list(states))
        found = {}
        for node in cluster.nodes:

            async def ask(connection: BrokerConnection) -> Any:
                answer = await connection.request(request)
                if answer.error_code:
                    raise broker_error(answer.error_code, about="list of groups")
                return answer

            for row in (await self._network.attempt(node.id, ask, about="list of groups")).groups:
                found[row.group_id] = GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type)
        return list(found.values())

    async def _row(self, group: str, request: Any, rows: Callable[[Any], Sequence[Any]]) -> Any:
        """Return the coordinator's row about the group. Retry while the row has a retriable error."""

        async def ask(connection: BrokerConnection) -> Any:
            row = rows(await connection.request(request))[0]
            if is_retriable(row.error_code):
                raise broker_error(row.error_code, row.error_message, about=f"group {group}")
            return row

        return await self._coordinator(group, ask)

    def describe_groups(self, group_ids: Iterable[str]) -> KeyedResult[str, GroupDescription]:
        """Describe groups. If a group does not exist, older brokers describe it as Dead. Newer brokers return
        GROUP_ID_NOT_FOUND, with which its future fails.
        """
        groups = list(group_ids)

        async def work(futures: Futures[str, GroupDescription]) -> None:
            for group in groups:
                row = await self._coordinator(group, partial(_describe, group))
                coordinator = await self._network.coordinator(group)
                described = _description(row, coordinator)
                settle(futures[group], row.error_code, row.error_message, described, f"group {group}")

        return KeyedResult(start(groups, work))

    def delete_groups(self, group_ids: Iterable[str]) -> KeyedResult[str, None]:
        """Delete groups that have no members, with their offsets."""
        groups = list(group_ids)

        async def work(futures: Futures[str, None]) -> None:
            for group in groups:
                row = await self._row(group, m.DeleteGroupsRequest(groups_names=[group]), lambda answer: answer.results)
                settle(futures[group], row.error_code, row.error_message, None, f"group {group}")

        return KeyedResult(start(groups, work))

    async def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets. The result omits partitions without a committed offset. partitions: None = all."""
        requested = None if partitions is None else by_topic(partitions)

        async def ask(connection: BrokerConnection) -> dict[TopicPartition, OffsetAndMetadata]:
            version = min(connection.highest(m.OffsetFetchRequest), OFFSETS_BY_ID - 1)
            answer = await connection.request(offset_fetch_request(group_id, requested, {}), version)
            return fetched_offsets(answer, version, group_id, {})

        found: dict[TopicPartition, OffsetAndMetadata] = await self._coordinator(group_id, ask)
        return found

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> KeyedResult[TopicPartition, None]:
        """Set committed offsets of a group that has no members."""
        plain = with_metadata(offsets)
        request = m.OffsetCommitRequest(
            group_id=group_id,
            topics=offset_commit_topics(plain, {}),
        )

        async def ask(connection: BrokerConnection) -> Any:
            answer = await connection.request(
                request, min(connection.highest(m.OffsetCommitRequest), OFFSETS_BY_ID - 1)
            )
            _raise_retriable((row.error_code for topic in answer.topics for row in topic.partitions), group_id)
            return answer

        return self._partition_by_partition(plain, group_id, ask)

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[Partition]
    ) -> KeyedResult[Partition, None]:
        """Delete committed offsets of partitions, by name or by id. No member of the group may subscribe to the topics.
        """
        requested = list(partitions)
        ids = [topic_id_of(each) for each in requested]
        by_id = m.DeleteOffsetsRequest(
            group_id=group_id,
            topics=[
                m.DeleteOffsetsRequest_DeleteOffsetsTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        m.DeleteOffsetsRequest_DeleteOffsetsPartition(partition_index=index) for index in indexes
                    ],
                )
                for (name, topic_id), indexes in by_topic_and_id(requested).items()
            ],
        )
        plain = m.OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                m.OffsetDeleteRequest_OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[
                        m.OffsetDeleteRequest_OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                    ],
                )
                for name, indexes in by_topic(by_name(each) for each in requested).items()
            ],
        )

        async def ask(connection: BrokerConnection) -> Any:
            self._require_topic_ids(connection, ids)
            answer = await connection.request(by_id if any(ids) else plain)
            if answer.error_code:
                raise broker_error(answer.error_code, about=f"group {group_id}")
            return answer

        return self._partition_by_partition(requested, group_id, ask)

    def _partition_by_partition(
        self,
        partitions: Iterable[Partition],
        group_id: str,
        ask: Callable[[BrokerConnection], Any],
    ) -> KeyedResult[Partition, None]:
        """Run `ask` at the group's coordinator. Settle the future of each partition with its error code."""

        async def work(futures: Futures[Any, None]) -> None:
            for topic in (await self._coordinator(group_id, ask)).topics:
                # The topic ids in OffsetCommit responses are not used, because these commits name topics by name.
                by_id = isinstance(topic, m.DeleteOffsetsResponse_DeleteOffsetsTopicResult)
                topic_id = topic.topic_id if by_id else Uuid.ZERO
                for row in topic.partitions:
                    key = partition_of(topic.name, topic_id, row.partition_index)
                    settle(futures[key], row.error_code, None, None, str(key))

        return KeyedResult(start(partitions, work))


def _raise_retriable(codes: Iterable[int], group_id: str) -> None:
    for code in codes:
        if is_retriable(code):
            raise broker_error(code, about=f"group {group_id}")


_ANOTHER_KIND = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of a describe request for another protocol than the group's, or for a protocol that the broker has disabled
(`group.version`, `share.version`, …).
"""


async def _describe(group: str, connection: BrokerConnection) -> Any:
    """Return the group's row. Try each describe request in turn, because only the request for the group's own protocol
    finds it."""
    row: Any = None
    for request in (m.ConsumerGroupDescribeRequest, m.ShareGroupDescribeRequest, m.StreamsGroupDescribeRequest):
        lowest = request_schema(request).lowest
        if connection.supports(request, lowest) and (row is None or row.error_code in _ANOTHER_KIND):
            (row,) = (await connection.request(request(group_ids=[group]))).groups
    if row is None or row.error_code in _ANOTHER_KIND:
        (row,) = (await connection.request(m.DescribeGroupsRequest(groups=[group]))).groups
    if is_retriable(row.error_code):
        raise broker_error(row.error_code, row.error_message, about=f"group {group}")
    return row


def _description(row: Any, coordinator: int) -> GroupDescription:
    if isinstance(row, m.StreamsGroupDescribeResponse_DescribedGroup):
        return _streams_description(row, coordinator)
    newer = isinstance(row, m.ConsumerGroupDescribeResponse_DescribedGroup)
    if newer or isinstance(row, m.ShareGroupDescribeResponse_DescribedGroup):
        return GroupDescription(
            row.group_id,
            row.group_state,
            "consumer" if newer else "share",
            row.assignor_name,
            tuple(
                MemberDescription(
                    each.member_id,
                    each.instance_id if newer else None,
                    each.client_id,
                    each.client_host,
                    tuple(
                        TopicPartition(topic.topic_name, partition)
                        for topic in each.assignment.topic_partitions
                        for partition in topic.partitions
                    ),
                )
                for each in row.members
            ),
            coordinator,
        )
    return GroupDescription(
        row.group_id,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(
            MemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                tuple(read_assignment(each.member_assignment)) if row.protocol_type == "consumer" else (),
            )
            for each in row.members
        ),
        coordinator,
    )


def _streams_description(
    row: m.StreamsGroupDescribeResponse_DescribedGroup, coordinator: int
) -> GroupDescription:
    parts = () if row.topology is None else row.topology.subtopologies or ()
    inputs = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in parts
    }
    return GroupDescription(
        row.group_id,
        row.group_state,
        "streams",
        row.assignor_name or "",
        tuple(
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                tuple(
                    TopicPartition(topic, partition)
                    for tasks in each.assignment.active_tasks
                    for topic in inputs.get(tasks.subtopology_id, ())
                    for partition in tasks.partitions
                ),
            )
            for each in row.members
        ),
        coordinator,
    )
