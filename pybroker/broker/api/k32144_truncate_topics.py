"""TruncateTopics (key 32144, pybroker's own), version 0: replaces each topic by an empty incarnation.

Behavior
- A topic is named by name or by id, not by both. By id it is exactly that incarnation. It needs DELETE on the topic.
- With `keep_offsets` the new logs begin at the old end offsets, and groups keep their committed offsets.
"""

from __future__ import annotations

from functools import partial

from pybroker.broker.admin.topic_incarnations import LineageAdmin, Truncate
from pybroker.broker.cluster.events import TruncatedTopic
from pybroker.broker.metadata.image import TopicImage
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    TruncateTopicsRequest,
    TruncateTopicsRequest_TruncatableTopic,
    TruncateTopicsResponse,
    TruncateTopicsResponse_TruncatedTopicResult,
)

API_KEY = 32144


async def handle(
    lineage: LineageAdmin, authorizer: Authorizer, context: RequestContext, request: TruncateTopicsRequest
) -> TruncateTopicsResponse:
    """Respond when the new incarnations accept records, or after timeout_ms."""
    answers: list[TruncatedTopic | KafkaError | None] = []
    requested: list[Truncate] = []
    await lineage.know(
        [topic.topic_id if topic.name is None else topic.name for topic in request.topics], request.timeout_ms
    )
    for topic in request.topics:
        refused = _refused(lineage, authorizer, context, topic)
        answers.append(refused)
        if refused is None:
            requested.append(Truncate(topic.name if topic.name is not None else topic.topic_id, topic.keep_offsets))
    results = iter(await lineage.truncate(requested, context.caller, request.timeout_ms))
    outcomes = [next(results) if answer is None else answer for answer in answers]
    return TruncateTopicsResponse(
        topics=[_answer(topic, outcome) for topic, outcome in zip(request.topics, outcomes, strict=True)]
    )


def _refused(
    lineage: LineageAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    topic: TruncateTopicsRequest_TruncatableTopic,
) -> KafkaError | None:
    if (topic.name is None) == (topic.topic_id == Uuid.ZERO):
        return KafkaError(ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id, not by both.")
    which = lineage.topic(topic.name, topic.topic_id)
    if isinstance(which, TopicImage):
        name = which.name
    elif topic.name is not None:
        name = topic.name
    else:
        # Any client may learn that an id is unknown. The response contains the former name of a dead id if the client
        # may DESCRIBE that name.
        return lineage.unknown(topic.topic_id, partial(authorizer.lists, context, ResourceType.TOPIC))
    if not authorizer.permits(context, AclOperation.DELETE, ResourceType.TOPIC, name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _answer(
    asked: TruncateTopicsRequest_TruncatableTopic, outcome: TruncatedTopic | KafkaError
) -> TruncateTopicsResponse_TruncatedTopicResult:
    if isinstance(outcome, KafkaError):
        return TruncateTopicsResponse_TruncatedTopicResult(
            name=asked.name,
            old_topic_id=asked.topic_id,
            error_code=outcome.code,
            error_message=outcome.message,
        )
    return TruncateTopicsResponse_TruncatedTopicResult(
        name=outcome.name, topic_id=outcome.topic_id, old_topic_id=outcome.old_id
    )
