"""What the requests of transactional producers share: authorization of the id, error codes by version, partition
names."""

from __future__ import annotations

from pybroker.broker.api.topic_ids import ResolvedTopic
from pybroker.broker.coordinators.shards.ports import Topics
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


def require_transactional_id(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, transactional_id: str
) -> None:
    """Raises TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    if not authorizer.permits(context, operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional id authorization failed.")


def told(code: int, version: int, knows_fenced: int) -> ErrorCode:
    """A code as a client of this version knows it: below `knows_fenced` a producer that was replaced has an invalid
    epoch (KIP-588)."""
    if code == ErrorCode.PRODUCER_FENCED and version < knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode(code)


def part_of(topics: Topics, topic: ResolvedTopic, partition: int) -> TransactionPartition | ErrorCode:
    """The partition that a request means now, or what it is told instead."""
    if topic.refused is not None:
        return ErrorCode(topic.refused.code)
    topic_id = topics.topic_id(topic.name)
    if topic_id is None or not 0 <= partition < topics.partition_count(topic_id):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TransactionPartition(topic.name, topic_id, partition)
