"""DescribeTopicHistory (key 32145, pybroker's own), version 0: returns the incarnations of a name, or of an id.

Behavior
- It needs DESCRIBE on the name. An unknown id answers UNKNOWN_TOPIC_ID before authorization.
- Without DESCRIBE, the response to an id omits the name, and the response to a name is that of a name that does not
  exist. Other names of a topic are empty if the caller lacks DESCRIBE on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pybroker.broker.admin.history import FormerNames, HistoryAdmin, Incarnation
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeTopicHistoryRequest,
    DescribeTopicHistoryRequest_HistoryTopic,
    DescribeTopicHistoryResponse,
    DescribeTopicHistoryResponse_HistoryEvent,
    DescribeTopicHistoryResponse_HistoryIncarnation,
    DescribeTopicHistoryResponse_HistoryPartition,
    DescribeTopicHistoryResponse_HistoryTopicResult,
)

API_KEY = 32145


def handle(
    history: HistoryAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeTopicHistoryRequest
) -> DescribeTopicHistoryResponse:
    """Return the histories from this broker's view of the cluster. A repeated topic has one result, as in Metadata."""
    asked = {(topic.name, topic.topic_id): topic for topic in request.topics}
    # Compute the former names once per request, because that reads every topic.
    former = history.former_names() if any(topic.name is not None for topic in request.topics) else {}
    return DescribeTopicHistoryResponse(
        topics=[_topic(history, authorizer, context, topic, former) for topic in asked.values()]
    )


def _topic(
    history: HistoryAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    topic: DescribeTopicHistoryRequest_HistoryTopic,
    former: FormerNames,
) -> DescribeTopicHistoryResponse_HistoryTopicResult:
    result = DescribeTopicHistoryResponse_HistoryTopicResult(name=topic.name, topic_id=topic.topic_id)
    try:
        may_see = partial(authorizer.lists, context, ResourceType.TOPIC)
        result.incarnations = [
            _incarnation(incarnation, may_see) for incarnation in _history(history, authorizer, context, topic, former)
        ]
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _history(
    history: HistoryAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    topic: DescribeTopicHistoryRequest_HistoryTopic,
    former: FormerNames,
) -> list[Incarnation]:
    if (topic.name is None) == (topic.topic_id == Uuid.ZERO):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id, not by both.")
    name = topic.name
    if name is None:
        which = history.topic(None, topic.topic_id)
        if which is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no live or deleted topic with id {topic.topic_id}.")
        name = which.topic if isinstance(which, DeletionRecord) else which.name
    if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return history.history(topic.name, topic.topic_id, former)


def _incarnation(one: Incarnation, may_see: Callable[[str], bool]) -> DescribeTopicHistoryResponse_HistoryIncarnation:
    return DescribeTopicHistoryResponse_HistoryIncarnation(
        name=one.name if may_see(one.name) else "",
        topic_id=one.topic_id,
        state=one.state,
        created_ms=one.created_ms,
        created_by=one.created_by,
        created_how=one.created_how,
        deleted_ms=one.deleted_ms,
        deleted_by=one.deleted_by,
        deleted_how=one.deleted_how,
        successor_id=one.successor or Uuid.ZERO,
        events=[
            DescribeTopicHistoryResponse_HistoryEvent(
                what=event.what, at_ms=event.at_ms, by=event.by, name=event.name if may_see(event.name) else ""
            )
            for event in one.events
        ],
        partitions=[
            DescribeTopicHistoryResponse_HistoryPartition(
                partition_index=index, log_start_offset=start, log_end_offset=end
            )
            for index, (start, end) in enumerate(one.ends)
        ],
    )
