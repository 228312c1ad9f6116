"""DeleteRecords (key 21), versions 0–2: advances the log start offset; −1 means the high watermark.

Behavior
- Errors per partition, as in Kafka: UNKNOWN_TOPIC_OR_PARTITION; INVALID_TOPIC_EXCEPTION for an internal topic;
  POLICY_VIOLATION when cleanup.policy lacks "delete"; OFFSET_OUT_OF_RANGE above the high watermark.
- The native side waits for a flush under way, so that records acknowledged with acks=1 can be deleted.

Versions
- From v2 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from functools import partial

from pybroker.broker.admin.record_deletion import DeletedRecords, RecordAdmin
from pybroker.broker.api.topic_ids import Names, meant
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponse_DeleteRecordsPartitionResult,
    DeleteRecordsResponse_DeleteRecordsTopicResult,
)

API_KEY = 21


async def handle(
    records: RecordAdmin, names: Names, authorizer: Authorizer, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Respond when the new log start offsets are in effect."""
    require = partial(authorizer.require_topic, context, AclOperation.DELETE)
    topics = [(meant(names, topic.name, topic.topic_id, require), topic.partitions) for topic in request.topics]
    requested = [
        (topic.name, partition.partition_index, partition.offset)
        for topic, partitions in topics
        if topic.refused is None
        for partition in partitions
    ]
    outcomes = iter(await records.delete(requested, request.timeout_ms / 1000))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse_DeleteRecordsTopicResult(
                name=topic.asked,
                topic_id=topic.told_id,
                partitions=[
                    _answer(
                        partition.partition_index,
                        next(outcomes) if topic.refused is None else DeletedRecords(topic.refused.code, -1),
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in topics
            if partitions
        ]
    )


def _answer(partition: int, outcome: DeletedRecords) -> DeleteRecordsResponse_DeleteRecordsPartitionResult:
    return DeleteRecordsResponse_DeleteRecordsPartitionResult(
        partition_index=partition, low_watermark=outcome.low_watermark, error_code=outcome.error_code
    )
