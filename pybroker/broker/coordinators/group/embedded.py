"""The consumer protocol embedded in JoinGroup and SyncGroup, converted to topic ids.

Classic members of consumer groups use it (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pybroker.broker.coordinators.consumer.model import Partition
from pybroker.broker.coordinators.consumer.records import by_topic
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.native import CodecError, decode_data
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import encode_versioned, split_version

NEWEST = 3
"""The newest known version of both messages. A message of a later version starts with the fields of this version."""


class EmbeddedSubscription(msgspec.Struct, frozen=True):
    """The decoded fields of a member's subscription."""

    topics: tuple[str, ...]
    owned: frozenset[Partition]
    generation: int
    """The generation in which the member owned the partitions of `owned`; −1: unknown."""
    rack_id: str | None


def _decode(name: str, data: bytes) -> tuple[int, Any]:
    version, content = split_version(data)
    if version < 0:
        raise CodecError(f"version {version}")
    known = min(version, NEWEST)
    return known, decode_data(name, known, content, front=version > NEWEST)


def read_subscription(metadata: bytes, topics: Topics) -> EmbeddedSubscription:
    """Decode a ConsumerProtocolSubscription. Raise CodecError."""
    _, subscription = _decode("ConsumerProtocolSubscription", metadata)
    return EmbeddedSubscription(
        tuple(sorted(set(subscription.topics))),
        _by_id(subscription.owned_partitions, topics),
        subscription.generation_id,
        subscription.rack_id,
    )


def read_assignment(data: bytes, topics: Topics) -> tuple[frozenset[Partition], bool]:
    """Decode a ConsumerProtocolAssignment. Return the existing partitions, and whether there is user data of a
    client-side assignor.

    Empty bytes are an empty assignment. Raise CodecError.
    """
    if not data:
        return frozenset(), False
    _, decoded = _decode("ConsumerProtocolAssignment", data)
    return _by_id(decoded.assigned_partitions, topics), bool(decoded.user_data)


def _by_id(rows: Iterable[Any], topics: Topics) -> frozenset[Partition]:
    return frozenset(
        (topic_id, index)
        for row in rows
        if (topic_id := topics.topic_id(row.topic)) is not None
        for index in row.partitions
        if 0 <= index < topics.partition_count(topic_id)
    )


def write_assignment(partitions: Iterable[Partition], metadata: bytes, topics: Topics) -> bytes:
    """Encode a ConsumerProtocolAssignment in the version of the member's subscription.

    Omit partitions of deleted topics, because such topics have no name.
    """
    version, _ = split_version(metadata)
    return encode_versioned(
        m.ConsumerProtocolAssignment(
            assigned_partitions=[
                m.ConsumerProtocolAssignment_TopicPartition(topic=name, partitions=indexes)
                for topic_id, indexes in by_topic(partitions)
                if (name := topics.topic_name(topic_id)) is not None
            ]
        ),
        min(max(version, 0), NEWEST),
    )
