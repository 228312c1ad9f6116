"""PurgeTopics (key 32149, pybroker's own), version 0: removes the data of deleted topics now, or sooner.

Behavior
- Topics are named by id. `delay_ms` 0 removes the data immediately and irrevocably on every broker. A value above 0
  shortens the delay, which counts from the deletion; it never extends it.
- It needs DELETE on the topic's former name. Errors: UNKNOWN_TOPIC_ID for an unknown id, TOPIC_ALREADY_EXISTS for a
  live topic and during an undelete, INVALID_REQUEST for stray replicas.
- A repeated request succeeds.
"""

from __future__ import annotations

from pybroker.broker.admin.topic_incarnations import LineageAdmin
from pybroker.broker.cluster.events import PurgedTopic
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    PurgeTopicsRequest,
    PurgeTopicsResponse,
    PurgeTopicsResponse_PurgedTopicResult,
)

API_KEY = 32149


async def handle(
    lineage: LineageAdmin, authorizer: Authorizer, context: RequestContext, request: PurgeTopicsRequest
) -> PurgeTopicsResponse:
    """Respond when this broker has applied the decision, or after timeout_ms."""
    asked = list(dict.fromkeys(topic.topic_id for topic in request.topics))
    answers: dict[Uuid, PurgedTopic | KafkaError] = {}
    await lineage.know(asked, request.timeout_ms)
    async for topic_id in context.turns.each(asked):
        refused = _refused(lineage, authorizer, context, topic_id)
        if refused is None and request.delay_ms < 0:
            refused = KafkaError(ErrorCode.INVALID_REQUEST, f"delay_ms must not be below 0, but is {request.delay_ms}.")
        if refused is not None:
            answers[topic_id] = refused
    requested = [topic_id for topic_id in asked if topic_id not in answers]
    results = await lineage.purge(requested, request.delay_ms, context.caller, request.timeout_ms)
    answers |= dict(zip(requested, results, strict=True))
    return PurgeTopicsResponse(
        topics=[_answer(topic_id, answers[topic_id]) async for topic_id in context.turns.each(asked)]
    )


def _refused(
    lineage: LineageAdmin, authorizer: Authorizer, context: RequestContext, topic_id: Uuid
) -> KafkaError | None:
    which = lineage.topic(None, topic_id)
    if which is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no deleted topic with id {topic_id}.")
    name = which.topic if isinstance(which, DeletionRecord) else which.name
    if not authorizer.permits(context, AclOperation.DELETE, ResourceType.TOPIC, name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _answer(topic_id: Uuid, outcome: PurgedTopic | KafkaError) -> PurgeTopicsResponse_PurgedTopicResult:
    if isinstance(outcome, KafkaError):
        return PurgeTopicsResponse_PurgedTopicResult(
            topic_id=topic_id, error_code=outcome.code, error_message=outcome.message
        )
    return PurgeTopicsResponse_PurgedTopicResult(
        topic_id=topic_id, name=outcome.name, remove_after_ms=outcome.remove_after_ms
    )
