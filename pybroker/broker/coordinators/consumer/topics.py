"""Which topics the members of a group mean: names and regular expressions → ids that exist.

Expressions are RE2's dialect, near enough, and matched in linear time by the `regex` crate (`native.Pattern`).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import Resolved
from pybroker.errors import KafkaError
from pybroker.native import Pattern, Uuid
from pybroker.protocol import patterns
from pybroker.protocol.error_codes import ErrorCode

PATTERNS_KEPT = 1_024
"""Compiled expressions that are kept: compiling takes longer than matching a thousand names."""


class TopicView(Protocol):
    """What the broker knows of topics."""

    @property
    def version(self) -> int:
        """Grows with each topic that comes or goes or gets partitions."""
        ...

    def names(self) -> Iterable[str]:
        """Of all topics that groups may read."""
        ...

    def topic_id(self, name: str) -> Uuid | None:
        """The present incarnation of a name."""
        ...

    def partition_count(self, topic_id: Uuid) -> int:
        """Partitions of a topic; 0 if it does not exist."""
        ...


MayRead = Callable[[str], bool]
"""Whether whoever asks may know of a topic: an expression matches nothing else."""


@functools.lru_cache(PATTERNS_KEPT)
def compiled(regex: str) -> Pattern:
    """KafkaError INVALID_REGULAR_EXPRESSION."""
    try:
        return patterns.compiled(regex)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"The regular expression {regex!r} cannot be used: {error}"
        ) from None


def resolve(regex: str, view: TopicView, may_read: MayRead, now_ms: int) -> Resolved:
    """What an expression matches now. The empty one matches nothing. KafkaError INVALID_REGULAR_EXPRESSION."""
    if not regex:
        return Resolved((), view.version, now_ms)
    pattern = compiled(regex)
    found = sorted(name for name in view.names() if pattern.matches(name) and may_read(name))
    return Resolved(tuple(found), view.version, now_ms)


def subscribed_topics(group: ConsumerGroup, view: TopicView) -> dict[Uuid, int]:
    """The topics of all members that exist, and how many partitions each has."""
    found: dict[Uuid, int] = {}
    for name in group.subscribed:
        topic_id = view.topic_id(name)
        if topic_id is not None and (count := view.partition_count(topic_id)):
            found[topic_id] = count
    return found


def hash_of(topics: Mapping[Uuid, int]) -> int:
    """A signed 64-bit number that is another one for other topics or numbers of partitions; 0 for none."""
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for topic_id in sorted(topics):
        digest.update(topic_id.bytes + topics[topic_id].to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
