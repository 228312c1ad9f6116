"""The broker's view of topics, and the hash by which a group detects changes of its topics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

from pybroker.native import Uuid


class TopicView(Protocol):
    """The broker's view of topics."""

    @property
    def version(self) -> int:
        """Increases whenever a topic is created, deleted or gets more partitions."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics that groups may read."""
        ...

    def topic_id(self, name: str) -> Uuid | None:
        """Return the topic id of the current incarnation of a name."""
        ...

    def partition_count(self, topic_id: Uuid) -> int:
        """Return the number of partitions of a topic; 0 if it does not exist."""
        ...


def hash_of(topics: Mapping[Uuid, int]) -> int:
    """Return a signed 64-bit hash of topics and partition counts; 0 for no topics."""
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for topic_id in sorted(topics):
        digest.update(topic_id.bytes + topics[topic_id].to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
