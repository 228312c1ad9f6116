"""The group coordinator of this broker: requests about groups, and the offsets of deleted topics.

`coordinators.shards` determines which groups this broker coordinates. Only `find`, `loaded`, `stop` and `hold_commits`
are coroutines; all other methods are plain functions on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pybroker.broker.coordinators.group.commit_fence import CommitFence
from pybroker.broker.coordinators.group.deadlines import BoundedCallback, Deadlines
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC, GroupCoordinatorSettings, RemovedTopicView
from pybroker.broker.coordinators.group_base.group_registry import G, Group, GroupKind
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.broker.coordinators.shards.shard import ShardState
from pybroker.broker.coordinators.shards.shards import Shards
from pybroker.broker.coordinators.shards.timers import TimerWheel, WheelDriver
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.group.classic_group import JoinResult, SyncResult
    from pybroker.broker.coordinators.group.commits import Finished
    from pybroker.broker.coordinators.group.offsets import CommittedOffset, KeepOffsetsOf, TopicOffsets
    from pybroker.broker.coordinators.group.shard import GroupShard
    from pybroker.broker.coordinators.group.shard_dependencies import GroupDependencies
    from pybroker.broker.coordinators.group.transactional_offsets import Watch
    from pybroker.broker.coordinators.group_base.epoch_kind import EpochHeartbeat
    from pybroker.broker.coordinators.group_base.requests import CommitRequest, JoinRequest, LeavingMember, SyncRequest
    from pybroker.broker.coordinators.shards.cached_responses import CachedResponses
    from pybroker.broker.coordinators.share.share_group_states import States
    from pybroker.broker.requests.context import CommitGrant

T = TypeVar("T")


class Reply(Generic[T]):
    """A callback for one value. `outcome` returns the value, or a future while the value is missing."""

    __slots__ = ("_future", "_value")

    def __init__(self) -> None:
        self._value: T | None = None
        self._future: asyncio.Future[T] | None = None

    def __call__(self, value: T) -> None:
        if self._future is None:
            self._value = value
        elif not self._future.done():
            self._future.set_result(value)

    def outcome(self, loop: asyncio.AbstractEventLoop) -> T | asyncio.Future[T]:
        if self._value is not None:
            return self._value
        self._future = loop.create_future()
        return self._future


log = logging.getLogger(__name__)

IN_FLIGHT_POLL_S = 0.001
"""Seconds between two checks whether commits to a topic under deletion are still being written. A write takes about as
long as one flush."""

GROUP_ID_BYTES_MAX = 0x7FFF
"""The stored key has 16 bits for the length of the group id."""

EXPIRY_GROUPS_A_TURN = 200
"""Groups checked for expiry in one step of the event loop; a longer step would delay heartbeats."""


class GroupCoordinator:
    """The group coordinator of one broker.

    `app.Broker` creates it, and calls `start` once `MetadataCache` is filled and local partitions are applied.
    """

    def __init__(
        self,
        dependencies: CoordinatorDependencies,
        settings: GroupCoordinatorSettings,
        states: States,
        keep_offsets: KeepOffsetsOf,
    ) -> None:
        """states: the share-state coordinators, which store the share state of groups. keep_offsets: adds offsets of a
        deleted topic to its deletion record."""
        self._dependencies = dependencies
        self._keep_offsets = keep_offsets
        self._states = states
        self.settings = settings
        self._clock = dependencies.clock
        self._loop = dependencies.loop
        self._driver = WheelDriver(dependencies.clock, dependencies.loop)
        self._deadlines = Deadlines(dependencies.loop)
        self._removals = Removals()
        self._fence = CommitFence()
        self._statistics = GroupStatistics()
        self.shards: Shards[GroupShard] = Shards(
            OFFSETS_TOPIC, dependencies, self._driver.wheel, self._new_shard, lambda: settings.load_buffer_bytes
        )
        self._stopped = False

    @cached_property
    def _shard_dependencies(self) -> GroupDependencies:
        from pybroker.broker.coordinators.group.shard_dependencies import GroupDependencies

        return GroupDependencies(
            self._dependencies,
            self.settings,
            self._driver.wheel,
            states=self._states,
            removals=self._removals,
            fence=self._fence,
            statistics=self._statistics,
            member_bytes=self._member_bytes,
            shard_of=partial(self.shard, empty_allowed=True),
            keep_offsets=self._keep_offsets,
        )

    def _new_shard(self, shard_log: ShardLog) -> GroupShard:
        return self._shard_dependencies.shard(shard_log)

    def shard(self, group_id: str, *, empty_allowed: bool = False) -> GroupShard:
        """Return the shard of a group.

        Raise KafkaError INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if (not group_id and not empty_allowed) or (
            len(group_id) > GROUP_ID_BYTES_MAX // 4 and len(group_id.encode()) > GROUP_ID_BYTES_MAX
        ):
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self.shards.of(group_id)

    @property
    def statistics(self) -> GroupStatistics:
        """Return the counters since the start of the broker, including commits by data threads. Callers must not change
        them."""
        for shard in self.shards:
            shard.note_commits()
        return self._statistics

    def member_metadata_bytes(self) -> int:
        """Return how many bytes the metadata of all members takes."""
        return sum(shard.metadata_bytes() for shard in self.shards)

    def _member_bytes(self) -> int:
        return self.member_metadata_bytes() + sum(shard.bytes_beside_metadata() for shard in self.shards)

    @property
    def timers(self) -> TimerWheel:
        """The timer wheel of all groups, which runs until `stop`."""
        return self._driver.wheel

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the shards of all partitions that this broker leads, and start checking the retention of offsets."""
        self.shards.start()
        self._watch_retention()

    async def loaded(self) -> None:
        """Wait until no shard is loading."""
        await self.shards.loaded()

    async def stop(self) -> None:
        """Answer waiting clients with COORDINATOR_NOT_AVAILABLE and wait for writes in flight."""
        self._stopped = True
        self._driver.stop()
        await self.shards.stop()

    async def find(self, group_id: str, listener: str) -> tuple[int, str, int]:
        """Return (broker id, host, port) of the group's coordinator. See `Shards.find`."""
        return await self.shards.find(group_id, listener)

    # --- membership ---------------------------------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> JoinResult | asyncio.Future[JoinResult]:
        """Handle a JoinGroup: return the result, or a future for it while the rebalance runs.

        Raise KafkaError for the whole request.
        """
        shard = self.shard(group_id)
        settings = self.settings
        if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        kind = shard.groups.require(
            group_id,
            GroupKind.CONSUMER,
            GroupKind.CLASSIC,
            GroupKind.STREAMS,
            code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        )
        self._shard_dependencies.member_metadata.require_room_of(request, group_id)
        reply: Reply[JoinResult] = Reply()
        if kind is GroupKind.CONSUMER:
            shard.classic_members.join(group_id, request, reply)
        elif kind is GroupKind.STREAMS:
            shard.join_emptied_streams(group_id, request, reply)
        elif kind is None and request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            shard.join_classic(group_id, request, reply)
        return reply.outcome(self._loop)

    def sync(self, group_id: str, request: SyncRequest) -> SyncResult | asyncio.Future[SyncResult]:
        """Handle a SyncGroup: return the result, or a future for it until the assignment is stored.

        Raise KafkaError for the whole request.
        """
        shard = self.shard(group_id)
        if shard.groups.kind(group_id) is GroupKind.CONSUMER:
            return shard.classic_members.sync(shard.upgraded(group_id), request)
        group = shard.classic_group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        reply: Reply[SyncResult] = Reply()
        shard.rebalances.sync(group, request, reply)
        return reply.outcome(self._loop)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Handle a Heartbeat. Raise KafkaError for the whole request."""
        shard = self.shard(group_id)
        if shard.groups.kind(group_id) is GroupKind.CONSUMER:
            return shard.classic_members.heartbeat(shard.upgraded(group_id), member_id, instance_id, generation)
        group = shard.classic_group(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return shard.rebalances.heartbeat(group, member_id, instance_id, generation)

    def cached_responses(self, group_id: str) -> CachedResponses | None:
        """Return the cache of responses for a classic group whose member has just got NONE to a heartbeat.

        Return None if the group is not stable. Raise KafkaError if this broker does not coordinate the group.
        """
        return self.shard(group_id).cached_responses(group_id)

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember]
    ) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """Handle a LeaveGroup: one error code per member, in order. Raise KafkaError for the whole request."""
        shard = self.shard(group_id)
        if shard.groups.kind(group_id) is GroupKind.CONSUMER:
            reply: Reply[list[ErrorCode]] = Reply()
            shard.classic_members.leave(group_id, leaving, reply)
            return reply.outcome(self._loop)
        group = shard.classic_group(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
        return shard.rebalances.leave(group, leaving)

    # --- members with epochs ------------------------------------------------------------------------------------------

    def require_served(self, kind: GroupKind) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if the broker's settings disable this kind of group."""
        if not self.settings.serves(kind):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{kind.capitalize()} groups are disabled (group.coordinator.rebalance.protocols).",
            )

    def member_heartbeat(self, kind: GroupKind, group_id: str, beat: EpochHeartbeat) -> Any:
        """Handle a valid heartbeat of a consumer, share or streams group's member.

        Return the result, or a future for it until its changes are durable. Raise KafkaError GROUP_ID_NOT_FOUND or
        GROUP_MAX_SIZE_REACHED, or if this broker does not coordinate the group.
        """
        shard = self.shard(group_id)
        shard.groups.require(group_id, kind, GroupKind.CLASSIC)
        if not beat.is_plain:
            self._shard_dependencies.member_metadata.require_room(*shard.epochs.metadata_bytes(kind, group_id, beat))
        reply: Reply[Any] = Reply()
        shard.heartbeat(kind, group_id, beat, reply)
        return reply.outcome(self._loop)

    def cached_consumer_responses(self, group_id: str) -> CachedResponses:
        """Return the group's cache for responses whose `ConsumerHeartbeatResult.cacheable` is set.

        Raise KafkaError if this broker does not coordinate the group.
        """
        return self.shard(group_id).epochs.cached_responses(group_id)

    @property
    def assignors(self) -> Sequence[str]:
        """Names of the server-side assignors, the default first."""
        return self.settings.consumer.assignors

    # --- offsets ------------------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """Handle an OffsetCommit. Return one error code per item when the accepted items are durable.

        Raise KafkaError for the whole request.
        """
        reply: Reply[list[ErrorCode]] = Reply()
        self.commit_then(request, reply)
        return reply.outcome(self._loop)

    def commit_then(self, request: CommitRequest, finished: Finished) -> None:
        """Handle an OffsetCommit and call `finished` once with the error codes.

        If the write takes longer than `offsets.commit.timeout.ms`, the code is COORDINATOR_NOT_AVAILABLE: the outcome
        is unknown, and clients retry.
        """
        shard = self.shard(request.group_id, empty_allowed=True)
        bounded = BoundedCallback(finished, len(request.items))
        self._shard_dependencies.commits.commit(shard, request, self._clock.wall_ms(), bounded)
        self._bound(bounded)

    def grant_commits(self, request: CommitRequest) -> CommitGrant | None:
        """Delegate a member's next commits to data threads, after a successful commit of the member.

        Return None if the coordinator has to check them itself.
        """
        try:
            shard = self.shard(request.group_id)
        except KafkaError:
            return None
        return self._shard_dependencies.commits.grant(shard, request, self.settings.commit_timeout_ms)

    def fetch(
        self,
        group_id: str,
        requested: Sequence[tuple[Uuid, int]],
    ) -> list[CommittedOffset | None]:
        """Handle an OffsetFetch of some partitions; the result has their order. Raise KafkaError for the whole group.
        """
        shard = self.shard(group_id, empty_allowed=True)
        return [shard.offsets.get(group_id, topic_id, partition) for topic_id, partition in requested]

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise KafkaError UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH if the member must not fetch the group's offsets.

        `member_id` None: the client names no member. Members of classic groups may always fetch.
        """
        if member_id is None and epoch < 0:
            return
        group = self.shard(group_id, empty_allowed=True).groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id or "", epoch)

    def unstable(self, group_id: str) -> set[tuple[Uuid, int]]:
        """Return (topic id, partition) of each offset of the group that an open transaction may still change.

        Raise KafkaError for the whole group.
        """
        shard = self.shard(group_id, empty_allowed=True)
        return {(topic_id, key.partition) for topic_id, key in shard.transactions.unstable_of(group_id)}

    def fetch_all(self, group_id: str) -> list[tuple[Uuid, TopicOffsets]]:
        """Return all committed offsets of the group in existing topics, by topic id. Raise KafkaError for the whole
        group."""
        shard = self.shard(group_id, empty_allowed=True)
        name_of = self._dependencies.topics.topic_name
        return [found for found in shard.offsets.topics(group_id).items() if name_of(found[0]) is not None]

    def delete_offsets(
        self, group_id: str, requested: Sequence[tuple[str, int]]
    ) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """Handle an OffsetDelete. Return one error code per partition when the tombstones are durable.

        Raise KafkaError for the whole request.
        """
        shard = self.shard(group_id)
        reply: Reply[list[ErrorCode]] = Reply()
        bounded = BoundedCallback(reply, len(requested))
        self._shard_dependencies.commits.delete(shard, group_id, requested, bounded)
        self._bound(bounded)
        return reply.outcome(self._loop)

    def _bound(self, waits: BoundedCallback) -> None:
        if not waits.over:
            self._deadlines.add(waits, self.settings.commit_timeout_ms)

    # --- transactions -------------------------------------------------------------------------------------------------

    def open_in(self, group_id: str, producer: tuple[int, int]) -> Watch | None:
        """While the broker verifies that a commit belongs to the producer's transaction, watch whether the transaction
        ends. Return the watch.

        `producer`: (id, epoch). Return None if the transaction already has offsets in the group's partition, because
        the broker verified it at that time.
        """
        shard = self.shard(group_id)
        return None if shard.transactions.holds(*producer) else shard.transactions.watch(producer[0])

    def transaction_ending(self, topic_id: Uuid, partition: int, producer_id: int) -> None:
        """Note that a transaction marker is being written to a partition of the offsets topic."""
        for shard in self._of_partition(topic_id, partition):
            shard.transactions.ending(producer_id)

    def transaction_ended(self, topic_id: Uuid, partition: int, producer_id: int, at: int, *, committed: bool) -> None:
        """Apply a durable transaction marker at offset `at`: make the transaction's offsets visible, or discard them.
        """
        for shard in self._of_partition(topic_id, partition):
            shard.transaction_ended(producer_id, at, committed=committed)

    def _of_partition(self, topic_id: Uuid, partition: int) -> list[GroupShard]:
        return [s for s in self.shards if s.log.topic_id == topic_id and s.partition == partition]

    # --- administration -----------------------------------------------------------------------------------------------

    def describe(self, group_id: str, kind: type[G]) -> G:
        """Return a group of this kind; callers must not change it.

        Raise KafkaError GROUP_ID_NOT_FOUND, or if this broker does not coordinate the group.
        """
        return self.shard(group_id, empty_allowed=True).groups.find(group_id, kind)

    def list_groups(self) -> tuple[list[Group], bool]:
        """Return all groups of this broker's loaded shards, and whether shards are still loading. Callers must not
        change them."""
        groups = [group for shard in self.shards if shard.state is ShardState.ACTIVE for group in shard.groups]
        return groups, any(shard.state is not ShardState.ACTIVE for shard in self.shards)

    def count_offsets(self) -> int:
        """Return the number of committed offsets of all groups of this broker."""
        return sum(len(shard.offsets) for shard in self.shards)

    def delete_group(self, group_id: str) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Handle a DeleteGroups: return NONE once the tombstones of the group and its offsets are durable.

        Raise KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP and others.
        """
        shard = self.shard(group_id, empty_allowed=True)
        reply: Reply[ErrorCode] = Reply()
        self._statistics.offset_deletions += shard.delete_group(group_id, reply)
        return reply.outcome(self._loop)

    # --- deleted topics -----------------------------------------------------------------------------------------------

    def topics_removed(self, removed: Sequence[RemovedTopicView]) -> None:
        """Drop the offsets of deleted incarnations. `MetadataCache` calls this method.

        If the offsets topic itself was deleted, its shards no longer exist; the next FindCoordinator creates the topic
        again. The tombstones are queued before any commit for a new incarnation of the name.
        """
        for topic in removed:
            self._removals.note(topic.name)
            # `keys_of_topic` revokes delegated commits, so data threads commit nothing until the offsets are dropped.
            doomed = [(shard, shard.offsets.keys_of_topic(topic.topic_id)) for shard in self.shards]
            committed = self.committed_for(topic.topic_id)
            stored: list[Callable[[bool], None]] = []
            late = self._keep_offsets(topic.topic_id, committed, partial(_call_all, stored)) if committed else ()
            for shard, keys in doomed:
                self._statistics.offset_deletions += len(keys)
                stored.append(shard.deleted_topics.drop_topic(topic.topic_id, keys, late))

    def offsets_of_topic(self, topic_id: Uuid) -> list[tuple[str, int, CommittedOffset]]:
        """Return (group, partition, offset) of all committed offsets of one incarnation, for its deletion record."""
        return [
            (group, partition, offset)
            for shard in self.shards
            for group, _, partition, offset in shard.offsets.of_topic(topic_id)
        ]

    async def hold_commits(self, topic_id: Uuid) -> None:
        """Refuse commits for the topic until `release_commits`. Return when all commits accepted earlier are durable.
        """
        self._fence.hold(topic_id)
        for shard in self.shards:
            shard.offsets.revoke_delegated()
        deadline = self._clock.monotonic_ms() + self.settings.commit_timeout_ms
        while any(
            shard.offsets.topic_in_flight(topic_id) or shard.transactions.has_topic(topic_id) for shard in self.shards
        ):
            # After this time the clients have stopped waiting too, and do not know the outcome of their commits.
            if self._clock.monotonic_ms() >= deadline:
                return
            await asyncio.sleep(IN_FLIGHT_POLL_S)

    def release_commits(self, topic_id: Uuid) -> None:
        """Accept commits for the topic again."""
        self._fence.release(topic_id)

    def committed_for(self, topic_id: Uuid) -> tuple[Mapping[str, Any], ...]:
        """Return all groups' committed offsets of a topic, in the form of its deletion record."""
        from pybroker.broker.coordinators.group.offsets import kept_offset

        return tuple(kept_offset(*committed) for committed in self.offsets_of_topic(topic_id))

    def give_back(
        self, topic_id: Uuid, name: str, kept: Sequence[Mapping[str, Any]]
    ) -> dict[str, asyncio.Future[ErrorCode]]:
        """Restore offsets from `committed_for` to the groups that this broker coordinates.

        `topic_id` is an undeleted incarnation, or a new incarnation that continues the offsets of another. Newer
        commits of a group win. Groups see the restored offsets when this method returns. Return one future per group,
        which gets the error code once the offsets are stored. Groups of other brokers get NOT_COORDINATOR at once, and
        groups that are loading get COORDINATOR_LOAD_IN_PROGRESS.
        """
        return self._shard_dependencies.commits.give_back(topic_id, name, kept, self._loop.create_future)

    # --- retention ----------------------------------------------------------------------------------------------------

    def _watch_retention(self) -> None:
        self._driver.wheel.schedule("retention", self.settings.retention_check_interval_ms, self._check_retention)

    def _check_retention(self) -> None:
        self._watch_retention()
        todo: list[tuple[GroupShard, Group]] = []
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                shard.share_states.delete_states_of_dead_topics()
                todo += ((shard, group) for group in shard.groups)
        self._expire(todo)

    def _expire(self, todo: list[tuple[GroupShard, Group]]) -> None:
        if self._stopped or not todo:
            return
        now_ms, retention_ms = self._clock.wall_ms(), self.settings.offsets_retention_ms
        for shard, group in todo[:EXPIRY_GROUPS_A_TURN]:
            self._statistics.offset_expirations += self._shard_dependencies.expire(shard, group, now_ms, retention_ms)
        if len(todo) > EXPIRY_GROUPS_A_TURN:
            self._loop.call_soon(self._expire, todo[EXPIRY_GROUPS_A_TURN:])


def _call_all(functions: Sequence[Callable[[bool], None]], value: bool) -> None:
    for function in functions:
        function(value)
