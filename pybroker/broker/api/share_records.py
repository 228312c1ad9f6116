"""Common code of ShareFetch (78), ShareAcknowledge (79) and the administration of share groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.coordinators.group.share import ShareCoordination
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.share_partition.in_flight import AckBatch, AckType
from pybroker.broker.coordinators.share_partition.manager import SharePartitions
from pybroker.broker.coordinators.share_partition.requests import Answers
from pybroker.broker.coordinators.share_partition.sessions import TopicPartition
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors after which the response names the partition's leader."""

E = TypeVar("E")
L = TypeVar("L")


class ShareSources(NamedTuple):
    """The services that the handlers need."""

    partitions: SharePartitions
    settings: ShareSettings
    features: FeatureAdmin


class ShareAdmin(NamedTuple):
    """The services for the administration of share groups."""

    shares: ShareCoordination
    topics: Topics
    features: FeatureAdmin


def admitted(sources: ShareSources, authorizer: Authorizer, context: RequestContext, request: Any) -> tuple[str, str]:
    """Return the group and the member of a permitted request. Raise KafkaError if the client lacks the permission or an
    id is empty.
    """
    sources.features.require_share_groups()
    group_id, member_id = request.group_id or "", request.member_id or ""
    authorizer.require_group(context, AclOperation.READ, group_id)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
    if not member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The member id is empty.")
    return group_id, member_id


def acknowledgements(topics: Iterable[Any], *, renews: bool) -> dict[TopicPartition, list[AckBatch]]:
    """Return the acknowledgements by partition. Raise KafkaError INVALID_REQUEST if an acknowledgement renews a lock
    but the request does not have the flag for renewals.
    """
    acknowledged: dict[TopicPartition, list[AckBatch]] = {}
    for topic in topics:
        for partition in topic.partitions:
            batches = [
                AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in partition.acknowledgement_batches
            ]
            if batches:
                acknowledged.setdefault((topic.topic_id, partition.partition_index), []).extend(batches)
            if not renews and any(AckType.RENEW in batch.types for batch in batches):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "To renew acquisition locks, set is_renew_ack.")
    return acknowledged


def reader(authorizer: Authorizer, context: RequestContext) -> Callable[[str], bool]:
    """Return a function that returns whether the caller may read a topic."""
    return lambda name: authorizer.permits_topic(context, AclOperation.READ, name)


def by_topic(answers: Answers) -> dict[Uuid, list[int]]:
    """Return the partitions of an answer by topic."""
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in answers:
        found.setdefault(topic_id, []).append(index)
    return found


def leader_of(
    sources: ShareSources, partition: TopicPartition, error: KafkaError | None, make: Callable[[int, int], L]
) -> L | None:
    """Return the leader of a partition that has moved."""
    if error is None or error.code not in MOVED:
        return None
    return make(*sources.partitions.leader(partition))


def endpoints(
    sources: ShareSources, context: RequestContext, leaders: Sequence[int], make: Callable[[int, str, int], E]
) -> list[E]:
    """Return the addresses of the leaders that the answer names."""
    found = []
    for broker_id in dict.fromkeys(leaders):
        place = sources.partitions.endpoint(broker_id, context.listener)
        if place is not None:
            found.append(make(broker_id, *place))
    return found
