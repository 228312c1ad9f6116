"""CloseTopics and ReopenTopics on this broker: what the controller needs to know before it deletes a topic, and what
must not change until it has decided.

Clients that come in between get answers that they try again with: NOT_LEADER_OR_FOLLOWER for Produce,
UNKNOWN_TOPIC_OR_PARTITION for OffsetCommit. A crash ends it; nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pybroker.cluster.view import ClusterView
from pybroker.metadata.control_messages import (
    ClosedTopic,
    CloseTopics,
    CloseTopicsResponse,
    ReopenTopics,
    ReopenTopicsResponse,
)
from pybroker.native import PartitionEnds, Uuid


class Partitions(Protocol):
    """Local partitions (`NativePartitions`)."""

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> Sequence[PartitionEnds]:
        """Appends are refused, or taken again; where each log begins and ends. Blocks."""
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


class TopicClosing:
    """See the module. Several decisions may close a topic at once; the last one opens it."""

    def __init__(self, partitions: Partitions, groups: Groups, view: ClusterView) -> None:
        self._partitions = partitions
        self._groups = groups
        self._view = view
        self._closed: dict[Uuid, int] = {}
        """How many decisions each topic waits for."""
        self._fencing = asyncio.Lock()
        """A word to reopen waits until what is being closed is closed."""

    async def close(self, request: CloseTopics) -> CloseTopicsResponse:
        """Closes topics; each request needs its `reopen`."""
        for topic_id in request.topics:
            self._closed[topic_id] = self._closed.get(topic_id, 0) + 1
        async with self._fencing:
            # They begin while the logs are fenced, and end when the last commits are on disk.
            holding = asyncio.gather(*map(self._groups.hold_commits, request.topics))
            ends = await asyncio.get_running_loop().run_in_executor(None, self._set_fenced, request.topics, True)
        await holding
        return CloseTopicsResponse(
            0,
            tuple(
                ClosedTopic(topic_id, ends[topic_id], self._groups.committed_for(topic_id))
                for topic_id in request.topics
            ),
        )

    async def reopen(self, request: ReopenTopics) -> ReopenTopicsResponse:
        """What still lives takes appends and commits again; what is gone stays closed until its replicas stop."""
        async with self._fencing:
            for topic_id in request.topics:
                self._groups.release_commits(topic_id)
                left = self._closed.pop(topic_id, 1) - 1
                if left:
                    self._closed[topic_id] = left
            living = self._view.image.names
            opened = [one for one in request.topics if one in living and one not in self._closed]
            if opened:
                await asyncio.get_running_loop().run_in_executor(None, self._set_fenced, opened, False)
        return ReopenTopicsResponse()

    def _set_fenced(self, topics: Sequence[Uuid], fenced: bool) -> dict[Uuid, dict[int, tuple[int, int]]]:
        return {
            topic_id: {
                one.partition: (one.log_start_offset, one.log_end_offset)
                for one in self._partitions.set_fenced(topic_id, fenced)
            }
            for topic_id in topics
        }
