"""DeleteRecords (key 21), versions 0–2: moves the log start up; offset -1 means the high watermark.

Refused per partition, as in Kafka: UNKNOWN_TOPIC_OR_PARTITION; INVALID_TOPIC_EXCEPTION for an internal topic;
POLICY_VIOLATION for a topic whose cleanup.policy is without "delete"; OFFSET_OUT_OF_RANGE above the high watermark
(the native side knows, and waits for a flush that is under way, so that what was acknowledged with acks=1 can go).
"""

from __future__ import annotations

from pybroker.admin.records import DeletedRecords, RecordAdmin
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponse_DeleteRecordsPartitionResult,
    DeleteRecordsResponse_DeleteRecordsTopicResult,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 21

_DENIED = DeletedRecords(low_watermark=-1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def handle(
    records: RecordAdmin, authorizer: Authorizer, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Answers when the new log starts are in force."""
    denied = {
        topic.name for topic in request.topics if not authorizer.permits_topic(context, AclOperation.DELETE, topic.name)
    }
    wanted = [
        (topic.name, partition.partition_index, partition.offset)
        for topic in request.topics
        if topic.name not in denied
        for partition in topic.partitions
    ]
    outcomes = iter(await records.delete(wanted, request.timeout_ms / 1000))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse_DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _answer(partition.partition_index, _DENIED if topic.name in denied else next(outcomes))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(partition: int, outcome: DeletedRecords) -> DeleteRecordsResponse_DeleteRecordsPartitionResult:
    return DeleteRecordsResponse_DeleteRecordsPartitionResult(
        partition_index=partition, low_watermark=outcome.low_watermark, error_code=outcome.error_code
    )
