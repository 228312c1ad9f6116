"""The part of the consumer protocol that the coordinator decodes: the topics that a member subscribes to.

The coordinator treats everything else in member metadata and assignments as opaque. Version 0 of the subscription is a
prefix of every later version, so the topics are readable in every version.
"""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.native import CodecError, decode_data
from pybroker.protocol.versioned import split_version

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topic names in one member's metadata; None if the bytes are not a consumer subscription."""
    try:
        version, content = split_version(metadata)
        if version < 0:
            return None
        return frozenset(decode_data("ConsumerProtocolSubscription", 0, content, front=True).topics)
    except CodecError:
        return None


def subscribed_by_all(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union over all members; None if any subscription cannot be decoded, because the union is then
    unknown."""
    union: set[str] = set()
    for metadata in metadata_of_members:
        topics = subscribed_topics(metadata)
        if topics is None:
            return None
        union |= topics
    return frozenset(union)
