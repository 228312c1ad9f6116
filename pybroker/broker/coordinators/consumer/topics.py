"""The topics to which a group's members subscribe: names and regular expressions → ids of existing topics.

Regular expressions have almost the syntax of RE2; the `regex` crate (`native.Pattern`) matches them in linear time.
"""

from __future__ import annotations

import functools

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import MayRead, ResolvedRegex
from pybroker.broker.coordinators.group_base.topics_hash import TopicView
from pybroker.errors import KafkaError
from pybroker.native import Pattern, Uuid
from pybroker.protocol import patterns
from pybroker.protocol.error_codes import ErrorCode

PATTERNS_KEPT = 64
"""Number of compiled regular expressions in the cache. Compiling an expression takes longer than matching a thousand
names; a compiled expression takes up to 1 MB."""


@functools.lru_cache(PATTERNS_KEPT)
def compiled(regex: str) -> Pattern:
    """Compile a regular expression. Raise KafkaError INVALID_REGULAR_EXPRESSION."""
    try:
        return patterns.compiled(regex)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"Invalid regular expression {regex!r}: {error}"
        ) from None


def resolve(regex: str, view: TopicView, may_read: MayRead, now_ms: int) -> ResolvedRegex:
    """Match a regular expression. The empty one matches nothing. Raise KafkaError INVALID_REGULAR_EXPRESSION."""
    if not regex:
        return ResolvedRegex((), view.version, now_ms)
    pattern = compiled(regex)
    found = sorted(name for name in view.names() if pattern.matches(name) and may_read(name))
    return ResolvedRegex(tuple(found), view.version, now_ms)


def subscribed_topics(group: ConsumerGroup, view: TopicView) -> dict[Uuid, int]:
    """Return the existing topics to which any member subscribes, with their partition counts."""
    found: dict[Uuid, int] = {}
    for name in group.subscribed:
        topic_id = view.topic_id(name)
        if topic_id is not None and (count := view.partition_count(topic_id)):
            found[topic_id] = count
    return found
