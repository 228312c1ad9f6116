"""Offset requests that both consumers and AdminClient send: this module builds the requests and reads the responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pybroker.client.client_errors import broker_error
from pybroker.client.cluster_metadata import Partition, TopicPartition, by_topic, by_topic_and_id, partition_of
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.offset_types import OffsetAndMetadata, OffsetAndTimestamp, OffsetSpec
from pybroker.native import Uuid
from pybroker.protocol import messages as m

OFFSETS_BY_ID = 10
"""First version in which OffsetCommit and OffsetFetch name topics by id (KIP-848)."""
_GROUPS_FROM = 8
"""First version in which OffsetFetch takes several groups."""


def heeds_ids(connection: BrokerConnection) -> bool:
    """Return whether the broker reads topic ids from pybroker's tagged fields, in requests that name topics by name
    (docs/protocol.md)."""
    return connection.supports(m.DeleteOffsetsRequest)


def list_offsets_request(
    requested: Mapping[Partition, OffsetSpec],
    leader_epochs: Mapping[Partition, int],
    *,
    read_committed: bool,
    timeout_ms: int,
) -> m.ListOffsetsRequest:
    """Return a ListOffsets request for partitions of one leader. leader_epochs: the leader epochs that the client knows
    (KIP-320).
    """
    specs: Mapping[Any, OffsetSpec] = requested
    epochs: Mapping[Any, int] = leader_epochs
    return m.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            m.ListOffsetsRequest_ListOffsetsTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    m.ListOffsetsRequest_ListOffsetsPartition(
                        partition_index=index,
                        current_leader_epoch=epochs.get(partition_of(name, topic_id, index), -1),
                        timestamp=specs[partition_of(name, topic_id, index)].timestamp,
                    )
                    for index in indexes
                ],
            )
            for (name, topic_id), indexes in by_topic_and_id(requested).items()
        ],
        timeout_ms=timeout_ms,
    )


def listed_offsets(answer: m.ListOffsetsResponse) -> Iterator[tuple[Any, int, OffsetAndTimestamp]]:
    """Yield (partition in the form of the request, error code, offset) for each row of a response."""
    for topic in answer.topics:
        for row in topic.partitions:
            found = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
            yield partition_of(topic.name, topic.topic_id, row.partition_index), row.error_code, found


def offset_commit_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, Uuid]
) -> list[m.OffsetCommitRequest_OffsetCommitRequestTopic]:
    """Return the topics of an OffsetCommit request. ids: topic ids by name, if known."""
    return [
        m.OffsetCommitRequest_OffsetCommitRequestTopic(
            name=name,
            topic_id=ids.get(name, Uuid.ZERO),
            partitions=[
                m.OffsetCommitRequest_OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
                for index in indexes
                for offset in (offsets[TopicPartition(name, index)],)
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]


def offset_fetch_request(
    group_id: str,
    topics: Mapping[str, list[int]] | None,
    ids: Mapping[str, Uuid],
    *,
    require_stable: bool = False,
    member: tuple[str | None, int] = (None, -1),
) -> m.OffsetFetchRequest:
    """Return an OffsetFetch request for some partitions of a group; None = all.

    member: (member id, member epoch); the coordinator refuses a stale epoch (KIP-848).
    """
    one = m.OffsetFetchRequest_OffsetFetchRequestTopic
    of_group = m.OffsetFetchRequest_OffsetFetchRequestTopics
    group = m.OffsetFetchRequest_OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=member[0],
        member_epoch=member[1],
        topics=None
        if topics is None
        else [
            of_group(name=name, topic_id=ids.get(name, Uuid.ZERO), partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
    )
    return m.OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if topics is None
        else [one(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        groups=[group],
        require_stable=require_stable,
    )


def fetched_offsets(
    answer: Any, version: int, group_id: str, names: Mapping[Uuid, str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets in a response. The result omits partitions without a committed offset. names: topic
    names by id. Raises the first error in the response.
    """
    answered = answer.groups[0] if version >= _GROUPS_FROM else answer
    if answered.error_code:
        raise broker_error(answered.error_code, about=f"offsets of group {group_id}")
    found = {}
    for topic in answered.topics:
        name = names.get(topic.topic_id, "") if version >= OFFSETS_BY_ID else topic.name
        for row in topic.partitions:
            where = TopicPartition(name, row.partition_index)
            if row.error_code:
                raise broker_error(row.error_code, about=f"committed offset of {where} in group {group_id}")
            if row.committed_offset >= 0:
                found[where] = OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
    return found
