"""DeleteShareGroupOffsets (key 92), version 0: deletes the state of a share group without members for topics
(KIP-932)."""

from __future__ import annotations

from pybroker.broker.api.share_records import ShareAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponse_DeleteShareGroupOffsetsResponseTopic,
)

API_KEY = 92


async def handle(
    sources: ShareAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: DeleteShareGroupOffsetsRequest,
) -> DeleteShareGroupOffsetsResponse:
    """Respond when the deletion is on disk."""
    shares, topics, features = sources
    ids: dict[str, Uuid] = {}
    codes: dict[str, ErrorCode] = {}
    try:
        features.require_share_groups()
        authorizer.require_group(context, AclOperation.DELETE, request.group_id)
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
        for topic in request.topics:
            name = topic.topic_name
            if not authorizer.permits_topic(context, AclOperation.READ, name):
                codes[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif (topic_id := topics.topic_id(name)) is None:
                codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                ids[name] = topic_id
        deleted = await shares.delete_offsets(request.group_id, list(ids.values()))
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    codes.update({name: deleted[topic_id] for name, topic_id in ids.items()})
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponse_DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=ids.get(topic.topic_name, Uuid.ZERO),
                error_code=codes[topic.topic_name],
            )
            for topic in request.topics
        ]
    )
