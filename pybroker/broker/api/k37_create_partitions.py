"""CreatePartitions (key 37), versions 0–3 (KIP-195).

Behavior
- Each topic succeeds or fails by itself.
- Above controller_mutation_rate: THROTTLING_QUOTA_EXCEEDED from v3 (KIP-599).

Versions
- From v2 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from functools import partial

from pybroker.broker.admin.topics import GrowSpec, TopicAdmin
from pybroker.broker.api.topic_ids import ImageNames, ResolvedTopic, meant
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequest_CreatePartitionsTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponse_CreatePartitionsTopicResult,
)

API_KEY = 37
FIRST_THROTTLED = 3


async def handle(
    topics: TopicAdmin,
    view: ClusterView,
    authorizer: Authorizer,
    context: RequestContext,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse:
    """Respond when the new partitions accept records, or after timeout_ms."""
    by_id = [topic.topic_id for topic in request.topics if topic.topic_id != Uuid.ZERO]
    timeout_ms = await topics.know(by_id, request.timeout_ms) if by_id else request.timeout_ms
    require = partial(authorizer.require_topic, context, AclOperation.ALTER)
    outcomes: dict[ResolvedTopic, KafkaError | None] = {}
    specs: dict[int, tuple[ResolvedTopic, GrowSpec]] = {}
    async for place, row in context.turns.each(enumerate(request.topics)):
        topic = meant(ImageNames(view), row.name, row.topic_id, require)
        outcomes[topic] = topic.refused
        if topic.refused is None:
            specs[place] = topic, _spec(topic, row)
    results = await topics.create_partitions(
        [spec for _, spec in specs.values()],
        timeout_ms,
        validate_only=request.validate_only,
        caller=context.caller_refused_since(FIRST_THROTTLED),
    )
    for (topic, _), error in zip(specs.values(), results.each, strict=True):
        outcomes[topic] = topic.outcome(error)
    return CreatePartitionsResponse(
        throttle_time_ms=results.throttle_time_ms,
        results=[
            CreatePartitionsResponse_CreatePartitionsTopicResult(
                name=topic.asked,
                topic_id=topic.told_id,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for topic, error in outcomes.items()
        ],
    )


def _spec(topic: ResolvedTopic, row: CreatePartitionsRequest_CreatePartitionsTopic) -> GrowSpec:
    assignments = row.assignments
    return GrowSpec(
        topic.name,
        row.count,
        None if assignments is None else tuple(tuple(assignment.broker_ids) for assignment in assignments),
        topic.topic_id,
    )
