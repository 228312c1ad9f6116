"""Write fences on this broker (CloseTopics, ReopenTopics). Before the controller deletes a topic, it needs the log ends
and the committed offsets of the topic. A fence returns them, and keeps them unchanged until the controller has decided.

In this time clients get retriable errors: NOT_LEADER_OR_FOLLOWER for Produce, UNKNOWN_TOPIC_OR_PARTITION for
OffsetCommit. A fence is not stored: it ends if this broker crashes or if another broker becomes the controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.control_messages import (
    ClosedTopic,
    CloseTopics,
    CloseTopicsResponse,
    ReopenTopics,
    ReopenTopicsResponse,
)
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.native import PartitionEnds, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

OVERTAKEN_MAX = 1_000
"""Limit of remembered fences whose ReopenTopics arrived before their CloseTopics."""


class FencedPartitions(Protocol):
    """Local partitions (`NativePartitions`)."""

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> Sequence[PartitionEnds]:
        """Refuse appends, or accept them again. Return the log start and log end of each partition. Blocks."""
        ...


class Groups(Protocol):
    """The group coordinator, as the fence uses it."""

    async def hold_commits(self, topic_id: Uuid) -> None:
        """Accept no more commits for a topic. Return when the commits in progress are on disk."""
        ...

    def release_commits(self, topic_id: Uuid) -> None:
        """Accept commits again."""
        ...

    def committed_for(self, topic_id: Uuid) -> tuple[Mapping[str, Any], ...]:
        """Return the offsets that groups have committed for a topic, in the form of its deletion record."""
        ...


class _Closing(msgspec.Struct, frozen=True):
    """A fence for which the controller's decision is not known yet."""

    controller_epoch: int
    broker_epoch: int
    number: int
    topics: tuple[Uuid, ...]


def _closing_of(request: CloseTopics | ReopenTopics) -> _Closing:
    """Return the key that CloseTopics and ReopenTopics of a fence have in common. The codec returns lists; convert them
    to tuples, which are hashable."""
    return _Closing(request.controller_epoch, request.broker_epoch, request.number, tuple(request.topics))


class TopicClosing:
    """The write fences of one broker. Several decisions may fence a topic concurrently. The topic accepts writes again
    after the last of these decisions.

    A fence belongs to one controller and to one broker epoch. If the controller dies before it decides, its
    ReopenTopics never comes: `expire` ends such fences.
    """

    def __init__(self, partitions: FencedPartitions, groups: Groups, view: ClusterView) -> None:
        self._partitions = partitions
        self._groups = groups
        self._view = view
        self._shares = LoopShares()
        self._closings: list[_Closing] = []
        self._closed: Counter[Uuid] = Counter()
        """Number of fences of each topic in `_closings`."""
        self._reopened: dict[_Closing, None] = {}
        """Fences for which ReopenTopics arrived before CloseTopics. This happens because the two requests use different
        connections."""
        self._epochs = -1, -1
        """Controller epoch and broker epoch of the last `expire`."""
        self._fencing = asyncio.Lock()
        """Lock that makes requests run in the order of their arrival."""

    def is_closed(self, topic_id: Uuid) -> bool:
        """Return whether a decision about the topic is pending."""
        return topic_id in self._closed

    @property
    def busy(self) -> bool:
        """Whether topics are being fenced or reopened now."""
        return self._fencing.locked()

    async def close(self, request: CloseTopics) -> CloseTopicsResponse:
        """Fence topics. Each request must be followed by its `reopen`; otherwise `expire` ends the fence."""
        closing = _closing_of(request)
        async with self._fencing:
            if closing in self._reopened:
                # The controller has already decided, and does not wait for this answer.
                del self._reopened[closing]
                return CloseTopicsResponse(ErrorCode.REQUEST_TIMED_OUT)
            if self._is_over(closing):
                return CloseTopicsResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
            self._closings.append(closing)
            self._closed.update(closing.topics)
            # Refuse commits while the logs are being fenced. The fence is complete when the last accepted commits are
            # on disk.
            holding = asyncio.gather(*map(self._groups.hold_commits, request.topics))
            ends = await asyncio.get_running_loop().run_in_executor(None, self._set_fenced, request.topics, True)
        await holding
        # The fence keeps the returned offsets valid while other requests run.
        closed = [
            ClosedTopic(topic_id, ends[topic_id], self._groups.committed_for(topic_id))
            async for topic_id in self._shares.each(request.topics)
        ]
        return CloseTopicsResponse(0, tuple(closed))

    async def reopen(self, request: ReopenTopics) -> ReopenTopicsResponse:
        """Accept appends and commits for live topics again. A deleted topic stays fenced until its replicas stop."""
        closing = _closing_of(request)
        async with self._fencing:
            if closing in self._closings:
                await self._end([closing])
            elif request.number:
                self._reopened[closing] = None
                if len(self._reopened) > OVERTAKEN_MAX:
                    del self._reopened[next(iter(self._reopened))]
        return ReopenTopicsResponse()

    async def expire(self, controller_epoch: int, broker_epoch: int = -1) -> int:
        """End the fences of earlier controllers and earlier broker epochs, whose decisions can no longer arrive. Call
        this when the view has every change of this controller. Return the number of fences that ended."""
        async with self._fencing:
            self._epochs = max(self._epochs[0], controller_epoch), max(self._epochs[1], broker_epoch)
            self._reopened = {closing: None for closing in self._reopened if not self._is_over(closing)}
            over = [closing for closing in self._closings if self._is_over(closing)]
            if over:
                log.info(
                    "write fences expired controller_epoch=%d topics=%d",
                    controller_epoch,
                    len({topic_id for closing in over for topic_id in closing.topics}),
                )
                await self._end(over)
        return len(over)

    async def open_left(self, topic_id: Uuid) -> None:
        """Accept appends again for a topic that is fenced although no decision about it is pending."""
        async with self._fencing:
            if topic_id in self._view.image.names and not self.is_closed(topic_id):
                await asyncio.get_running_loop().run_in_executor(None, self._set_fenced, [topic_id], False)

    def _is_over(self, closing: _Closing) -> bool:
        controller_epoch, broker_epoch = self._epochs
        return closing.controller_epoch < controller_epoch or closing.broker_epoch < broker_epoch

    async def _end(self, closings: Sequence[_Closing]) -> None:
        ended: set[Uuid] = set()
        for closing in closings:
            self._closings.remove(closing)
            for topic_id in closing.topics:
                self._groups.release_commits(topic_id)
                self._closed[topic_id] -= 1
                if not self._closed[topic_id]:
                    del self._closed[topic_id]
            ended.update(closing.topics)
        living = self._view.image.names
        opened = [topic_id for topic_id in ended if topic_id in living and not self.is_closed(topic_id)]
        if opened:
            await asyncio.get_running_loop().run_in_executor(None, self._set_fenced, opened, False)

    def _set_fenced(self, topics: Sequence[Uuid], fenced: bool) -> dict[Uuid, dict[int, tuple[int, int]]]:
        return {
            topic_id: {
                partition.partition: (partition.log_start_offset, partition.log_end_offset)
                for partition in self._partitions.set_fenced(topic_id, fenced)
            }
            for topic_id in topics
        }
