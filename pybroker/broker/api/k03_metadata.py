"""Metadata (key 3), versions 0–13: the part that Rust does not answer.

Behavior
- Rust answers when it knows all requested topics or when automatic creation is off. Otherwise the whole request comes
  here, and unknown names are created if the request and the broker allow it.
- If a request contains a non-zero id, its names are ignored, as in Kafka. A request by id never creates a topic. An
  unknown id answers UNKNOWN_TOPIC_ID with a null name, or with "" in v10 and v11, where the name cannot be null.
- With auto.create.deleted.topics.enable=false a name whose last topic can still be undeleted answers
  UNKNOWN_TOPIC_OR_PARTITION and is not created.
- A name that cannot be created in time answers LEADER_NOT_AVAILABLE, which every client retries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pybroker.broker.admin.cluster_description import (
    OPERATIONS_NOT_ASKED,
    ClusterAdmin,
    offline_replicas,
    partition_error,
)
from pybroker.broker.admin.topic_names import is_topic_name
from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.metadata.metadata_cache import CachedTopic
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType, cluster_operations
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponse_MetadataResponseBroker,
    MetadataResponse_MetadataResponsePartition,
    MetadataResponse_MetadataResponseTopic,
)

API_KEY = 3
FIRST_NULLABLE_NAME = 12


class _Asker:
    """The authorization of one client: which topics it may see, and which operations it may use."""

    def __init__(
        self, authorizer: Authorizer, context: RequestContext, live: frozenset[int], *, with_operations: bool
    ) -> None:
        """`live`: the brokers that the client can reach."""
        self.live = live
        self._authorizer = authorizer
        self._context = context
        self._with_operations = with_operations
        self.caller = context.caller

    def lists(self, name: str) -> bool:
        return self._authorizer.lists(self._context, ResourceType.TOPIC, name)

    def describes(self, name: str) -> bool:
        return self._authorizer.permits_topic(self._context, AclOperation.DESCRIBE, name)

    def creates(self, name: str) -> bool:
        return self._authorizer.may_on_cluster(self._context, AclOperation.CREATE) or self._authorizer.permits_topic(
            self._context, AclOperation.CREATE, name
        )

    def operations(self, name: str) -> int:
        if not self._with_operations:
            return OPERATIONS_NOT_ASKED
        return self._authorizer.operations(self._context, ResourceType.TOPIC, name)


async def handle(
    cluster: ClusterAdmin,
    topics: TopicAdmin,
    authorizer: Authorizer,
    context: RequestContext,
    request: MetadataRequest,
) -> MetadataResponse:
    """Return the response, after automatic creation if topics are missing."""
    version = context.api_version
    brokers = cluster.brokers(context.listener)
    live = frozenset(broker.broker_id for broker in brokers)
    asker = _Asker(authorizer, context, live, with_operations=request.include_topic_authorized_operations)
    if request.topics is None or (version == 0 and not request.topics):
        known = context.turns.each(list(cluster.topics.values()))
        answers = [_shown(topic, asker) async for topic in known if asker.lists(topic.name)]
    elif any(topic.topic_id != Uuid.ZERO for topic in request.topics):
        ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != Uuid.ZERO)
        answers = [_by_id(cluster, topic_id, asker, version) async for topic_id in context.turns.each(ids)]
    else:
        names = list(dict.fromkeys(topic.name or "" for topic in request.topics))
        may_create = topics.auto_create_enabled and (version < 4 or request.allow_auto_topic_creation)
        errors = await _create_missing(cluster, topics, asker, context.turns.each(names)) if may_create else {}
        answers = [_by_name(cluster, name, asker, errors) async for name in context.turns.each(names)]
    return MetadataResponse(
        brokers=[
            MetadataResponse_MetadataResponseBroker(
                node_id=broker.broker_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in brokers
        ],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=answers,
        cluster_authorized_operations=(
            cluster_operations(authorizer, context)
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


async def _create_missing(
    cluster: ClusterAdmin, topics: TopicAdmin, asker: _Asker, names: AsyncIterator[str]
) -> dict[str, KafkaError | None]:
    refused = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    errors: dict[str, KafkaError | None] = {}
    requested = []
    async for name in names:
        if not is_topic_name(name) or not asker.describes(name) or cluster.topic(name) is not None:
            continue
        if not topics.creates_again(name):
            continue
        if asker.creates(name):
            requested.append(name)
        else:
            errors[name] = refused
    return {**errors, **await topics.auto_create(requested, asker.caller)} if requested else errors


def _by_name(
    cluster: ClusterAdmin, name: str, asker: _Asker, errors: dict[str, KafkaError | None]
) -> MetadataResponse_MetadataResponseTopic:
    if not asker.describes(name):
        # The response does not depend on whether the topic exists, so that clients cannot probe names.
        return MetadataResponse_MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = cluster.topic(name)
    if topic is not None:
        return _shown(topic, asker)
    code: int
    if not is_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif name in errors:
        # The topic was created but is not visible yet, or its creation was refused. Clients that ask by name retry both
        # errors; they report INVALID_….
        error = errors[name]
        code = ErrorCode.LEADER_NOT_AVAILABLE if error is None else _creation_error(error)
    else:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponse_MetadataResponseTopic(error_code=int(code), name=name)


def _creation_error(error: KafkaError) -> int:
    # Clients over their quota retry too. As in Kafka, use a code that this version of Metadata has.
    if error.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code


def _by_id(
    cluster: ClusterAdmin, topic_id: Uuid, asker: _Asker, version: int
) -> MetadataResponse_MetadataResponseTopic:
    topic = cluster.topic(topic_id)
    if topic is not None and asker.describes(topic.name):
        return _shown(topic, asker)
    # Topic ids are not secret, but names are.
    code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponse_MetadataResponseTopic(
        error_code=int(code),
        name=None if version >= FIRST_NULLABLE_NAME else "",
        topic_id=topic_id,
    )


def _shown(topic: CachedTopic, asker: _Asker) -> MetadataResponse_MetadataResponseTopic:
    partitions: list[Any] = [
        MetadataResponse_MetadataResponsePartition(
            error_code=partition_error(partition),
            partition_index=partition.partition_index,
            leader_id=max(partition.leader, -1),
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            offline_replicas=offline_replicas(partition, asker.live),
        )
        for partition in topic.partitions
    ]
    return MetadataResponse_MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=asker.operations(topic.name),
    )
