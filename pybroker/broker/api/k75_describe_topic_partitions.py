"""DescribeTopicPartitions (key 75), version 0 (KIP-966): returns topics by name, in pages of partitions.

Behavior
- A request without names means all topics. The cursor names the first partition of the next page. If the topic of the
  cursor was deleted meanwhile, a request for all topics skips it.
- Eligible leader replicas are empty, not null: leader election uses the ISR only, and the Java admin client does not
  accept null.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from pybroker.broker.admin.cluster_description import ClusterAdmin, offline_replicas, partition_error
from pybroker.broker.admin.topic_names import is_topic_name
from pybroker.broker.metadata.control_messages import UpdateMetadataPartitionState
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponse_Cursor,
    DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponseTopic,
)

API_KEY = 75

Topic = DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponseTopic


async def handle(
    cluster: ClusterAdmin,
    config: BrokerConfig,
    authorizer: Authorizer,
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse:
    """Return a page from the metadata cache, at most `max.request.partition.size.limit` partitions."""
    first_topic, first_partition = "", 0
    if request.cursor is not None:
        first_topic, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The cursor's partition must not be negative, but is {first_partition}."
            )
    left = max(1, min(request.response_partition_limit, config["max.request.partition.size.limit"]))
    live = {broker.broker_id for broker in cluster.brokers(context.listener)}
    response = DescribeTopicPartitionsResponse()
    async for name in context.turns.each(_names(cluster, request, first_topic)):
        if not request.topics and not authorizer.lists(context, ResourceType.TOPIC, name):
            continue
        if not authorizer.permits_topic(context, AclOperation.DESCRIBE, name):
            response.topics.append(Topic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = cluster.topic(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        start = first_partition if name == first_topic else 0
        if left == 0:
            response.next_cursor = DescribeTopicPartitionsResponse_Cursor(topic_name=name, partition_index=0)
            break
        shown = topic.partitions[start : start + left]
        left -= len(shown)
        response.topics.append(
            Topic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.internal,
                partitions=_partitions(shown, live),
                topic_authorized_operations=authorizer.operations(context, ResourceType.TOPIC, name),
            )
        )
        if start + len(shown) < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponse_Cursor(
                topic_name=name, partition_index=start + len(shown)
            )
            break
    return response


def _names(cluster: ClusterAdmin, request: DescribeTopicPartitionsRequest, first: str) -> Iterator[str] | Sequence[str]:
    if not request.topics:
        return cluster.sorted_names(first)
    return sorted({topic.name for topic in request.topics if topic.name >= first})


def _unknown(name: str) -> Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return Topic(name=name, error_code=int(code))


def _partitions(
    partitions: Sequence[UpdateMetadataPartitionState], live: Container[int]
) -> list[DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponsePartition]:
    return [
        DescribeTopicPartitionsResponse_DescribeTopicPartitionsResponsePartition(
            error_code=partition_error(partition),
            partition_index=partition.partition_index,
            leader_id=max(partition.leader, -1),
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=offline_replicas(partition, live),
        )
        for partition in partitions
    ]
