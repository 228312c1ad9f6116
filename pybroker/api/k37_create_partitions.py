"""CreatePartitions (key 37), versions 0–3 (KIP-195). Each topic succeeds or fails by itself. Over
controller_mutation_rate: THROTTLING_QUOTA_EXCEEDED from v3 (KIP-599)."""

from __future__ import annotations

from pybroker.admin.cluster import ClusterAdmin
from pybroker.admin.mutations import MutationQuota
from pybroker.admin.topics import GrowSpec, TopicAdmin
from pybroker.errors import KafkaError
from pybroker.native import NativeQuotas
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequest_CreatePartitionsTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponse_CreatePartitionsTopicResult,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 37
FIRST_THROTTLED = 3


async def handle(
    topics: TopicAdmin,
    cluster: ClusterAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: CreatePartitionsRequest,
    *,
    quotas: NativeQuotas,
) -> CreatePartitionsResponse:
    """Answers when the new partitions take records, or after timeout_ms."""
    denied = {
        topic.name for topic in request.topics if not authorizer.permits_topic(context, AclOperation.ALTER, topic.name)
    }
    quota = MutationQuota(quotas, context, strict=context.api_version >= FIRST_THROTTLED)
    refused: dict[str, KafkaError] = {}
    specs = []
    for topic in request.topics:
        if topic.name in denied:
            continue
        known = cluster.topic(topic.name)
        added = 0 if known is None or request.validate_only else topic.count - len(known.partitions)
        problem = quota.take(added) if added > 0 else None
        if problem is None:
            specs.append(_spec(topic))
        else:
            refused[topic.name] = problem
    results = await topics.create_partitions(
        specs, request.timeout_ms, validate_only=request.validate_only, caller=context.caller
    )
    answers: dict[str, CreatePartitionsResponse_CreatePartitionsTopicResult] = {
        name: CreatePartitionsResponse_CreatePartitionsTopicResult(
            name=name,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="Topic authorization failed.",
        )
        for name in sorted(denied)
    }
    outcomes = {**dict(zip((spec.name for spec in specs), results, strict=True)), **refused}
    for name, error in outcomes.items():
        answers[name] = CreatePartitionsResponse_CreatePartitionsTopicResult(
            name=name,
            error_code=0 if error is None else error.code,
            error_message=None if error is None else error.message,
        )
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_time_ms, results=list(answers.values()))


def _spec(topic: CreatePartitionsRequest_CreatePartitionsTopic) -> GrowSpec:
    assignments = topic.assignments
    return GrowSpec(
        topic.name,
        topic.count,
        None if assignments is None else tuple(tuple(assignment.broker_ids) for assignment in assignments),
    )
