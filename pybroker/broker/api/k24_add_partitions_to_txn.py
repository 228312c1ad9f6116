"""AddPartitionsToTxn (key 24), versions 0–5: adds partitions to a producer's transaction.

Behavior
- Up to v3 a producer adds its own partitions: all of them or none (OPERATION_NOT_ATTEMPTED).

Versions
- v2 adds PRODUCER_FENCED. From v3 a tagged field names the topic by id (`topic_ids`).
- v4 is for brokers (KIP-890): several transactions at once, optionally only to verify that partitions are part of one.
- v5 answers TRANSACTION_ABORTABLE for partitions that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.broker.api.topic_ids import ResolvedTopic, meant
from pybroker.broker.api.transactional_requests import code_in_version, part_of, require_transactional_id
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.transaction.coordinator import PATIENCE_S, TransactionCoordinator
from pybroker.broker.coordinators.transaction.transaction import VERSION_2, TransactionPartition, TransactionProducer
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import INTERNAL_TOPICS
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequest_AddPartitionsToTxnTopic,
    AddPartitionsToTxnRequest_AddPartitionsToTxnTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponse_AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse_AddPartitionsToTxnResult,
    AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult,
)

API_KEY = 24

KNOWS_FENCED = 2
FOR_BROKERS = 4
KNOWS_ABORTABLE = 5

Asked = Sequence[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic]
Found = list[tuple[ResolvedTopic, dict[int, TransactionPartition | ErrorCode]]]
"""The topics of a request, in order, with their partitions. For a partition with an error, the error code takes the
place of the partition."""


async def handle(
    transactions: TransactionCoordinator,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse:
    """Respond when the partitions are stored."""
    if context.api_version < FOR_BROKERS:
        who = TransactionProducer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        transactional_id = request.v3_and_below_transactional_id

        def require(name: str) -> None:
            if name in INTERNAL_TOPICS:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
            authorizer.require_topic(context, AclOperation.WRITE, name)

        found = _found(topics, request.v3_and_below_topics, require)
        code = await _add(transactions, authorizer, context, (transactional_id, who, found))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(found, code))
    authorizer.require_cluster(context, AclOperation.CLUSTER_ACTION)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse_AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=await _of_broker(transactions, topics, context.api_version, transaction),
            )
            for transaction in request.transactions
        ]
    )


async def _add(
    transactions: TransactionCoordinator,
    authorizer: Authorizer,
    context: RequestContext,
    asked: tuple[str, TransactionProducer, Found],
) -> ErrorCode:
    """Add all partitions or none. Return NONE, or the error for the whole request; a partition that cannot be added
    keeps its own code.
    """
    transactional_id, who, found = asked
    try:
        require_transactional_id(authorizer, context, AclOperation.WRITE, transactional_id)
    except KafkaError as error:
        return _refuse_all(found, ErrorCode(error.code))
    parts = _parts(found)
    if len(parts) < sum(len(partitions) for _, partitions in found):
        return ErrorCode.OPERATION_NOT_ATTEMPTED
    try:
        await transactions.add(transactional_id, who, parts, patience_s=PATIENCE_S)
    except KafkaError as error:
        return code_in_version(error.code, context.api_version, KNOWS_FENCED)
    return ErrorCode.NONE


async def _of_broker(
    transactions: TransactionCoordinator,
    topics: Topics,
    version: int,
    asked: AddPartitionsToTxnRequest_AddPartitionsToTxnTransaction,
) -> list[AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult]:
    who = TransactionProducer(asked.producer_id, asked.producer_epoch)
    found = _found(topics, asked.topics)
    parts = _parts(found)
    try:
        if not asked.verify_only:
            await transactions.add(asked.transactional_id, who, parts, VERSION_2)
            return _results(found, ErrorCode.NONE)
        held = transactions.holds(asked.transactional_id, who, parts)
    except KafkaError as error:
        return _results(found, _refuse_all(found, ErrorCode(error.code)))
    refusal = ErrorCode.TRANSACTION_ABORTABLE if version >= KNOWS_ABORTABLE else ErrorCode.INVALID_TXN_STATE
    missing = {part for part, is_held in zip(parts, held, strict=True) if not is_held}
    for _, partitions in found:
        partitions.update({index: refusal for index, partition in partitions.items() if partition in missing})
    return _results(found, ErrorCode.NONE)


def _found(topics: Topics, asked: Asked, authorize: Callable[[str], None] | None = None) -> Found:
    requested = [(meant(topics, topic.name, topic.topic_id, authorize), topic.partitions) for topic in asked]
    return [(topic, {index: part_of(topics, topic, index) for index in indexes}) for topic, indexes in requested]


def _parts(found: Found) -> list[TransactionPartition]:
    """Return the partitions that exist, without duplicates."""
    ours = (partition for _, partitions in found for partition in partitions.values())
    return list(dict.fromkeys(transaction for transaction in ours if isinstance(transaction, TransactionPartition)))


def _refuse_all(found: Found, code: ErrorCode) -> ErrorCode:
    """Set this code for all partitions, even for partitions that already have another code."""
    for _, partitions in found:
        partitions.update(dict.fromkeys(partitions, code))
    return code


def _results(found: Found, code: ErrorCode) -> list[AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult]:
    """Set `code` for the partitions that exist."""
    return [
        AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult(
            name=topic.asked,
            topic_id=topic.told_id,
            results_by_partition=[
                AddPartitionsToTxnResponse_AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=code if isinstance(partition, TransactionPartition) else partition,
                )
                for index, partition in partitions.items()
            ],
        )
        for topic, partitions in found
    ]
