"""The data of members inside JoinGroup and SyncGroup requests (protocol type `consumer`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pybroker.client.cluster_metadata import TopicPartition
from pybroker.native import CodecError, decode_data
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import encode_versioned, split_version

_HIGHEST = 3


@dataclass(frozen=True, slots=True)
class ProtocolSubscription:
    """A member's subscribed topics and, for cooperative strategies, its owned partitions."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes | None = None


def write_subscription(subscription: ProtocolSubscription) -> bytes:
    """Encode a subscription for JoinGroup."""
    message = m.ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            m.ConsumerProtocolSubscription_TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _grouped(subscription.owned)
        ],
        generation_id=subscription.generation,
    )
    return encode_versioned(message, _HIGHEST)


def read_subscription(data: bytes) -> ProtocolSubscription:
    """Decode another member's subscription. Raises CodecError if it is malformed."""
    message = _decode("ConsumerProtocolSubscription", data)
    owned = tuple(TopicPartition(each.topic, index) for each in message.owned_partitions for index in each.partitions)
    return ProtocolSubscription(tuple(message.topics), owned, message.generation_id, message.user_data)


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode an assignment for SyncGroup."""
    message = m.ConsumerProtocolAssignment(
        assigned_partitions=[
            m.ConsumerProtocolAssignment_TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _grouped(partitions)
        ]
    )
    return encode_versioned(message, 1)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """Decode a member's assignment; empty bytes are an empty assignment. Raises CodecError if the bytes are malformed.
    """
    if not data:
        return []
    message = _decode("ConsumerProtocolAssignment", data)
    return [TopicPartition(each.topic, index) for each in message.assigned_partitions for index in each.partitions]


def _decode(name: str, data: bytes) -> Any:
    version, content = split_version(data)
    if version < 0:
        raise CodecError(f"{name} has no version {version}")
    # Later versions only append fields, so read the known ones; Java's clients do the same.
    return decode_data(name, min(version, _HIGHEST), content, front=True)


def _grouped(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for each in sorted(partitions):
        found.setdefault(each.topic, []).append(each.partition)
    return list(found.items())
