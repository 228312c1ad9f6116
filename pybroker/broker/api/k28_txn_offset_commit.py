"""TxnOffsetCommit (key 28), versions 0–6: commits a group's offsets as part of a transaction.

Behavior
- The offsets take effect when the transaction commits.

Versions
- v3 adds the group's member and generation, which are checked (KIP-447). v4 adds TRANSACTION_ABORTABLE.
- From v5 the request itself adds the group's offsets partition to the transaction (KIP-890). v6 names topics by id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pybroker.broker.api.committed_offsets import CommittedTopics
from pybroker.broker.api.transactional_requests import require_transactional_id
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponse_TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponse_TxnOffsetCommitResponseTopic,
)

API_KEY = 28

KNOWS_LOADING = 2
KNOWS_ABORTABLE = 4
ADDS = 5
BY_ID = 6


async def handle(
    commits: TransactionalCommits,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse:
    """Respond when the accepted offsets are on disk."""
    version = context.api_version
    requested = CommittedTopics(topics, authorizer, context, request.topics, by_id=version >= BY_ID)
    try:
        require_transactional_id(authorizer, context, AclOperation.WRITE, request.transactional_id)
        authorizer.require_group(context, AclOperation.READ, request.group_id)
    except KafkaError as error:
        return _response(requested.all_with(ErrorCode(error.code)))
    items = tuple(requested.permitted())
    try:
        codes = await commits.commit(
            request.transactional_id,
            CommitRequest(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                items,
                producer=(request.producer_id, request.producer_epoch),
            ),
            adds=version >= ADDS,
            abortable=version >= KNOWS_ABORTABLE,
        )
    except KafkaError as error:
        codes = requested.refused(ErrorCode(error.code))
    return _response(requested.answers([_code_in_version(code, version) for code in codes]))


def _code_in_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _response(answers: Iterable[tuple[Any, list[tuple[int, ErrorCode]]]]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse_TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponse_TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions
                ],
            )
            for topic, partitions in answers
        ]
    )
