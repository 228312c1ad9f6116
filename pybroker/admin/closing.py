"""Before a topic is deleted or truncated: its partitions take no appends and its groups no commits, so that what the
deletion record keeps (log ends, committed offsets) is all there is (R22).

It lasts as long as one decision of the controller. Clients that come in between get answers that they try again with:
NOT_LEADER_OR_FOLLOWER for Produce, UNKNOWN_TOPIC_OR_PARTITION for OffsetCommit. A crash ends it; nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.metadata.image import TopicImage
from pybroker.native import PartitionEnds, Uuid


class Partitions(Protocol):
    """Local partitions (`NativePartitions`)."""

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> Sequence[PartitionEnds]:
        """Appends are refused, or taken again; where each log begins and ends."""
        ...


class Groups(Protocol):
    """The group coordinator, as far as this needs it."""

    async def hold_commits(self, topic_id: Uuid) -> None:
        """Takes no commit for a topic; returns when those under way are on disk."""
        ...

    def release_commits(self, topic_id: Uuid) -> None:
        """Takes commits again."""
        ...

    def committed_for(self, topic_id: Uuid) -> tuple[Mapping[str, Any], ...]:
        """What groups have committed for a topic, in the form of its deletion record."""
        ...


class Closed(msgspec.Struct, frozen=True):
    """What the topics hold now, and will until they are reopened."""

    offsets: Mapping[Uuid, tuple[Mapping[str, Any], ...]]
    ends: Mapping[Uuid, tuple[tuple[int, int], ...]]


class Closing:
    """See the module."""

    def __init__(self, partitions: Partitions, groups: Groups, lives: Callable[[Uuid], bool]) -> None:
        self._partitions = partitions
        self._lives = lives
        self._groups = groups
        self._closed: dict[Uuid, int] = {}
        """How many decisions each topic waits for: two requests may want to delete it at once."""

    async def close(self, topics: Sequence[TopicImage]) -> Closed:
        """Closes topics; each call needs its `reopen`."""
        loop = asyncio.get_running_loop()
        ends: dict[Uuid, tuple[tuple[int, int], ...]] = {}
        for topic in topics:
            self._closed[topic.topic_id] = self._closed.get(topic.topic_id, 0) + 1
        for topic in topics:
            known = [(-1, -1)] * len(topic.partitions)
            fenced = await loop.run_in_executor(None, self._partitions.set_fenced, topic.topic_id, True)
            for ends_of in fenced:
                if ends_of.partition < len(known):
                    known[ends_of.partition] = (ends_of.log_start_offset, ends_of.log_end_offset)
            ends[topic.topic_id] = tuple(known)
        for topic in topics:
            await self._groups.hold_commits(topic.topic_id)
        offsets = {topic.topic_id: self._groups.committed_for(topic.topic_id) for topic in topics}
        return Closed(offsets, ends)

    async def reopen(self, topics: Sequence[TopicImage]) -> None:
        """After the decision: what still lives takes appends and commits again. Nothing happens to what is gone."""
        loop = asyncio.get_running_loop()
        for topic in topics:
            self._groups.release_commits(topic.topic_id)
            left = self._closed[topic.topic_id] - 1
            if left:
                self._closed[topic.topic_id] = left
                continue
            del self._closed[topic.topic_id]
            # What is gone stays closed until its replicas stop.
            if not self._lives(topic.topic_id):
                continue
            await loop.run_in_executor(None, self._partitions.set_fenced, topic.topic_id, False)
