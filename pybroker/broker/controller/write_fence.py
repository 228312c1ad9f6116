"""Write fences: before a deletion or truncation, all live brokers refuse appends and commits for the topic. The log
ends and committed offsets in the deletion record are then complete.

The fence lasts for one decision; clients get retriable errors in that time. A deletion does not wait for brokers that
are down. If a broker does not respond within 20 ms, its log ends and offsets are unknown. For the controller's own
broker there is no time limit: it may be slow, but it cannot be down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pybroker.broker.controller.decision import FencedTopics
from pybroker.broker.controller.outbox import Outbox, SentMessage
from pybroker.broker.metadata.control_messages import ClosedTopic, CloseTopicsResponse
from pybroker.broker.metadata.image import ClusterImage, TopicImage
from pybroker.native import Uuid

OTHERS_WAIT_S = 0.020


class ClosedTopics(msgspec.Struct, frozen=True):
    """The topics fenced for one decision."""

    topics: tuple[Uuid, ...]
    number: int
    asked: tuple[int, ...]
    closed: FencedTopics


class WriteFences:
    """The write fences of one controller, on the event loop's thread."""

    def __init__(self, broker_id: int, outbox: Outbox) -> None:
        self._broker_id = broker_id
        self._outbox = outbox
        self._number = 0

    async def close(self, image: ClusterImage, topics: Sequence[TopicImage]) -> ClosedTopics:
        """Fence topics. Each call must be followed by `reopen`."""
        ids = tuple(topic.topic_id for topic in topics)
        self._number += 1
        number = self._number
        asked = self._outbox.send_close(image, ids, number)
        others = [message.response for message in asked if message.broker_id != self._broker_id]
        if others:
            await asyncio.wait(others, timeout=OTHERS_WAIT_S)
        own = [message.response for message in asked if message.broker_id == self._broker_id]
        if own:
            await asyncio.wait(own)
        return ClosedTopics(ids, number, tuple(message.broker_id for message in asked), _combine_answers(topics, asked))

    def reopen(self, image: ClusterImage, closed: ClosedTopics) -> None:
        """Lift the fence after the decision. Brokers get this request after the messages of the decision."""
        self._outbox.send_reopen(image, closed.asked, closed.topics, closed.number)


def _combine_answers(topics: Sequence[TopicImage], asked: Sequence[SentMessage]) -> FencedTopics:
    ends = {topic.topic_id: [(-1, -1)] * len(topic.partitions) for topic in topics}
    offsets: dict[Uuid, list[Mapping[str, Any]]] = {topic.topic_id: [] for topic in topics}
    for message in asked:
        for found in _fenced_topics_in(message):
            known = ends[found.topic_id]
            for index, span in found.ends.items():
                if index < len(known):
                    known[index] = span
            offsets[found.topic_id] += found.offsets
    return FencedTopics(
        {topic_id: tuple(kept) for topic_id, kept in offsets.items()},
        {topic_id: tuple(spans) for topic_id, spans in ends.items()},
    )


def _fenced_topics_in(one: SentMessage) -> tuple[ClosedTopic, ...]:
    response = one.response.result() if one.response.done() else None
    return response.topics if isinstance(response, CloseTopicsResponse) else ()
