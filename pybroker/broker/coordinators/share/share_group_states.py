"""The share states of one shard's groups: initializes them for new partitions, and deletes them.

The group's record in the log lists the pending work (`initializing`, `deleting`). A broker that loads the group
continues this work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group_base.epoch_kind import EpochGroupManager, Finish, Outcome
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.topics_hash import TopicView
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.share.group import ShareGroup
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.share_state.state import NO_OFFSET, Key, ShareState
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""Milliseconds before a failed write, or a failed request to the share coordinator, is tried again."""


class States(Protocol):
    """Storage of share states (`coordinators.share_state`). Methods raise KafkaError."""

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        """Create a state. If it exists, set its start offset and the later state epoch."""
        ...

    async def delete(self, key: Key) -> None:
        """Delete a state."""
        ...

    async def summary(self, key: Key) -> ShareState | None:
        """Return the state; None if there is none."""
        ...


class ShareTopicView(TopicView, Protocol):
    """The broker's view of topics."""

    def is_dead(self, topic_id: Uuid) -> bool:
        """Return whether the metadata shows that the topic is deleted and can no longer be undeleted."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of an existing incarnation."""
        ...

    def successor(self, topic_id: Uuid) -> Uuid | None:
        """Return the existing topic that replaced a truncated one and continues its consumer offsets."""
        ...

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        """Return the first offset that the log of a partition ever had."""
        ...


class ShareGroupDependencies(msgspec.Struct, frozen=True):
    clock: Clock
    loop: asyncio.AbstractEventLoop
    timers: TimerWheel
    view: ShareTopicView
    settings: ShareSettings
    states: States


