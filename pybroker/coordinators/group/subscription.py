"""What the coordinator reads of the consumer protocol: the topics a member subscribes to.

Everything else in member metadata and assignments is opaque. Version 0 of the subscription is a prefix of every later
version, so its topics are readable whatever the client's version.
"""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.protocol.primitives import BytesReader, Malformed

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Topic names in one member's metadata; None when the bytes are not a consumer subscription."""
    reader = BytesReader(metadata)
    try:
        if reader.int16() < 0:
            return None
        return frozenset(reader.string() for _ in range(reader.count(least_bytes_each=2)))
    except Malformed:
        return None


def subscribed_by_all(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """The union over all members; None when one of them cannot be read, as then nothing is known for certain."""
    union: set[str] = set()
    for metadata in metadata_of_members:
        topics = subscribed_topics(metadata)
        if topics is None:
            return None
        union |= topics
    return frozenset(union)
