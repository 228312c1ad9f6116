"""Determines when clients see a partition's new leader: when the leader has applied the change and therefore accepts
requests, or when the leader is fenced.

Until then clients see the previous state. In a new topic, clients see no partition before one of its leaders is ready.
When they see the topic, its other partitions are listed without a leader (LEADER_NOT_AVAILABLE), because the number of
partitions must be right.

A broker that registers shows its whole image. Its clients have seen no previous state, so they see the partition
without a leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

import msgspec

from pybroker.broker.metadata.broadcast import metadata_state
from pybroker.broker.metadata.control_messages import (
    LEADER_DURING_DELETE,
    ControlRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from pybroker.broker.quorum.loader import ImageChange
from pybroker.native import Uuid


class HeldPartition(msgspec.Struct):
    """A partition whose state clients do not see yet."""

    leader: int
    leader_epoch: int
    offset: int
    """The end of the change that made the broker the leader."""
    unseen: bool
    """Whether clients do not see the partition at all."""


class PartitionVisibility:
    """The held partitions of one broker's view; used on the loop's thread."""

    def __init__(self, broker_id: int, offsets: AppliedOffsets) -> None:
        self._broker_id = broker_id
        self.offsets = offsets
        self._held: dict[Uuid, dict[int, HeldPartition]] = {}
        self._waiting: list[tuple[frozenset[Uuid], asyncio.Future[None]]] = []
        self._since: dict[Uuid, dict[int, int]] = {}
        """While this broker is not registered: topic id → partition → end of the last change of the partition's leader.
        """
        self._since_before = 0
        """The end of the last snapshot, for all partitions that are not in `_since`: a snapshot does not contain the
        offset of each change."""

    @property
    def holds(self) -> bool:
        """Whether some changes are not visible to clients yet."""
        return bool(self._held)

    async def shown(self, topics: Collection[Uuid]) -> None:
        """Wait until clients see the changes of these topics that this broker has applied."""
        if not self._held.keys().isdisjoint(topics):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((frozenset(topics), future))
            await future

    def note(self, change: ImageChange) -> None:
        """Note a change that this broker does not show, because it is not registered."""
        before, after, delta = change
        if delta is None:
            self._since, self._since_before = {}, after.offset
            return
        for states in delta.states:
            known = before.topics[states.name]
            self._note_roles(known, known.topic_id, states.partitions.items(), after.offset)
        for topic in delta.topics:
            known_topic = before.topic_by_id(topic.topic_id)
            self._note_roles(known_topic, topic.topic_id, enumerate(topic.partitions), after.offset)
        for topic in delta.removed:
            self._since.pop(topic.topic_id, None)

    def _note_roles(
        self, known: TopicImage | None, topic_id: Uuid, states: Iterable[tuple[int, PartitionImage]], offset: int
    ) -> None:
        for index, state in states:
            if not _has_role(known, index, (state.leader, state.leader_epoch)):
                self._since.setdefault(topic_id, {})[index] = offset

    def introduce(
        self, before: ClusterImage | None, after: ClusterImage, requests: Iterable[ControlRequest]
    ) -> list[ControlRequest]:
        """Return the first messages of a broker epoch in the form that clients may see now, and hold the rest.

        `before` is the image that clients see; None if the changes since then were noted. May run on a thread, as long
        as the loop changes nothing here.
        """
        held: dict[Uuid, dict[int, HeldPartition]] = {}
        messages = [
            self._introduced(before, after, request, held) if isinstance(request, UpdateMetadataRequest) else request
            for request in requests
        ]
        self._held, self._since, self._since_before = held, {}, 0
        return messages

    def _introduced(
        self,
        before: ClusterImage | None,
        after: ClusterImage,
        request: UpdateMetadataRequest,
        held: dict[Uuid, dict[int, HeldPartition]],
    ) -> UpdateMetadataRequest:
        topics = []
        for topic in request.topic_states:
            since, was = self._since.get(topic.topic_id, {}), self._held.get(topic.topic_id, {})
            known = None if before is None else before.topic_by_id(topic.topic_id)
            states = []
            for state in topic.partition_states:
                index, role = state.partition_index, (state.leader, state.leader_epoch)
                old = was.get(index)
                if old is not None and (old.leader, old.leader_epoch) == role:
                    offset = old.offset
                elif before is None:
                    offset = since.get(index, self._since_before)
                else:
                    offset = 0 if old is None and _has_role(known, index, role) else after.offset
                if self._may_show(state.leader, offset, after):
                    states.append(state)
                else:
                    held.setdefault(topic.topic_id, {})[index] = HeldPartition(*role, offset, unseen=False)
                    states.append(msgspec.structs.replace(state, leader=NO_LEADER))
            topics.append(msgspec.structs.replace(topic, partition_states=states))
        return msgspec.structs.replace(request, topic_states=topics)

    def hold(self, before: ClusterImage, after: ClusterImage, request: UpdateMetadataRequest) -> UpdateMetadataRequest:
        """Return the part of the request that clients may see now, and hold the rest."""
        states = [shown for state in request.topic_states if (shown := self._hold(before, after, state)) is not None]
        return msgspec.structs.replace(request, topic_states=states)

    def _hold(
        self, before: ClusterImage, after: ClusterImage, state: UpdateMetadataTopicState
    ) -> UpdateMetadataTopicState | None:
        topic_id = state.topic_id
        if any(partition.leader == LEADER_DURING_DELETE for partition in state.partition_states):
            self._held.pop(topic_id, None)
            return state
        known = before.topic_by_id(topic_id)
        held = self._held.pop(topic_id, {})
        shown: list[UpdateMetadataPartitionState] = []
        for partition in state.partition_states:
            index, role = partition.partition_index, (partition.leader, partition.leader_epoch)
            was = held.get(index)
            offset = after.offset
            if was is not None and (was.leader, was.leader_epoch) == role:
                offset = was.offset
            elif was is None and _has_role(known, index, role):
                shown.append(partition)
                continue
            if self._may_show(partition.leader, offset, after):
                held.pop(index, None)
                shown.append(partition)
            else:
                unseen = known is None or index >= len(known.partitions) if was is None else was.unseen
                held[index] = HeldPartition(*role, offset, unseen)
        if held:
            self._held[topic_id] = held
        return self._with_unseen(after, topic_id, shown) if shown else None

    def release(self, image: ClusterImage) -> list[UpdateMetadataTopicState]:
        """Return the held states that clients may see now. `image` is the applied image."""
        states = []
        for topic_id, held in list(self._held.items()):
            topic = image.topic_by_id(topic_id)
            if topic is None:
                del self._held[topic_id]
                continue
            due = [index for index, part in held.items() if self._may_show(part.leader, part.offset, image)]
            for index in due:
                del held[index]
            if not held:
                del self._held[topic_id]
            if due:
                shown = [metadata_state(index, topic.partitions[index]) for index in due]
                states.append(self._with_unseen(image, topic_id, shown))
        return states

    def settle(self) -> None:
        """Wake the callers that wait until clients see these states."""
        left = []
        for topics, future in self._waiting:
            if not self._held.keys().isdisjoint(topics):
                left.append((topics, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = left

    def _may_show(self, leader: int, offset: int, image: ClusterImage) -> bool:
        return (
            leader < 0
            or leader == self._broker_id
            or leader not in image.brokers
            or self.offsets.of(leader) >= offset
        )

    def _with_unseen(
        self, image: ClusterImage, topic_id: Uuid, shown: list[UpdateMetadataPartitionState]
    ) -> UpdateMetadataTopicState:
        """Return the state of a topic. For partitions that clients must count but not use yet, the state has entries
        without a leader."""
        topic = image.topic_by_id(topic_id)
        assert topic is not None, topic_id
        for index, held in self._held.get(topic_id, {}).items():
            if held.unseen:
                held.unseen = False
                state = metadata_state(index, topic.partitions[index])
                shown.append(msgspec.structs.replace(state, leader=NO_LEADER))
        shown.sort(key=_index)
        return UpdateMetadataTopicState(topic.name, topic_id, shown)


def _index(state: UpdateMetadataPartitionState) -> int:
    return state.partition_index


def _has_role(topic: TopicImage | None, index: int, role: tuple[int, int]) -> bool:
    if topic is None or index >= len(topic.partitions):
        return False
    known = topic.partitions[index]
    return (known.leader, known.leader_epoch) == role
