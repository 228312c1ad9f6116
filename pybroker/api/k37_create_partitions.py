"""CreatePartitions (key 37), versions 0–3 (KIP-195). Each topic succeeds or fails by itself."""

from __future__ import annotations

from pybroker.admin.topics import GrowSpec, TopicAdmin
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


async def handle(
    topics: TopicAdmin, authorizer: Authorizer, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Answers when the new partitions take records, or after timeout_ms."""
    denied = {
        topic.name for topic in request.topics if not authorizer.permits_topic(context, AclOperation.ALTER, topic.name)
    }
    specs = [_spec(topic) for topic in request.topics if topic.name not in denied]
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
    for spec, error in zip(specs, results, strict=True):
        answers[spec.name] = CreatePartitionsResponse_CreatePartitionsTopicResult(
            name=spec.name,
            error_code=0 if error is None else error.code,
            error_message=None if error is None else error.message,
        )
    return CreatePartitionsResponse(results=list(answers.values()))


def _spec(topic: CreatePartitionsRequest_CreatePartitionsTopic) -> GrowSpec:
    assignments = topic.assignments
    return GrowSpec(
        topic.name,
        topic.count,
        None if assignments is None else tuple(tuple(assignment.broker_ids) for assignment in assignments),
    )
