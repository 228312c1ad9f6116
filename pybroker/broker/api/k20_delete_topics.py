"""DeleteTopics (key 20), versions 0–6.

Behavior
- The response means that the topic is gone for clients and its name is free.
- INVALID_REQUEST, as in Kafka: both name and id, neither, or the same topic twice in any combination.
- An unknown id answers UNKNOWN_TOPIC_ID.
- With delete.topic.enable=false: TOPIC_DELETION_DISABLED, before v3 INVALID_REQUEST.
- Above controller_mutation_rate: THROTTLING_QUOTA_EXCEEDED from v5 (KIP-599).

Versions
- v6 deletes by name or by id (KIP-516). By id it deletes exactly that incarnation, never a newer topic of the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from pybroker.broker.admin.cluster_description import ClusterAdmin
from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.cluster.events import DeletedTopic
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponse_DeletableTopicResult,
)

API_KEY = 20
FIRST_BY_ID = 6
FIRST_THROTTLED = 5
FIRST_WITH_DISABLED_CODE = 3

Asked = tuple[str | None, Uuid]
"""Name and id as in the request."""


async def handle(
    topics: TopicAdmin,
    cluster: ClusterAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse:
    """Respond when this broker no longer shows the topics, or after timeout_ms."""
    asked = _asked(context.api_version, request)
    outcomes: dict[Asked, DeletedTopic | KafkaError] = dict(_malformed(asked))
    denied: dict[Asked, bool] = {}
    async for topic in context.turns.each(asked):
        describes = None
        if topic not in outcomes:
            describes = _denied(topics, cluster, authorizer=authorizer, context=context, asked=topic)
        if describes is not None:
            denied[topic] = describes
            outcomes[topic] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    # Compare names and ids only here. Only a client that may DESCRIBE both topics may learn that a name and an id are
    # the same topic.
    outcomes.update(_repeated(cluster, [topic for topic in asked if topic not in outcomes]))
    requested = [topic for topic in asked if topic not in outcomes]
    results = await topics.delete(
        [name if name is not None else topic_id for name, topic_id in requested],
        context.caller_refused_since(FIRST_THROTTLED),
        request.timeout_ms,
    )
    for topic, result in zip(requested, results.each, strict=True):
        outcomes[topic] = result
        if topic[0] is None and isinstance(result, KafkaError) and result.code == ErrorCode.UNKNOWN_TOPIC_ID:
            # A dead id's result contains the former name if the client may DESCRIBE it.
            outcomes[topic] = topics.unknown(topic[1], partial(authorizer.lists, context, ResourceType.TOPIC))
    return DeleteTopicsResponse(
        throttle_time_ms=results.throttle_time_ms,
        responses=[
            _answer(_visible_topic(cluster, topic, denied), outcomes[topic], context.api_version)
            async for topic in context.turns.each(dict.fromkeys(asked))
        ],
    )


def _denied(
    topics: TopicAdmin, cluster: ClusterAdmin, *, authorizer: Authorizer, context: RequestContext, asked: Asked
) -> bool | None:
    """Return None if the client may delete the topic; otherwise whether the client may DESCRIBE it. Also return None
    for an unknown id, and for a name without a topic if the client may DESCRIBE the name, because the controller then
    answers that the topic is unknown.
    """
    name, topic_id = asked
    topic = cluster.topic(topic_id if name is None else name)
    if name is None:
        # Stray replicas of an unknown topic have a topic name in their directories. A client that may delete topics of
        # this name may delete the replicas.
        name = topic.name if topic is not None else topics.found(topic_id)
        if name is None:
            return None
        if topic is None:
            permitted = authorizer.permits_topic(context, AclOperation.DELETE, name)
            return None if permitted else authorizer.permits_topic(context, AclOperation.DESCRIBE, name)
    if not authorizer.permits_topic(context, AclOperation.DESCRIBE, name):
        return False
    permitted = topic is None or authorizer.permits_topic(context, AclOperation.DELETE, name)
    return None if permitted else True


def _visible_topic(cluster: ClusterAdmin, asked: Asked, denied: Mapping[Asked, bool]) -> Asked:
    """Build a result. A result for an id names the topic only to clients that may DESCRIBE it."""
    name, topic_id = asked
    topic = cluster.topic(topic_id) if name is None and denied.get(asked) else None
    return asked if topic is None else (topic.name, topic_id)


def _asked(version: int, request: DeleteTopicsRequest) -> list[Asked]:
    if version < FIRST_BY_ID:
        return [(name, Uuid.ZERO) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _malformed(asked: list[Asked]) -> dict[Asked, KafkaError]:
    """Return an error for each request that is invalid in any cluster."""
    refused: dict[Asked, KafkaError] = {}
    for topic in asked:
        name, topic_id = topic
        if name is not None and topic_id != Uuid.ZERO:
            refused[topic] = KafkaError(
                ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id, not by both."
            )
        elif name is None and topic_id == Uuid.ZERO:
            refused[topic] = KafkaError(
                ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id. This one has neither."
            )
    return refused


def _repeated(cluster: ClusterAdmin, asked: list[Asked]) -> dict[Asked, KafkaError]:
    """Return one error for each topic that the request names twice."""
    targets = Counter(_target(cluster, name, topic_id) for name, topic_id in asked)
    problem = KafkaError(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
    return {topic: problem for topic in asked if targets[_target(cluster, *topic)] > 1}


def _target(cluster: ClusterAdmin, name: str | None, topic_id: Uuid) -> str | Uuid:
    """Return the topic that the request means, so that its name and its id count as the same topic."""
    if name is None:
        return topic_id
    topic = cluster.topic(name)
    return name if topic is None else topic.topic_id


def _answer(
    asked: Asked, outcome: DeletedTopic | KafkaError, version: int
) -> DeleteTopicsResponse_DeletableTopicResult:
    name, topic_id = asked
    if isinstance(outcome, DeletedTopic):
        return DeleteTopicsResponse_DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id)
    code = outcome.code
    if code == ErrorCode.TOPIC_DELETION_DISABLED and version < FIRST_WITH_DISABLED_CODE:
        code = int(ErrorCode.INVALID_REQUEST)
    return DeleteTopicsResponse_DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=outcome.message
    )
