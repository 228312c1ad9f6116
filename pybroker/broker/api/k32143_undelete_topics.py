"""UndeleteTopics (key 32143, pybroker's own), version 0: restores deleted topics whose data still exists.

Behavior
- Topics are named by id. If a topic's name is in use, the request contains another name for it.
- It needs DELETE on the topic's former name and, for another name, CREATE on the other name. Without DESCRIBE the
  response omits the name.
"""

from __future__ import annotations

from pybroker.broker.admin.topic_incarnations import LineageAdmin, Restore
from pybroker.broker.cluster.events import UndeletedTopic
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    UndeleteTopicsRequest,
    UndeleteTopicsRequest_UndeletableTopic,
    UndeleteTopicsResponse,
    UndeleteTopicsResponse_UndeletedTopicResult,
)

API_KEY = 32143


async def handle(
    lineage: LineageAdmin, authorizer: Authorizer, context: RequestContext, request: UndeleteTopicsRequest
) -> UndeleteTopicsResponse:
    """Respond when the topics are in service, or after timeout_ms; topics that are not in service by then come back
    later.
    """
    answers: dict[Uuid, UndeletedTopic | KafkaError] = {}
    requested: list[Restore] = []
    seen: dict[Uuid, None] = {}
    await lineage.know([topic.topic_id for topic in request.topics], request.timeout_ms)
    for topic in request.topics:
        if topic.topic_id in seen:
            answers[topic.topic_id] = KafkaError(ErrorCode.INVALID_REQUEST, "The request names this topic twice.")
            continue
        seen[topic.topic_id] = None
        refused = _refused(lineage, authorizer, context, topic)
        if refused is not None:
            answers[topic.topic_id] = refused
        else:
            requested.append(Restore(topic.topic_id, topic.new_name))
    requested = [restore for restore in requested if restore.topic_id not in answers]
    results = await lineage.undelete(requested, context.caller, request.timeout_ms)
    answers |= {restore.topic_id: result for restore, result in zip(requested, results, strict=True)}
    return UndeleteTopicsResponse(topics=[_answer(topic_id, answers[topic_id]) for topic_id in seen])


def _refused(
    lineage: LineageAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    topic: UndeleteTopicsRequest_UndeletableTopic,
) -> KafkaError | None:
    which = lineage.topic(None, topic.topic_id)
    if which is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no live or deleted topic with id {topic.topic_id}.")
    former = which.topic if isinstance(which, DeletionRecord) else which.name
    if not authorizer.permits(context, AclOperation.DELETE, ResourceType.TOPIC, former):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    name = topic.new_name
    if name is not None and not authorizer.permits(context, AclOperation.CREATE, ResourceType.TOPIC, name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _answer(topic_id: Uuid, outcome: UndeletedTopic | KafkaError) -> UndeleteTopicsResponse_UndeletedTopicResult:
    if isinstance(outcome, KafkaError):
        return UndeleteTopicsResponse_UndeletedTopicResult(
            topic_id=topic_id, error_code=outcome.code, error_message=outcome.message
        )
    return UndeleteTopicsResponse_UndeletedTopicResult(topic_id=topic_id, name=outcome.name)
