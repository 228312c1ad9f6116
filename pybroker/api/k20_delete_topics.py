"""DeleteTopics (key 20), versions 0–6.

v6 (KIP-516) deletes by name or by id; by id exactly that incarnation, never a newer one of the name (A24). Deletion
is immediate: the answer means that the topic is gone and its name is free (group M). Refused with INVALID_REQUEST, as
Kafka does (D18, X21): name and id both, neither, the same topic twice in any combination. An unknown id answers
UNKNOWN_TOPIC_ID. With delete.topic.enable=false: TOPIC_DELETION_DISABLED, before v3 INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter

from pybroker.admin.cluster import ClusterAdmin
from pybroker.admin.topics import TopicAdmin
from pybroker.context import RequestContext
from pybroker.controller.events import DeletedTopic
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
FIRST_WITH_DISABLED_CODE = 3

Asked = tuple[str | None, Uuid]
"""Name and id as the request gives them."""


async def handle(
    topics: TopicAdmin, cluster: ClusterAdmin, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Answers when this broker shows the topics no more, or after timeout_ms."""
    asked = _asked(context.api_version, request)
    outcomes: dict[Asked, DeletedTopic | KafkaError] = dict(_refused(cluster, asked))
    wanted = [one for one in asked if one not in outcomes]
    results = await topics.delete(
        [name if name is not None else topic_id for name, topic_id in wanted], context.principal, request.timeout_ms
    )
    outcomes.update(zip(wanted, results, strict=True))
    return DeleteTopicsResponse(
        responses=[_answer(one, outcomes[one], context.api_version) for one in dict.fromkeys(asked)]
    )


def _asked(version: int, request: DeleteTopicsRequest) -> list[Asked]:
    if version < FIRST_BY_ID:
        return [(name, Uuid.ZERO) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _refused(cluster: ClusterAdmin, asked: list[Asked]) -> dict[Asked, KafkaError]:
    """What is refused before anybody is asked; a topic that is asked for twice is refused once."""
    refused: dict[Asked, KafkaError] = {}
    targets = Counter(_target(cluster, name, topic_id) for name, topic_id in asked)
    for one in asked:
        name, topic_id = one
        problem = None
        if name is not None and topic_id != Uuid.ZERO:
            problem = "A topic must be given by name or by id, not by both."
        elif name is None and topic_id == Uuid.ZERO:
            problem = "A topic must be given by name or by id; this one has neither."
        elif targets[_target(cluster, name, topic_id)] > 1:
            problem = "The request names this topic more than once."
        if problem is not None:
            refused[one] = KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return refused


def _target(cluster: ClusterAdmin, name: str | None, topic_id: Uuid) -> str | Uuid:
    """What is meant: a name and the id behind it are the same target."""
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
