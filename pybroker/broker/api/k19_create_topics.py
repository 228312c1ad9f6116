"""CreateTopics (key 19), versions 0–7.

Behavior
- Each topic succeeds or fails by itself. A name that occurs more than once is answered once, with INVALID_REQUEST.
- timeout_ms ≤ 0 creates the topics and answers REQUEST_TIMED_OUT at once, as Kafka does.
- Above controller_mutation_rate topics answer THROTTLING_QUOTA_EXCEEDED from v6; older clients are only throttled
  (KIP-599).

Versions
- v1 adds validate_only and error messages, v5 the resulting partitions and configs (KIP-525), v7 the topic id
  (KIP-516).
"""

from __future__ import annotations

from pybroker.broker.admin.config_views import topic_settings
from pybroker.broker.admin.topics import TopicAdmin, TopicSpec
from pybroker.broker.cluster.events import CreatedTopic
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequest_CreatableTopic,
    CreateTopicsResponse,
    CreateTopicsResponse_CreatableTopicConfigs,
    CreateTopicsResponse_CreatableTopicResult,
)

API_KEY = 19
FIRST_WITH_CONFIGS = 5
FIRST_THROTTLED = 6


async def handle(
    topics: TopicAdmin,
    config: BrokerConfig,
    authorizer: Authorizer,
    context: RequestContext,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse:
    """Respond when the created topics accept records, or after timeout_ms."""
    everywhere = authorizer.may_on_cluster(context, AclOperation.CREATE)
    answers: dict[str, CreateTopicsResponse_CreatableTopicResult] = {}
    specs = []
    async for topic in context.turns.each(request.topics):
        if everywhere or authorizer.permits_topic(context, AclOperation.CREATE, topic.name):
            specs.append(_spec(topic))
        else:
            refused = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            answers[topic.name] = _answer(topic.name, refused, config, with_configs=False, describes=False)
    results = await topics.create(
        specs,
        request.timeout_ms,
        validate_only=request.validate_only,
        created_by=context.principal,
        caller=context.caller_refused_since(FIRST_THROTTLED),
    )
    with_configs = context.api_version >= FIRST_WITH_CONFIGS
    async for spec, result in context.turns.each(zip(specs, results.each, strict=True)):
        describes = authorizer.permits_topic(context, AclOperation.DESCRIBE_CONFIGS, spec.name)
        answers[spec.name] = _answer(spec.name, result, config, with_configs=with_configs, describes=describes)
    return CreateTopicsResponse(throttle_time_ms=results.throttle_time_ms, topics=list(answers.values()))


def _spec(topic: CreateTopicsRequest_CreatableTopic) -> TopicSpec:
    return TopicSpec(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _answer(
    name: str, result: CreatedTopic | KafkaError, config: BrokerConfig, *, with_configs: bool, describes: bool
) -> CreateTopicsResponse_CreatableTopicResult:
    if isinstance(result, KafkaError):
        return CreateTopicsResponse_CreatableTopicResult(
            name=name, error_code=result.code, error_message=result.message, configs=None
        )
    if not describes:
        # Without DESCRIBE_CONFIGS on the topic the response omits its settings (KIP-525).
        return CreateTopicsResponse_CreatableTopicResult(
            name=name,
            topic_id=result.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            num_partitions=-1,
            replication_factor=-1,
            configs=[],
        )
    return CreateTopicsResponse_CreatableTopicResult(
        name=name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreateTopicsResponse_CreatableTopicConfigs(
                name=setting.name,
                value=setting.value,
                read_only=False,
                config_source=setting.source,
                is_sensitive=setting.sensitive,
            )
            for setting in topic_settings(result.config, config)
        ]
        if with_configs
        else None,
    )
