"""OffsetFetch (key 9), versions 1–10: returns the committed offsets of groups.

Behavior
- A partition without a commit has offset −1 and no error.
- Offsets are stored by topic id, so a name returns the commits of its living topic only.
- An unknown id answers UNKNOWN_TOPIC_ID in its entries.

Versions
- v2 accepts null topics for all topics and has a group-level error code. v5 adds leader epochs.
- v7 adds require_stable: offsets that depend on an open transaction answer UNSTABLE_OFFSET_COMMIT.
- v8 takes several groups. v9 adds member id and epoch, checked for consumer groups (KIP-848). v10 names topics by id.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.offsets import CommittedOffset
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequest_OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponse_OffsetFetchResponseGroup,
    OffsetFetchResponse_OffsetFetchResponsePartition,
    OffsetFetchResponse_OffsetFetchResponsePartitions,
    OffsetFetchResponse_OffsetFetchResponseTopic,
    OffsetFetchResponse_OffsetFetchResponseTopics,
)

API_KEY = 9

NOBODY: tuple[str | None, int] = (None, -1)
"""Member and epoch of a request that does not come from a member."""

NO_OFFSET = CommittedOffset(-1, -1, "", -1)


class _Asker(NamedTuple):
    authorizer: Authorizer
    context: RequestContext

    def describes(self, name: str) -> bool:
        return self.authorizer.permits_topic(self.context, AclOperation.DESCRIBE, name)


class _Topic(NamedTuple):
    name: str
    topic_id: Uuid
    partitions: list[tuple[int, CommittedOffset, ErrorCode]]


class _TopicQuery(NamedTuple):
    name: str
    topic_id: Uuid | None
    """None: no topic has the name, so there is no committed offset for it."""
    partitions: Sequence[int]
    error: ErrorCode


def handle(
    groups: GroupCoordinator,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse:
    """Return the offsets. Not a coroutine: everything is in memory."""
    asker = _Asker(authorizer, context)
    if context.api_version >= 8:
        # Return each group's offsets only once. Otherwise each repetition of a group id, a few bytes, would return all
        # of them again.
        asked = {group.group_id if group.topics is None else id(group): group for group in request.groups}
        return OffsetFetchResponse(
            groups=[
                _group(groups, topics, asker, context.api_version, group, stable=request.require_stable)
                for group in asked.values()
            ]
        )
    queries = None
    if request.topics is not None:
        queries = [_by_name(topics, asker, topic.name, topic.partition_indexes) for topic in request.topics]
    error, found = _fetch(groups, asker, request.group_id, queries, stable=request.require_stable)
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponse_OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse_OffsetFetchResponsePartition(
                        partition_index=partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        # Version 1 has no error code for the group, and aiokafka ignores it in later versions. Without
                        # an error in each partition, aiokafka would apply the reset policy while the group is still
                        # loading.
                        error_code=code if code is not ErrorCode.NONE else error,
                    )
                    for partition, offset, code in topic.partitions
                ],
            )
            for topic in found
        ],
    )


def _group(
    groups: GroupCoordinator,
    topics: Topics,
    asker: _Asker,
    version: int,
    request: OffsetFetchRequest_OffsetFetchRequestGroup,
    *,
    stable: bool,
) -> OffsetFetchResponse_OffsetFetchResponseGroup:
    queries = None
    if request.topics is not None:
        queries = [
            _by_id(topics, asker, topic.topic_id, topic.partition_indexes)
            if version >= 10
            else _by_name(topics, asker, topic.name, topic.partition_indexes)
            for topic in request.topics
        ]
    # Requests below version 9 do not name a member.
    member = (request.member_id, request.member_epoch) if version >= 9 else NOBODY
    error, found = _fetch(groups, asker, request.group_id, queries, stable=stable, member=member)
    if error is not ErrorCode.NONE:
        found = []
    return OffsetFetchResponse_OffsetFetchResponseGroup(
        group_id=request.group_id,
        error_code=error,
        topics=[
            OffsetFetchResponse_OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponse_OffsetFetchResponsePartitions(
                        partition_index=partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        error_code=code,
                    )
                    for partition, offset, code in topic.partitions
                ],
            )
            for topic in found
        ],
    )


def _by_name(topics: Topics, asker: _Asker, name: str, partitions: Sequence[int]) -> _TopicQuery:
    if not asker.describes(name):
        return _TopicQuery(name, None, partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return _TopicQuery(name, topics.topic_id(name), partitions, ErrorCode.NONE)


def _by_id(topics: Topics, asker: _Asker, topic_id: Uuid, partitions: Sequence[int]) -> _TopicQuery:
    name = topics.topic_name(topic_id)
    if name is None:
        return _TopicQuery("", topic_id, partitions, ErrorCode.UNKNOWN_TOPIC_ID)
    permitted = asker.describes(name)
    return _TopicQuery("", topic_id, partitions, ErrorCode.NONE if permitted else ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _fetch(
    groups: GroupCoordinator,
    asker: _Asker,
    group_id: str,
    queries: Sequence[_TopicQuery] | None,
    *,
    stable: bool,
    member: tuple[str | None, int] = NOBODY,
) -> tuple[ErrorCode, list[_Topic]]:
    unstable: Set[tuple[Uuid, int]] = set()
    try:
        asker.authorizer.require_group(asker.context, AclOperation.DESCRIBE, group_id)
        groups.check_fetch(group_id, *member)
        if stable:
            unstable = groups.unstable(group_id)
        if queries is None:
            return ErrorCode.NONE, [
                _Topic(
                    topic.name,
                    topic_id,
                    [
                        (index, NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                        if (topic_id, index) in unstable
                        else (index, offset, ErrorCode.NONE)
                        for index, offset in sorted(topic.partitions.items())
                    ],
                )
                for topic_id, topic in groups.fetch_all(group_id)
                if asker.authorizer.lists(asker.context, ResourceType.TOPIC, topic.name)
            ]
        keys = [(query.topic_id or Uuid.ZERO, partition) for query in queries for partition in query.partitions]
        offsets = iter(groups.fetch(group_id, keys))
        error = ErrorCode.NONE
    except KafkaError as problem:
        error = ErrorCode(problem.code)
        if queries is None:
            return error, []
        offsets = iter([None] * sum(len(query.partitions) for query in queries))
    return error, [
        _Topic(
            query.name,
            query.topic_id or Uuid.ZERO,
            [_shown(query, partition, next(offsets), unstable) for partition in query.partitions],
        )
        for query in queries
    ]


def _shown(
    query: _TopicQuery, partition: int, found: CommittedOffset | None, unstable: Set[tuple[Uuid, int]]
) -> tuple[int, CommittedOffset, ErrorCode]:
    error = query.error
    if error is ErrorCode.NONE and (query.topic_id, partition) in unstable:
        error = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return partition, NO_OFFSET if found is None or error is not ErrorCode.NONE else found, error
