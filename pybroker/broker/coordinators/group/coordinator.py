"""The group coordinator of this broker: what is asked of groups, and what happens to their offsets when topics go.

Which groups live here: `coordinators.shards`. Everything but `find`, loading and `hold_commits` is plain functions on
the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pybroker.broker.coordinators.group.deadlines import Bounded, Deadlines
from pybroker.broker.coordinators.group.figures import GroupFigures
from pybroker.broker.coordinators.group.holds import Holds
from pybroker.broker.coordinators.group.ports import OFFSETS_TOPIC, RemovedTopic, Settings
from pybroker.broker.coordinators.group.removals import Removals
from pybroker.broker.coordinators.group.reply import Reply
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.broker.coordinators.shards.ports import Ports
from pybroker.broker.coordinators.shards.shard import ShardState
from pybroker.broker.coordinators.shards.shards import Shards
from pybroker.broker.coordinators.shards.timers import TimerWheel, WheelDriver
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.consumer.group import ConsumerGroup
    from pybroker.broker.coordinators.consumer.model import Heartbeat, HeartbeatResult
    from pybroker.broker.coordinators.consumer.topics import MayRead
    from pybroker.broker.coordinators.group.commits import CommitRequest, Finished
    from pybroker.broker.coordinators.group.ground import Ground
    from pybroker.broker.coordinators.group.group import Group, JoinResult, SyncResult
    from pybroker.broker.coordinators.group.offsets import CommittedOffset, TopicOffsets
    from pybroker.broker.coordinators.group.requests import JoinRequest, LeavingMember, SyncRequest
    from pybroker.broker.coordinators.group.shard import GroupShard
    from pybroker.broker.coordinators.group.transactional_offsets import Watch
    from pybroker.broker.coordinators.shards.standing import StandingAnswers
    from pybroker.broker.coordinators.share.groups import States
    from pybroker.broker.coordinators.streams.group import StreamsGroup
    from pybroker.broker.requests.context import CommitGrant

log = logging.getLogger(__name__)

IN_FLIGHT_POLL_S = 0.001
"""Between two looks at whether commits of a topic that is being deleted are on disk: they take a flush."""

GROUP_ID_BYTES_MAX = 0x7FFF
"""The stored key has 16 bits for its length."""

EXPIRY_GROUPS_A_TURN = 200
"""Groups looked at in one turn of the loop, so that the expiry of many does not hold up heartbeats."""

class GroupCoordinator:
    """See the module. Built by `app.Broker`; `start` once the metadata cache is filled and local partitions are
    applied.
    """

    def __init__(self, ports: Ports, settings: Settings, states: States) -> None:
        """states: where those of share groups are kept."""
        self._ports = ports
        self._states = states
        self._settings = settings
        self._clock = ports.clock
        self._loop = ports.loop
        self._driver = WheelDriver(ports.clock, ports.loop)
        self._deadlines = Deadlines(ports.loop)
        self._removals = Removals()
        self._holds = Holds()
        self._figures = GroupFigures()
        self.shards: Shards[GroupShard] = Shards(
            OFFSETS_TOPIC, ports, self._driver.wheel, self._new_shard, lambda: settings.load_buffer_bytes
        )
        self._stopped = False

    @cached_property
    def _ground(self) -> Ground:
        from pybroker.broker.coordinators.group.ground import Ground

        return Ground(
            self._ports,
            self._settings,
            self._driver.wheel,
            states=self._states,
            removals=self._removals,
            holds=self._holds,
            figures=self._figures,
            member_bytes=self.member_metadata_bytes,
            shard_of=partial(self.shard, empty_allowed=True),
        )

    def _new_shard(self, shard_log: ShardLog) -> GroupShard:
        return self._ground.shard(shard_log)

    def shard(self, group_id: str, *, empty_allowed: bool = False) -> GroupShard:
        """The shard that answers for a group. KafkaError: INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_…"""
        if (not group_id and not empty_allowed) or (
            len(group_id) > GROUP_ID_BYTES_MAX // 4 and len(group_id.encode()) > GROUP_ID_BYTES_MAX
        ):
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self.shards.of(group_id)

    @property
    def figures(self) -> GroupFigures:
        """What was done since the start, as of now. Not to be changed."""
        for shard in self.shards:
            shard.note_commits()
        return self._figures

    def member_metadata_bytes(self) -> int:
        """What the metadata of all classic members takes."""
        return sum(group.metadata_bytes for shard in self.shards for group in shard.groups.values())

    @property
    def timers(self) -> TimerWheel:
        """Turned while the coordinator lives."""
        return self._driver.wheel

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Takes over all shards that this broker leads and begins to watch retention."""
        self.shards.start()
        self._watch_retention()

    async def loaded(self) -> None:
        """Waits until every shard that is being loaded has been."""
        await self.shards.loaded()

    async def stop(self) -> None:
        """Answers whoever waits with COORDINATOR_NOT_AVAILABLE and waits for writes that are on their way."""
        self._stopped = True
        self._driver.stop()
        await self.shards.stop()

    async def find(self, group_id: str, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of a group's coordinator. See `Shards.find`."""
        return await self.shards.find(group_id, listener)

    # --- membership ---------------------------------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> JoinResult | asyncio.Future[JoinResult]:
        """JoinGroup: the answer, or a future for it while the round runs. KafkaError for the whole request."""
        shard = self.shard(group_id)
        settings = self._settings
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        shard.refuse_share(group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._ground.member_metadata.require_room(request.protocols)
        reply: Reply[JoinResult] = Reply()
        if group_id in shard.consumers:
            shard.classic_members.join(group_id, request, reply)
            return reply.outcome(self._loop)
        if group_id in shard.streams:
            shard.join_emptied_streams(group_id, request, reply)
            return reply.outcome(self._loop)
        group = shard.group(group_id)
        if group is None:
            if request.member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = shard.ensure_group(group_id)
        shard.rounds.join(group, request, reply)
        shard.emptied(group)
        return reply.outcome(self._loop)

    def sync(self, group_id: str, request: SyncRequest) -> SyncResult | asyncio.Future[SyncResult]:
        """SyncGroup: the answer, or a future for it until the assignment is stored. KafkaError for the whole request.
        """
        shard = self.shard(group_id)
        if group_id in shard.consumers:
            return shard.classic_members.sync(_there(shard, group_id), request)
        group = shard.group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        reply: Reply[SyncResult] = Reply()
        shard.rounds.sync(group, request, reply)
        return reply.outcome(self._loop)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat. KafkaError for the whole request."""
        shard = self.shard(group_id)
        if group_id in shard.consumers:
            return shard.classic_members.heartbeat(_there(shard, group_id), member_id, instance_id, generation)
        group = shard.group(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return shard.rounds.heartbeat(group, member_id, instance_id, generation)

    def answers_to_repeat(self, group_id: str) -> StandingAnswers | None:
        """Where answers are kept that may be repeated to members of a classic group whose heartbeat was just answered
        with NONE; None: the group is on its way to somewhere else. KafkaError: it is not answered here."""
        return self.shard(group_id).answers_to_repeat(group_id)

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember]
    ) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """LeaveGroup: a code for each member in order. KafkaError for the whole request."""
        shard = self.shard(group_id)
        if group_id in shard.consumers:
            reply: Reply[list[ErrorCode]] = Reply()
            shard.classic_members.leave(group_id, leaving, reply)
            return reply.outcome(self._loop)
        group = shard.group(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
        return shard.rounds.leave(group, leaving)

    # --- consumer groups ----------------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, beat: Heartbeat, may_read: MayRead
    ) -> HeartbeatResult | asyncio.Future[HeartbeatResult]:
        """ConsumerGroupHeartbeat: the answer, or a future for it until what it changes is on disk. `may_read`: whether
        the member may know of a topic. KafkaError: the group is not answered here, UNSUPPORTED_VERSION."""
        if not self._settings.consumer.served:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Consumer groups are switched off (group.coordinator.rebalance.protocols).",
            )
        shard = self.shard(group_id)
        shard.refuse_share(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        shard.refuse_streams(group_id)
        reply: Reply[HeartbeatResult] = Reply()
        shard.consumer_heartbeat(group_id, beat, may_read, reply)
        return reply.outcome(self._loop)

    def consumer_answers_to_repeat(self, group_id: str) -> StandingAnswers:
        """Where answers are kept that stand (`HeartbeatResult.stands`). KafkaError: the group is not answered here."""
        return self.shard(group_id).consumers.answers(group_id)

    @property
    def assignors(self) -> Sequence[str]:
        """Server-side assignors by name, the favourite first."""
        return self._settings.consumer.assignors

    def describe_consumer(self, group_id: str) -> ConsumerGroup:
        """A consumer group as it is now. Not to be changed. KafkaError: not answered here, GROUP_ID_NOT_FOUND."""
        shard = self.shard(group_id, empty_allowed=True)
        group = shard.consumers.get(group_id)
        if group is None:
            known = shard.group(group_id) is not None or group_id in shard.streams
            what = f"Group {group_id} is not a consumer group." if known else f"Group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        return group

    def list_consumer_groups(self) -> list[ConsumerGroup]:
        """All consumer groups of this broker whose shards are loaded. Not to be changed."""
        return [group for s in self.shards if s.state is ShardState.ACTIVE for group in s.consumers.all()]

    # --- offsets ------------------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """OffsetCommit: a code for each item, once the accepted ones are on disk. KafkaError for the whole request."""
        reply: Reply[list[ErrorCode]] = Reply()
        self.commit_then(request, reply)
        return reply.outcome(self._loop)

    def commit_then(self, request: CommitRequest, finished: Finished) -> None:
        """The same; `finished` is given the codes, once. After `offsets.commit.timeout.ms` the outcome is unknown, and
        it gets COORDINATOR_NOT_AVAILABLE: clients commit again."""
        shard = self.shard(request.group_id, empty_allowed=True)
        shard.refuse_share(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        bounded = Bounded(finished, len(request.items))
        self._ground.commits.commit(shard, request, self._clock.wall_ms(), bounded)
        self._bound(bounded)

    def grant_commits(self, request: CommitRequest) -> CommitGrant | None:
        """Leaves the next commits of a member, whose commit was just answered, to data threads; None: the coordinator
        has to look at them."""
        try:
            shard = self.shard(request.group_id)
        except KafkaError:
            return None
        return self._ground.commits.grant(shard, request, self._settings.commit_timeout_ms)

    def fetch(
        self,
        group_id: str,
        wanted: Sequence[tuple[Uuid, int]],
    ) -> list[CommittedOffset | None]:
        """OffsetFetch of given partitions, in order. KafkaError for the whole group."""
        shard = self.shard(group_id, empty_allowed=True)
        return [shard.offsets.get(group_id, topic_id, partition) for topic_id, partition in wanted]

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Whether a member (None: nobody in particular) in this epoch may be told the offsets of a group. Members of
        classic groups always may. KafkaError UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, for the whole group."""
        if member_id is None and epoch < 0:
            return
        self.shard(group_id, empty_allowed=True).check_fetch(group_id, member_id or "", epoch)

    def unstable(self, group_id: str) -> set[tuple[Uuid, int]]:
        """(topic id, partition) of a group's offsets that depend on transactions which have not ended. KafkaError for
        the whole group."""
        shard = self.shard(group_id, empty_allowed=True)
        return {(topic_id, key.partition) for topic_id, key in shard.transactions.unstable_of(group_id)}

    def fetch_all(self, group_id: str) -> list[tuple[Uuid, TopicOffsets]]:
        """OffsetFetch of everything a group has committed. KafkaError for the whole group."""
        shard = self.shard(group_id, empty_allowed=True)
        return list(shard.offsets.topics(group_id).items())

    def delete_offsets(
        self, group_id: str, wanted: Sequence[tuple[str, int]]
    ) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """OffsetDelete: a code for each partition, once the tombstones are on disk. KafkaError for the whole request.
        """
        shard = self.shard(group_id)
        reply: Reply[list[ErrorCode]] = Reply()
        bounded = Bounded(reply, len(wanted))
        self._ground.commits.delete(shard, group_id, wanted, bounded)
        self._bound(bounded)
        return reply.outcome(self._loop)

    def _bound(self, waits: Bounded) -> None:
        if not waits.over:
            self._deadlines.add(waits, self._settings.commit_timeout_ms)

    # --- transactions -------------------------------------------------------------------------------------------------

    def open_in(self, group_id: str, producer: tuple[int, int]) -> Watch | None:
        """For a commit in the transaction of this producer (id, epoch), before it is verified: what tells later whether
        the transaction has ended meanwhile; None: the transaction has offsets in the group's partition already."""
        shard = self.shard(group_id)
        return None if shard.transactions.holds(*producer) else shard.transactions.watch(producer[0])

    def transaction_ending(self, topic_id: Uuid, partition: int, producer_id: int) -> None:
        """A marker is on its way to a partition of the offsets topic."""
        for shard in self._of_partition(topic_id, partition):
            shard.transactions.ending(producer_id)

    def transaction_ended(
        self, topic_id: Uuid, partition: int, producer_id: int, at: int, *, committed: bool
    ) -> None:
        """The marker is on disk at offset `at`: what was committed in the transaction counts, or is forgotten."""
        for shard in self._of_partition(topic_id, partition):
            shard.transaction_ended(producer_id, at, committed=committed)

    def _of_partition(self, topic_id: Uuid, partition: int) -> list[GroupShard]:
        return [s for s in self.shards if s.log.topic_id == topic_id and s.partition == partition]

    # --- administration -----------------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> Group | None:
        """A group as it is now, None if it does not exist. KafkaError: not answered here. Not to be changed."""
        return self.shard(group_id, empty_allowed=True).group(group_id)

    def list_groups(self) -> tuple[list[Group], bool]:
        """All groups of this broker, and whether shards are still being loaded."""
        groups = [g for s in self.shards if s.state is ShardState.ACTIVE for g in s.groups.values()]
        return groups, any(shard.state is not ShardState.ACTIVE for shard in self.shards)

    def count_offsets(self) -> int:
        """Committed offsets of all groups of this broker."""
        return sum(len(shard.offsets) for shard in self.shards)

    def delete_group(self, group_id: str) -> ErrorCode | asyncio.Future[ErrorCode]:
        """DeleteGroups: NONE once group and offsets are buried. KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, …"""
        shard = self.shard(group_id, empty_allowed=True)
        reply: Reply[ErrorCode] = Reply()
        self._figures.offset_deletions += shard.delete_group(group_id, reply)
        return reply.outcome(self._loop)

    # --- topics that go -----------------------------------------------------------------------------------------------

    def topics_removed(self, removed: Sequence[RemovedTopic]) -> None:
        """Registered with the metadata cache: incarnations are gone, and their offsets with them. When it is the
        offsets topic itself, all its shards have been dropped; clients look for their coordinator, which makes it anew.

        The tombstones are queued before anything that is committed for a new incarnation of the name.
        """
        for topic in removed:
            self._removals.note(topic.name)
            for shard in self.shards:
                keys = shard.offsets.keys_of_topic(topic.topic_id)
                keys = list(dict.fromkeys([*keys, *shard.transactions.drop_topic(topic.topic_id)]))
                shard.offsets.drop_topic(topic.topic_id)
                self._figures.offset_deletions += len(keys)
                if keys:
                    shard.bury_offsets(keys, partial(_note_burial, topic.name))

    def offsets_of_topic(self, topic_id: Uuid) -> list[tuple[str, int, CommittedOffset]]:
        """(group, partition, offset) of one incarnation, for its deletion record."""
        return [
            (group, partition, offset)
            for shard in self.shards
            for group, _, partition, offset in shard.offsets.of_topic(topic_id)
        ]

    async def hold_commits(self, topic_id: Uuid) -> None:
        """Takes no commit for a topic until `release_commits`; returns when those that were taken are on disk."""
        self._holds.hold(topic_id)
        for shard in self.shards:
            shard.offsets.take_back()
        deadline = self._clock.monotonic_ms() + self._settings.commit_timeout_ms
        while any(
            shard.offsets.topic_in_flight(topic_id) or shard.transactions.has_topic(topic_id) for shard in self.shards
        ):
            # Nobody waits longer for one of them, so after that its outcome is unknown to its client, too.
            if self._clock.monotonic_ms() >= deadline:
                return
            await asyncio.sleep(IN_FLIGHT_POLL_S)

    def release_commits(self, topic_id: Uuid) -> None:
        """Takes commits for a topic again."""
        self._holds.release(topic_id)

    def committed_for(self, topic_id: Uuid) -> tuple[Mapping[str, Any], ...]:
        """What groups have committed for a topic, in the form of its deletion record."""
        return tuple(
            {"group": group, "partition": partition, **structs.asdict(offset)}
            for group, partition, offset in self.offsets_of_topic(topic_id)
        )

    def give_back(
        self, topic_id: Uuid, name: str, kept: Sequence[Mapping[str, Any]]
    ) -> dict[str, asyncio.Future[ErrorCode]]:
        """Gives the groups that this broker coordinates back what `committed_for` gave, for an incarnation that lives
        again, or that goes on where another one ended; what a group has committed for it since, stays. They see it when
        this returns. By group, its code when it is stored; of groups of other brokers, and of those that are being
        loaded, at once (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS)."""
        return self._ground.commits.give_back(topic_id, name, kept, self._loop.create_future)

    # --- retention ----------------------------------------------------------------------------------------------------

    def _watch_retention(self) -> None:
        self._driver.wheel.schedule("retention", self._settings.retention_check_interval_ms, self._check_retention)

    def _check_retention(self) -> None:
        self._watch_retention()
        todo: list[tuple[GroupShard, Group | ConsumerGroup | StreamsGroup]] = []
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                shard.shares.bury_the_dead()
                todo += ((shard, classic) for classic in shard.groups.values())
                todo += ((shard, consumer) for consumer in shard.consumers.all())
                todo += ((shard, streams) for streams in shard.streams.all())
        self._expire(todo)

    def _expire(self, todo: list[tuple[GroupShard, Group | ConsumerGroup | StreamsGroup]]) -> None:
        if self._stopped or not todo:
            return
        now_ms, retention_ms = self._clock.wall_ms(), self._settings.offsets_retention_ms
        for shard, group in todo[:EXPIRY_GROUPS_A_TURN]:
            self._figures.offset_expirations += self._ground.expire(shard, group, now_ms, retention_ms)
        if len(todo) > EXPIRY_GROUPS_A_TURN:
            self._loop.call_soon(self._expire, todo[EXPIRY_GROUPS_A_TURN:])


def _there(shard: GroupShard, group_id: str) -> ConsumerGroup:
    group = shard.consumers.get(group_id)
    if group is None:
        # It is being made of a classic one; who joins again finds it.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def _note_burial(name: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        # Nothing is lost: the records name an id that is gone, and the next load leaves them out.
        log.warning("tombstones for the offsets of the deleted topic %s were not stored (%s)", name, error.name)
