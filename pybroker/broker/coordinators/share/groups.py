"""The share groups of one shard: heartbeats, sessions, timeouts, and the share states of partitions.

Pure functions on copies make the decisions (`membership`); `turns` makes them durable. Work on states is recorded
first (`initializing`, `deleting`), and a broker that loads the group repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.consumer.topics import TopicView, hash_of
from pybroker.broker.coordinators.group.group import Group, GroupRegistry
from pybroker.broker.coordinators.shards.assignment_interval import AssignmentInterval
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.shards.turns import EpochKind, GroupTurns, Outcome, Records, Write
from pybroker.broker.coordinators.shards.turns import Finish as Finishing
from pybroker.broker.coordinators.share import membership, records
from pybroker.broker.coordinators.share.group import LEAVES, ShareGroup, ShareGroupMember
from pybroker.broker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult
from pybroker.broker.coordinators.share.records import StoredShareGroup
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.share_state.state import NO_OFFSET, Key, ShareState
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


def _said(group: ShareGroup) -> dict[str, tuple[object, ...]]:
    return {
        member_id: (member.client_id, member.client_host, member.rack_id, member.topics)
        for member_id, member in group.members.items()
    }


KIND = EpochKind(ShareGroup, records.changes, records.tombstones, _said)
Finish = Finishing[ShareGroup]

RETRY_MS = 1_000
"""Delay before retrying a failed write or a failed request to the share coordinator."""


class States(Protocol):
    """Storage of share states (`coordinators.share_state`). Methods raise KafkaError."""

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        """Create a state, or set its start offset under a later state epoch."""
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
        """Return whether the incarnation is known to be deleted and cannot be undeleted."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of an existing incarnation."""
        ...

    def successor(self, topic_id: Uuid) -> Uuid | None:
        """Return the existing topic that continues the offsets of a truncated one."""
        ...

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        """Return the first offset that the log of a partition ever had."""
        ...


class ShareGroupDependencies(msgspec.Struct, frozen=True):
    """The dependencies that the share groups of all shards have in common."""

    clock: Clock
    loop: asyncio.AbstractEventLoop
    timers: TimerWheel
    view: ShareTopicView
    settings: ShareSettings
    states: States


