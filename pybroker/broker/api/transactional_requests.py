"""Code that the requests of transactional producers share. It authorizes the transactional id, adapts error codes to
the request's version, and looks up partitions.
"""

from __future__ import annotations

from pybroker.broker.api.topic_ids import ResolvedTopic
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


def require_transactional_id(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, transactional_id: str
) -> None:
    """Raise TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the client may not use the id."""
    if not authorizer.permits(context, operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional id authorization failed.")


def code_in_version(code: int, version: int, knows_fenced: int) -> ErrorCode:
    """Return `code`, or INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED if the request's version does not know the
    latter (KIP-588). `knows_fenced`: the first version that does.
    """
    if code == ErrorCode.PRODUCER_FENCED and version < knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode(code)


def part_of(topics: Topics, topic: ResolvedTopic, partition: int) -> TransactionPartition | ErrorCode:
    """Return the partition that the request names, or its error code."""
    if topic.refused is not None:
        return ErrorCode(topic.refused.code)
    topic_id = topics.topic_id(topic.name)
    if topic_id is None or not 0 <= partition < topics.partition_count(topic_id):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TransactionPartition(topic.name, topic_id, partition)
