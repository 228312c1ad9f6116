"""AddPartitionsToTxn (key 24), versions 0–5: partitions join the transaction of a producer.

To v3 a producer asks for itself, and either all partitions are added or none (OPERATION_NOT_ATTEMPTED). v2 knows
PRODUCER_FENCED. v4 is for brokers (KIP-890), for several transactions at once, and may only ask whether partitions are
part of one; v5 is told TRANSACTION_ABORTABLE where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.api.transactional import part_of, require_transactional_id, told
from pybroker.coordinators.shards.ports import Topics
from pybroker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.coordinators.transaction.transaction import VERSION_2, Part, Producer
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
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 24

KNOWS_FENCED = 2
FOR_BROKERS = 4
KNOWS_ABORTABLE = 5

Codes = dict[tuple[str, int], ErrorCode]


async def handle(
    transactions: TransactionCoordinator,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse:
    """Answers when it is stored."""
    if context.api_version < FOR_BROKERS:
        who = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        asked = request.v3_and_below_topics
        transactional_id = request.v3_and_below_transactional_id
        codes = await _add(transactions, topics, authorizer, context, (transactional_id, who, asked))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(asked, codes))
    authorizer.require_cluster(context, AclOperation.CLUSTER_ACTION)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse_AddPartitionsToTxnResult(
                transactional_id=one.transactional_id,
                topic_results=_results(one.topics, await _of_broker(transactions, topics, context.api_version, one)),
            )
            for one in request.transactions
        ]
    )


async def _add(
    transactions: TransactionCoordinator,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    asked: tuple[str, Producer, Sequence[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic]],
) -> Codes:
    transactional_id, who, wanted = asked
    try:
        require_transactional_id(authorizer, context, AclOperation.WRITE, transactional_id)
    except KafkaError as error:
        return _all(wanted, ErrorCode(error.code))
    permitted = {
        topic.name
        for topic in wanted
        if topic.name not in INTERNAL_TOPICS and authorizer.permits_topic(context, AclOperation.WRITE, topic.name)
    }
    parts, codes = _parts(topics, wanted)
    for key in codes:
        if key[0] not in permitted:
            codes[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if any(code is not ErrorCode.NONE for code in codes.values()):
        return {
            key: ErrorCode.OPERATION_NOT_ATTEMPTED if code is ErrorCode.NONE else code for key, code in codes.items()
        }
    try:
        await transactions.add(transactional_id, who, parts)
    except KafkaError as error:
        return _all(wanted, told(error.code, context.api_version, KNOWS_FENCED))
    return codes


async def _of_broker(
    transactions: TransactionCoordinator,
    topics: Topics,
    version: int,
    asked: AddPartitionsToTxnRequest_AddPartitionsToTxnTransaction,
) -> Codes:
    who = Producer(asked.producer_id, asked.producer_epoch)
    parts, codes = _parts(topics, asked.topics)
    try:
        if not asked.verify_only:
            await transactions.add(asked.transactional_id, who, parts, VERSION_2)
            return codes
        held = transactions.holds(asked.transactional_id, who, parts)
    except KafkaError as error:
        return _all(asked.topics, ErrorCode(error.code))
    refusal = ErrorCode.TRANSACTION_ABORTABLE if version >= KNOWS_ABORTABLE else ErrorCode.INVALID_TXN_STATE
    for part, is_held in zip(parts, held, strict=True):
        if not is_held:
            codes[part.topic, part.partition] = refusal
    return codes


def _parts(
    topics: Topics, asked: Sequence[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic]
) -> tuple[list[Part], Codes]:
    """What exists, and a code for each that was asked for."""
    parts: list[Part] = []
    codes: Codes = {}
    for topic in asked:
        for partition in topic.partitions:
            part = part_of(topics, topic.name, partition)
            codes[topic.name, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if part is None else ErrorCode.NONE
            if part is not None:
                parts.append(part)
    return parts, codes


def _all(asked: Sequence[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic], code: ErrorCode) -> Codes:
    return {(topic.name, partition): code for topic in asked for partition in topic.partitions}


def _results(
    asked: Sequence[AddPartitionsToTxnRequest_AddPartitionsToTxnTopic], codes: Codes
) -> list[AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnResponse_AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponse_AddPartitionsToTxnPartitionResult(
                    partition_index=partition, partition_error_code=codes[topic.name, partition]
                )
                for partition in topic.partitions
            ],
        )
        for topic in asked
    ]
