"""DescribeProducers (key 61), version 0: returns the idempotent and transactional producers of partitions that this
broker leads (KIP-664).

Versions
- From v0 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from pybroker.broker.admin.topic_names import is_topic_name
from pybroker.broker.api.topic_ids import ResolvedTopic, meant
from pybroker.broker.api.transactional_requests import part_of
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.native import ActiveProducer, NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponse_PartitionResponse,
    DescribeProducersResponse_ProducerState,
    DescribeProducersResponse_TopicResponse,
)

API_KEY = 61


class LocalProducers(Protocol):
    """The partitions that this broker hosts (`NativePartitions`)."""

    def producers(self, topic_id: Uuid, partition: int) -> list[ActiveProducer]:
        """Return the producers. Raises NativeError if this broker does not lead the partition."""
        ...


def handle(
    partitions: LocalProducers,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse:
    """Return the producers. Not a coroutine: everything is in memory."""
    require = partial(authorizer.require_topic, context, AclOperation.READ)
    wanted = [(meant(topics, topic.name, topic.topic_id, require), topic.partition_indexes) for topic in request.topics]
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse_TopicResponse(
                name=topic.asked,
                topic_id=topic.told_id,
                partitions=[_describe(partitions, topics, topic, index) for index in indexes],
            )
            for topic, indexes in wanted
        ]
    )


def _describe(
    partitions: LocalProducers, topics: Topics, topic: ResolvedTopic, index: int
) -> DescribeProducersResponse_PartitionResponse:
    part = part_of(topics, topic, index)
    if topic.refused is not None:
        return _refused(index, ErrorCode(topic.refused.code), topic.refused.message or "")
    if part == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_topic_name(topic.name):
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic's name is invalid.")
    if isinstance(part, ErrorCode):
        return _refused(index, part, f"There is no partition {topic.name}-{index}.")
    try:
        found = partitions.producers(part.topic_id, index)
    except NativeError as error:
        return _refused(index, ErrorCode(error.code), error.message)
    return DescribeProducersResponse_PartitionResponse(
        partition_index=index,
        active_producers=[
            DescribeProducersResponse_ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start,
            )
            for producer in found
        ],
    )


def _refused(index: int, code: ErrorCode, message: str) -> DescribeProducersResponse_PartitionResponse:
    return DescribeProducersResponse_PartitionResponse(partition_index=index, error_code=code, error_message=message)