class ShareGroupStates:
    """The share states of the groups of one shard."""

    def __init__(self, dependencies: ShareGroupDependencies, groups: EpochGroupManager) -> None:
        self._dependencies = dependencies
        self._groups = groups
        self._working: dict[str, asyncio.Task[None]] = {}
        """Group id → the task that initializes and deletes its share states."""

    def _get(self, group_id: str) -> ShareGroup | None:
        return self._groups.registry.get_as(group_id, ShareGroup)

    def work(self, group_id: str) -> None:
        """Start the pending initializations and deletions of a group, unless a task is already running."""
        group = self._get(group_id)
        if group is None or not (group.initializing or group.deleting) or group_id in self._working:
            return
        task = self._working[group_id] = self._dependencies.loop.create_task(self._work(group))
        task.add_done_callback(lambda done: self._worked(group_id, done))

    def _worked(self, group_id: str, task: asyncio.Task[None]) -> None:
        if self._working.get(group_id) is task:
            del self._working[group_id]
        if task.cancelled():
            return
        problem = task.exception()
        if problem is None:
            self.work(group_id)
            return
        expected = isinstance(problem, KafkaError)
        level = logging.INFO if expected else logging.ERROR
        log.log(
            level,
            "share group %s: states of partitions are not ready: %s",
            group_id,
            problem,
            exc_info=None if expected else problem,
        )
        self._dependencies.timers.schedule(("share states", group_id), RETRY_MS, lambda: self.work(group_id))

    async def _work(self, group: ShareGroup) -> None:
        """Do all pending initializations and deletions of a group once, then update the group. Raise KafkaError."""
        group_id, states = group.group_id, self._dependencies.states
        gone = self._gone(group)
        await asyncio.gather(
            *(
                states.delete(Key(group_id, topic_id, partition))
                for topic_id, partitions in gone.items()
                for partition in partitions
            )
        )
        made = {topic_id: topic for topic_id, topic in group.initializing.items() if topic_id not in gone}
        epochs = await asyncio.gather(
            *(
                self._initialize(group, Key(group_id, topic_id, partition))
                for topic_id, topic in made.items()
                for partition in topic.partitions
            )
        )
        latest = max(epochs, default=0)

        def change(draft: ShareGroup) -> Finish:
            for topic_id, partitions in gone.items():
                draft.forget_partitions(topic_id, partitions)
                # The topic may be undeleted later. In this case its share states are initialized again.
                draft.looked_at = -1
            if latest > group.epoch:
                # A deleted group with the same id has left a share state. The epoch of this group must be higher than
                # the epoch of the old state. The next round initializes all share states in the higher epoch.
                draft.epoch = max(draft.epoch, latest + 1)
            elif made:
                draft.made(made)
                draft.epoch += 1
            return lambda _: None

        outcome = await self.submit(group_id, change)
        if isinstance(outcome, KafkaError):
            raise outcome

    async def _initialize(self, group: ShareGroup, key: Key) -> int:
        """Initialize a share state; return its epoch. Raise KafkaError.

        The epoch is higher than the group's if a deleted group with the same id has left a share state.
        """
        states, epoch = self._dependencies.states, group.epoch
        try:
            await states.initialize(key, epoch, await self._start(group, key))
        except KafkaError as problem:
            left = await states.summary(key) if problem.code == ErrorCode.FENCED_STATE_EPOCH else None
            if left is None or left.state_epoch <= epoch:
                raise
            return left.state_epoch
        return epoch

    async def _start(self, group: ShareGroup, key: Key) -> int:
        """Return the start offset of a new share state. Raise KafkaError.

        If the topic continues the offsets of a topic that the group has read, the start offset is the start of the log.
        Otherwise share.auto.offset.reset determines it.
        """
        view = self._dependencies.view
        for topic_id, topic in group.initialized.items():
            if key.partition in topic.partitions and view.successor(topic_id) == key.topic_id:
                known = await self._dependencies.states.summary(key._replace(topic_id=topic_id))
                if known is not None and known.start_offset != NO_OFFSET:
                    return view.start_offset(key.topic_id, key.partition)
        return NO_OFFSET

    def _gone(self, group: ShareGroup) -> dict[Uuid, frozenset[int]]:
        """Return the partitions whose share states have to be deleted, by topic.

        If a topic was deleted while its share states were being initialized, return only the partitions without an
        initialized state: an undelete may restore the others. For a loaded group, skip such topics until its topics
        have been checked once.
        """
        gone = {topic_id: group.known_partitions(topic_id) for topic_id in group.deleting}
        if group.looked_at >= 0:
            for topic_id in group.initializing.keys() - gone.keys():
                if not self._dependencies.view.partition_count(topic_id):
                    gone[topic_id] = group.unfinished_partitions(topic_id)
        return gone

    def submit(self, group_id: str, change: Callable[[ShareGroup], Finish]) -> asyncio.Future[Outcome]:
        """Make a change in the next batch. Return a future for its result, which is a KafkaError if the change was
        refused or not stored."""
        future: asyncio.Future[Outcome] = self._dependencies.loop.create_future()

        def reply(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self._groups.submit(group_id, change, reply, of=GroupKind.SHARE)
        return future

    async def delete_states(self, group_id: str, topics: Collection[Uuid]) -> None:
        """For a group without members, delete the share states of these topics. A member that joins during the deletion
        gets new share states.

        Raise KafkaError NON_EMPTY_GROUP. After other errors the coordinator retries by itself.
        """

        def change(draft: ShareGroup) -> Finish:
            draft.require_empty()
            for topic_id in topics:
                draft.mark_deleting(topic_id)
            return lambda _: None

        outcome = await self.submit(group_id, change)
        if isinstance(outcome, KafkaError):
            raise outcome
        while (group := self._get(group_id)) is not None and not group.deleting.keys().isdisjoint(topics):
            task = self._working.get(group_id)
            if task is None:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The states are being deleted.")
            await asyncio.wait([task])
            problem = None if task.cancelled() else task.exception()
            if problem is not None:
                raise problem

    def delete_states_of_dead_topics(self) -> None:
        """Delete the share states of topics that can no longer be undeleted; an undelete needs the states of the
        others.

        If a truncated topic has a successor, initialize the successor's share states first.
        """
        view = self._dependencies.view
        for group in self._groups.registry.all_of(ShareGroup):
            known = group.initialized.keys() | group.initializing.keys()
            for topic_id in known - group.deleting.keys():
                successor = view.successor(topic_id)
                if successor is not None and successor not in group.initialized:
                    if successor not in group.initializing:
                        self._submit_for(group.group_id, successor, self._begin)
                elif view.is_dead(topic_id):
                    self._submit_for(group.group_id, topic_id, self._delete_states)

    def _begin(self, topic_id: Uuid, draft: ShareGroup) -> Finish:
        view = self._dependencies.view
        name, count = view.topic_name(topic_id) or "", view.partition_count(topic_id)
        draft.begin(draft.missing({topic_id: (name, count)}))
        return lambda _: None

    def _delete_states(self, topic_id: Uuid, draft: ShareGroup) -> Finish:
        draft.mark_deleting(topic_id)
        return lambda _: None

    def _submit_for(self, group_id: str, topic_id: Uuid, change: Callable[[Uuid, ShareGroup], Finish]) -> None:
        later = partial(self._dependencies.timers.schedule, ("share topic", group_id, topic_id), RETRY_MS)
        self._groups.submit_until_stored(group_id, partial(change, topic_id), later)

    def stop(self, group_id: str) -> None:
        """Stop the task that initializes and deletes a group's share states."""
        self._dependencies.timers.cancel(("share states", group_id))
        task = self._working.pop(group_id, None)
        if task is not None:
            task.cancel()
