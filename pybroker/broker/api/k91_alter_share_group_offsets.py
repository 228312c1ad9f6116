"""AlterShareGroupOffsets (key 91), version 0: sets the start offsets of a share group without members (KIP-932).

Behavior
- A group that does not exist is created.
"""

from __future__ import annotations

from pybroker.broker.api.share_records import ShareAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponseTopic,
)

API_KEY = 91


async def handle(
    sources: ShareAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: AlterShareGroupOffsetsRequest,
) -> AlterShareGroupOffsetsResponse:
    """Respond when the offsets are on disk."""
    shares, topics, features = sources
    requested: dict[Uuid, dict[int, int]] = {}
    refused: dict[tuple[str, int], ErrorCode] = {}
    try:
        features.require_share_groups()
        authorizer.require_group(context, AclOperation.READ, request.group_id)
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
        for topic in request.topics:
            code, topic_id = ErrorCode.NONE, None
            if not authorizer.permits_topic(context, AclOperation.READ, topic.topic_name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else:
                topic_id = topics.topic_id(topic.topic_name)
            for partition in topic.partitions:
                index = partition.partition_index
                if code is ErrorCode.NONE and (topic_id is None or not 0 <= index < topics.partition_count(topic_id)):
                    refused[topic.topic_name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif code is not ErrorCode.NONE or topic_id is None:
                    refused[topic.topic_name, index] = code
                elif partition.start_offset < 0:
                    refused[topic.topic_name, index] = ErrorCode.INVALID_REQUEST
                else:
                    requested.setdefault(topic_id, {})[index] = partition.start_offset
        codes = await shares.alter(request.group_id, requested) if requested else {}
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    responses = []
    hidden = {name for (name, _), code in refused.items() if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    for topic in request.topics:
        topic_id = topics.topic_id(topic.topic_name) if topic.topic_name not in hidden else None
        responses.append(
            AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=topic_id or Uuid.ZERO,
                partitions=[
                    AlterShareGroupOffsetsResponse_AlterShareGroupOffsetsResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=refused.get(
                            (topic.topic_name, partition.partition_index),
                            ErrorCode.NONE
                            if topic_id is None
                            else codes.get((topic_id, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
        )
    return AlterShareGroupOffsetsResponse(responses=responses)
