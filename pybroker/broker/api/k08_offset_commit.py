"""OffsetCommit (key 8), versions 1–10: stores the offsets of a group.

Behavior
- The response leaves when the offsets are on disk.
- A topic that does not exist gets its error in its own entries; the other offsets are committed.
- After a member's first successful commit, data threads append its next ones (`coordinators.shards.cached_responses`).

Versions
- v1 has a commit timestamp for each partition, v2–4 a retention for the request, v6 leader epochs, v7
  group.instance.id.
- v9 carries the member epoch of consumer groups (KIP-848). v10 names topics by id.

Differs from Kafka
- A member whose generation formed before a topic was deleted and created again cannot commit for that name:
  REBALANCE_IN_PROGRESS, and the group rebalances. A member of a consumer group that owns no partition of the new topic
  gets UNKNOWN_TOPIC_OR_PARTITION. A commit with a leader epoch of the living topic is accepted. Kafka stores the old
  position for the new topic.
"""

from __future__ import annotations

from pybroker.broker.api.committed_offsets import CommittedTopics
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.requests.context import DelegatedCommitResponse, RequestContext
from pybroker.broker.requests.deferred_response import DeferredResponse
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponse_OffsetCommitResponsePartition,
    OffsetCommitResponse_OffsetCommitResponseTopic,
)

API_KEY = 8


def handle(
    groups: GroupCoordinator,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: OffsetCommitRequest,
) -> object:
    """Return the response. If offsets have to be written first, return a coroutine."""
    authorizer.require_group(context, AclOperation.READ, request.group_id)
    requested = CommittedTopics(topics, authorizer, context, request.topics, by_id=context.api_version >= 10)
    items = tuple(requested.permitted())
    later = DeferredResponse()
    commit = CommitRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        items,
        request.retention_time_ms,
        knows_member_epochs=context.api_version >= 9,
    )

    def finished(codes: list[ErrorCode]) -> None:
        response = _response(requested, codes)
        stored = requested.is_whole and items and not any(codes)
        grant = groups.grant_commits(commit) if stored else None
        later.resolve(response if grant is None else DelegatedCommitResponse(response, grant))

    try:
        groups.commit_then(commit, finished)
    except KafkaError as error:
        later.resolve(_response(requested, requested.refused(ErrorCode(error.code))))
    return later.outcome()


def _response(requested: CommittedTopics, codes: list[ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse_OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse_OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions
                ],
            )
            for topic, partitions in requested.answers(codes)
        ]
    )