class ShareGroups:
    """The share groups of one shard."""

    def __init__(
        self,
        ground: ShareGroupDependencies,
        registry: GroupRegistry,
        write: Write,
        replaces: Callable[[Group], None] = lambda _: None,
    ) -> None:
        self._ground = ground
        self._interval = AssignmentInterval(
            ground.clock, ground.timers, ground.settings.assignment_interval_ms, self._assign_now
        )
        self.turns = GroupTurns(KIND, registry, write, assign=self._assign, changed=self._changed, replaces=replaces)
        self.get, self.all = self.turns.get, self.turns.all
        self.rebalances = 0
        self._working: dict[str, asyncio.Task[None]] = {}
        """Group id → the task that works on its states."""

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        group_id: str,
        beat: ShareHeartbeat,
        reply: Callable[[ShareHeartbeatResult], None],
        *,
        also: Records | None = None,
    ) -> None:
        """Handle a valid ShareGroupHeartbeat; `reply` gets the result once the changes are durable.

        `also`: records to write with the first member of a group.
        """
        group = self.get(group_id)
        if group is not None and (answer := self._at_once(group, beat)) is not None:
            reply(answer)
            return

        def change(draft: ShareGroup) -> Finish:
            if beat.epoch == LEAVES:
                membership.remove(draft, beat.member_id)
                log.info("share group %s: member %s leaves", group_id, beat.member_id)
                self._look(draft, raised=True)
                return lambda _: ShareHeartbeatResult(member_id=beat.member_id, epoch=LEAVES)
            epoch = draft.epoch
            before = membership.enter(draft, beat, self._ground.settings.max_size)
            self._look(draft, raised=draft.epoch > epoch)
            if before is None:
                log.info("share group %s: member %s joins at epoch %d", group_id, beat.member_id, draft.epoch)

            def finish(draft: ShareGroup) -> Outcome:
                moved = membership.progress(draft, beat.member_id, self._topics(draft))
                told = beat.topics is not None or before is None or moved.assigned != before.assigned
                return self._result(group_id, moved, told=told)

            return finish

        def answered(outcome: Outcome) -> None:
            reply(refused(outcome) if isinstance(outcome, KafkaError) else outcome)

        if group is not None and beat.member_id in group.members:
            self._keep_alive(group_id, beat.member_id)
        self.turns.submit(group_id, change, answered, also=also)

    def _at_once(self, group: ShareGroup, beat: ShareHeartbeat) -> ShareHeartbeatResult | None:
        """Return the result for a heartbeat that changes nothing, as nearly all do; None for others."""
        member = group.members.get(beat.member_id)
        if (
            member is None
            or beat.epoch <= 0
            or beat.epoch != member.epoch
            or beat.topics not in (None, member.topics)
            or beat.rack_id not in (None, member.rack_id)
            or member.epoch != group.target_epoch
            or group.epoch != group.target_epoch
            or group.looked_at != self._ground.view.version
            or not self.turns.is_quiet(group.group_id)
        ):
            return None
        self._keep_alive(group.group_id, beat.member_id)
        return self._result(group.group_id, member, told=beat.topics is not None)

    def _result(self, group_id: str, member: ShareGroupMember, *, told: bool) -> ShareHeartbeatResult:
        return ShareHeartbeatResult(
            member_id=member.member_id,
            epoch=member.epoch,
            interval_ms=self._ground.settings.heartbeat_interval_ms(group_id),
            assigned=member.assigned if told else None,
        )

    # --- epochs and targets -------------------------------------------------------------------------------------------

    def _topics(self, group: ShareGroup) -> dict[Uuid, tuple[str, int]]:
        """Return the existing topics that any member subscribes to: name and partition count."""
        view = self._ground.view
        found: dict[Uuid, tuple[str, int]] = {}
        for name in group.subscribed:
            topic_id = view.topic_id(name)
            if topic_id is not None and (count := view.partition_count(topic_id)):
                found[topic_id] = name, count
        return found

    def _look(self, draft: ShareGroup, *, raised: bool) -> None:
        """Record the members' topics, and start initializing states of new partitions.

        Raise the epoch if the topics have changed, unless the caller has `raised` it already.
        """
        if draft.looked_at == self._ground.view.version and not raised:
            return
        draft.looked_at = self._ground.view.version
        topics = self._topics(draft)
        known = hash_of({topic_id: count for topic_id, (_, count) in topics.items()})
        if known != draft.topics_hash:
            draft.topics_hash = known
            if not raised:
                draft.epoch += 1
        draft.begin(draft.missing(topics))

    def _assign(self, draft: ShareGroup) -> None:
        if self._interval.is_over(draft):
            membership.assign(draft, self._topics(draft), self._ground.clock.wall_ms())
            self.rebalances += 1

    def _assign_now(self, group_id: str) -> None:
        """Compute the target that the assignment interval delayed."""

        def change(draft: ShareGroup) -> Finish:
            self._look(draft, raised=draft.epoch > draft.target_epoch)
            return lambda _: None

        self.turns.submit_until_stored(group_id, change, partial(self._interval.again, group_id))

    # --- states of partitions -----------------------------------------------------------------------------------------

    def work(self, group_id: str) -> None:
        """Start pending work on a group's states unless it is already running."""
        group = self.get(group_id)
        if group is None or not (group.initializing or group.deleting) or group_id in self._working:
            return
        task = self._working[group_id] = self._ground.loop.create_task(self._work(group))
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
        self._ground.timers.schedule(("share states", group_id), RETRY_MS, lambda: self.work(group_id))

    async def _work(self, group: ShareGroup) -> None:
        """Do all pending work on the group's states once, then update the group. Raise KafkaError."""
        group_id, states = group.group_id, self._ground.states
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
                # The topic may be undeleted; its states then start anew.
                draft.looked_at = -1
            if latest > group.epoch:
                # The group needs an epoch above that of the existing state; the next round initializes all states under
                # it.
                draft.epoch = max(draft.epoch, latest + 1)
            elif made:
                draft.made(made)
                draft.epoch += 1
            return lambda _: None

        outcome = await self.submit(group_id, change)
        if isinstance(outcome, KafkaError):
            raise outcome

    async def _initialize(self, group: ShareGroup, key: Key) -> int:
        """Initialize a state; return its epoch. Raise KafkaError.

        The epoch is higher than the group's if a deleted group with the same id left a state behind.
        """
        states, epoch = self._ground.states, group.epoch
        try:
            await states.initialize(key, epoch, await self._start(group, key))
        except KafkaError as problem:
            left = await states.summary(key) if problem.code == ErrorCode.FENCED_STATE_EPOCH else None
            if left is None or left.state_epoch <= epoch:
                raise
            return left.state_epoch
        return epoch

    async def _start(self, group: ShareGroup, key: Key) -> int:
        """Return the start offset of a new state. Raise KafkaError.

        If the topic continues the offsets of a topic that the group has read, it is the start of the log; otherwise
        share.auto.offset.reset decides.
        """
        view = self._ground.view
        for topic_id, topic in group.initialized.items():
            if key.partition in topic.partitions and view.successor(topic_id) == key.topic_id:
                known = await self._ground.states.summary(key._replace(topic_id=topic_id))
                if known is not None and known.start_offset != NO_OFFSET:
                    return view.start_offset(key.topic_id, key.partition)
        return NO_OFFSET

    def _gone(self, group: ShareGroup) -> dict[Uuid, frozenset[int]]:
        """Return the partitions whose states have to be deleted, by topic.

        For a topic that was deleted during initialization, only the unfinished ones: an undelete may restore the
        others. Skip such topics for a loaded group that has not been checked since.
        """
        gone = {topic_id: group.known_partitions(topic_id) for topic_id in group.deleting}
        if group.looked_at >= 0:
            for topic_id in group.initializing.keys() - gone.keys():
                if not self._ground.view.partition_count(topic_id):
                    gone[topic_id] = group.unfinished_partitions(topic_id)
        return gone

    def submit(self, group_id: str, change: Callable[[ShareGroup], Finish]) -> asyncio.Future[Outcome]:
        """Make a change in the next turn; return a future for its result, a KafkaError if it was refused or not
        stored."""
        future: asyncio.Future[Outcome] = self._ground.loop.create_future()

        def reply(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.turns.submit(group_id, change, reply)
        return future

    async def delete_states(self, group_id: str, topics: Collection[Uuid]) -> None:
        """Delete the states of a group without members for these topics; a member that joins meanwhile starts anew.

        Raise KafkaError NON_EMPTY_GROUP; after other errors the coordinator retries on its own.
        """

        def change(draft: ShareGroup) -> Finish:
            draft.require_empty()
            for topic_id in topics:
                draft.bury_topic(topic_id)
            return lambda _: None

        outcome = await self.submit(group_id, change)
        if isinstance(outcome, KafkaError):
            raise outcome
        while (group := self.get(group_id)) is not None and not group.deleting.keys().isdisjoint(topics):
            task = self._working.get(group_id)
            if task is None:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The states are being deleted.")
            await asyncio.wait([task])
            problem = None if task.cancelled() else task.exception()
            if problem is not None:
                raise problem

    def bury_the_dead(self) -> None:
        """Delete the states of topics that cannot be undeleted.

        Until then an undelete finds them. The successor of a truncated topic gets its own states first.
        """
        view = self._ground.view
        for group in self.all():
            known = group.initialized.keys() | group.initializing.keys()
            for topic_id in known - group.deleting.keys():
                successor = view.successor(topic_id)
                if successor is not None and successor not in group.initialized:
                    if successor not in group.initializing:
                        self._follow(group.group_id, successor)
                elif view.is_dead(topic_id):
                    self._bury(group.group_id, topic_id)

    def _follow(self, group_id: str, topic_id: Uuid) -> None:
        view = self._ground.view
        name, count = view.topic_name(topic_id) or "", view.partition_count(topic_id)

        def change(draft: ShareGroup) -> Finish:
            draft.begin(draft.missing({topic_id: (name, count)}))
            return lambda _: None

        later = partial(self._ground.timers.schedule, ("share topic", group_id, topic_id), RETRY_MS)
        self.turns.submit_until_stored(group_id, change, later)

    def _bury(self, group_id: str, topic_id: Uuid) -> None:
        def change(draft: ShareGroup) -> Finish:
            draft.bury_topic(topic_id)
            return lambda _: None

        later = partial(self._ground.timers.schedule, ("share topic", group_id, topic_id), RETRY_MS)
        self.turns.submit_until_stored(group_id, change, later)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _changed(self, before: ShareGroup | None, after: ShareGroup) -> None:
        group_id = after.group_id
        known: Mapping[str, ShareGroupMember] = {} if before is None else before.members
        for member_id in known.keys() - after.members.keys():
            self._ground.timers.cancel(_session(group_id, member_id))
        for member_id, member in after.members.items():
            was, session = known.get(member_id), _session(group_id, member_id)
            # A member that rejoined during the write that ended its session has no session timer either.
            if was is None or (was is not member and session not in self._ground.timers):
                self._ground.timers.schedule(
                    session,
                    self._ground.settings.session_timeout_ms(group_id),
                    partial(self.expire, group_id, member_id),
                )
        self.work(group_id)

    def _keep_alive(self, group_id: str, member_id: str) -> None:
        self._ground.timers.touch(_session(group_id, member_id), self._ground.settings.session_timeout_ms(group_id))

    def expire(self, group_id: str, member_id: str) -> None:
        """Remove a member whose session has expired."""

        def change(draft: ShareGroup) -> Finish:
            if member_id in draft.members:
                log.info("share group %s: member %s is removed: its session is over", group_id, member_id)
                membership.remove(draft, member_id)
                self._look(draft, raised=True)
            return lambda _: None

        later = partial(self._ground.timers.schedule, _session(group_id, member_id), RETRY_MS)
        self.turns.submit_until_stored(group_id, change, later)

    # --- loading and ending groups ------------------------------------------------------------------------------------

    def install(self, group_id: str, stored: StoredShareGroup) -> None:
        """Install a loaded group and start a new session for each member; no coordinator received heartbeats during the
        load."""
        group = stored.group(group_id)
        if group is not None:
            self.turns.load(group)

    def drop(self, group: ShareGroup) -> Records:
        """End a deleted group; return its tombstones."""
        self._stop(group)
        self.turns.forget(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        return records.tombstones(group)

    def _stop(self, group: ShareGroup) -> None:
        for member_id in group.members:
            self._ground.timers.cancel(_session(group.group_id, member_id))
        self._ground.timers.cancel(("share states", group.group_id))
        self._interval.forget(group.group_id)
        task = self._working.pop(group.group_id, None)
        if task is not None:
            task.cancel()

    def give_up_all(self, error: ErrorCode) -> None:
        """End all groups when the shard moves away or the broker stops."""
        for group in self.all():
            self._stop(group)
        self.turns.forget_all(error)


def refused(error: KafkaError) -> ShareHeartbeatResult:
    """Return the result for a refused heartbeat."""
    return ShareHeartbeatResult(ErrorCode(error.code), error.message)


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share session", group_id, member_id
