"""The topics that a group's members subscribe to: names and regular expressions → ids of existing topics.

Expressions use RE2's syntax, nearly; the `regex` crate (`native.Pattern`) matches them in linear time.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import MayRead, ResolvedRegex
from pybroker.errors import KafkaError
from pybroker.native import Pattern, Uuid
from pybroker.protocol import patterns
from pybroker.protocol.error_codes import ErrorCode

PATTERNS_KEPT = 1_024
"""Cache size of compiled expressions: compiling takes longer than matching a thousand names."""


class TopicView(Protocol):
    """The broker's view of topics."""

    @property
    def version(self) -> int:
        """Increases whenever a topic is created, deleted or extended."""
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


@functools.lru_cache(PATTERNS_KEPT)
def compiled(regex: str) -> Pattern:
    """Compile an expression. Raise KafkaError INVALID_REGULAR_EXPRESSION."""
    try:
        return patterns.compiled(regex)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"Invalid regular expression {regex!r}: {error}"
        ) from None


def resolve(regex: str, view: TopicView, may_read: MayRead, now_ms: int) -> ResolvedRegex:
    """Match an expression. The empty expression matches nothing. Raise KafkaError INVALID_REGULAR_EXPRESSION."""
    if not regex:
        return ResolvedRegex((), view.version, now_ms)
    pattern = compiled(regex)
    found = sorted(name for name in view.names() if pattern.matches(name) and may_read(name))
    return ResolvedRegex(tuple(found), view.version, now_ms)


def subscribed_topics(group: ConsumerGroup, view: TopicView) -> dict[Uuid, int]:
    """Return the existing topics that any member subscribes to, with their partition counts."""
    found: dict[Uuid, int] = {}
    for name in group.subscribed:
        topic_id = view.topic_id(name)
        if topic_id is not None and (count := view.partition_count(topic_id)):
            found[topic_id] = count
    return found


def hash_of(topics: Mapping[Uuid, int]) -> int:
    """Return a signed 64-bit hash of topics and partition counts; 0 for no topics."""
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for topic_id in sorted(topics):
        digest.update(topic_id.bytes + topics[topic_id].to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
