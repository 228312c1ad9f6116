"""One shard of the group coordinator: the groups whose id hashes to one partition of the offsets topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.consumer.consumer_kind import ConsumerKind
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.group.classic_group import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    JoinReply,
    JoinResult,
)
from pybroker.broker.coordinators.group.classic_members import ClassicMembers
from pybroker.broker.coordinators.group.deleted_topics import DeletedTopicOffsets
from pybroker.broker.coordinators.group.interfaces import GroupCoordinatorSettings
from pybroker.broker.coordinators.group.loading import LoadedGroups
from pybroker.broker.coordinators.group.migration import can_downgrade, downgrade, upgrade
from pybroker.broker.coordinators.group.offsets import CommittedOffset, KeepOffsetsOf, Offsets
from pybroker.broker.coordinators.group.rebalance import ClassicRebalances
from pybroker.broker.coordinators.group.records import (
    GroupValue,
    MemberValue,
    OffsetKey,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
)
from pybroker.broker.coordinators.group.transactional_offsets import Counting, TransactionalOffsets
from pybroker.broker.coordinators.group_base.epoch_group import JOINS, EpochGroup
from pybroker.broker.coordinators.group_base.epoch_groups import EpochGroups
from pybroker.broker.coordinators.group_base.epoch_kind import EpochHeartbeat, Finish, Outcome, Records, Reply
from pybroker.broker.coordinators.group_base.group_registry import Group, GroupKind, GroupRegistry, is_not, not_found
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.group_base.requests import CommitRequest, JoinRequest
from pybroker.broker.coordinators.shards.cached_responses import CachedResponses
from pybroker.broker.coordinators.shards.interfaces import Record, Topics
from pybroker.broker.coordinators.shards.log import TOO_LARGE, ShardLog
from pybroker.broker.coordinators.shards.shard import Shard, ShardState
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.share.share_group_states import ShareGroupDependencies
from pybroker.broker.coordinators.share.share_kind import ShareKind
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.streams_kind import StreamsKind
from pybroker.errors import KafkaError
from pybroker.native import ShardCommits, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

CLOCKS_DIFFER_MS = 60_000
"""Assumed maximum difference of two brokers' clocks. If two timestamps differ by less, their order is uncertain."""
DOWNGRADE_RETRY_MS = 1_000
"""Milliseconds before the conversion to a classic group is tried again after a failed write."""


class GroupShard(Shard[LoadedGroups]):
    """The groups of one offsets partition. Implements `GroupStore` for rebalances."""

    def __init__(
        self,
        shard_log: ShardLog,
        *,
        clock: Clock,
        topics: Topics,
        removals: Removals,
        settings: GroupCoordinatorSettings,
        share: ShareGroupDependencies,
        timers: TimerWheel,
        statistics: GroupStatistics,
        keep_offsets: KeepOffsetsOf,
    ) -> None:
        super().__init__(shard_log)
        self.groups = GroupRegistry()
        consumer = ConsumerKind(
            clock,
            topics,
            settings.consumer,
            statistics,
            upgrade=self._upgrade,
            changed=self._consumer_changed,
        )
        share_kind = ShareKind(share)
        streams = StreamsKind(clock, timers, topics, settings.streams, statistics)
        self.epochs = EpochGroups(
            (consumer, share_kind, streams),
            self.groups,
            self._write_changes,
            self._replaced,
            clock=clock,
            timers=timers,
            view=topics,
        )
        self.share_states = share_kind.states
        self.classic_members = ClassicMembers(self.epochs, consumer, settings.consumer, timers, topics)
        self._settings = settings
        self._timers = timers
        self.commits_of_members = ShardCommits(shard_log.topic_id, shard_log.partition, shard_log.leader_epoch)
        """The commits delegated to data threads."""
        self.offsets = Offsets(self.commits_of_members)
        self.transactions = TransactionalOffsets()
        self._markers_while_loading: list[tuple[int, int, bool]] = []
        self.rebalances = ClassicRebalances(settings, clock, timers, self, statistics)
        self._clock = clock
        self._topics = topics
        self._removals = removals
        self._statistics = statistics
        self.deleted_topics = DeletedTopicOffsets(
            shard_log,
            self.offsets,
            self.transactions,
            topics=topics,
            keep_offsets=keep_offsets,
            note_group=self.note_group,
            write_tombstones=self.write_offset_tombstones,
        )
        self._removals_before = removals.count
        """Number of topic removals to ignore for loaded groups: another broker may have formed the groups' generations
        after these removals."""

    # --- interface for `Shards` ---------------------------------------------------------------------------------------

    def replay(self) -> LoadedGroups:
        """Return an object that replays the partition's records."""
        return LoadedGroups()

    def install(self, loaded: LoadedGroups) -> None:
        """Install loaded groups and offsets.

        Skip offsets of unknown topic ids. Add offsets of deleted topics to the topic's deletion record, because they
        are missing there if this partition had no coordinator at the time of the deletion. Write no tombstones for
        skipped offsets: an unknown topic id does not prove a deletion, and a commit to a new incarnation of the name
        replaces the record anyway.
        """
        self._install_pending(loaded)
        hidden = 0
        of_deleted: dict[Uuid, dict[OffsetKey, CommittedOffset]] = {}
        for key, at, value in loaded.every_offset():
            # Kafka's values before version 4 have no topic id; they belong to the current incarnation of the name.
            topic_id = value.topic_id if value.topic_id is not None else self._topics.topic_id(key.topic)
            if topic_id is None or self._topics.topic_name(topic_id) is None:
                hidden += 1
                if topic_id is not None:
                    of_deleted.setdefault(topic_id, {})[key] = CommittedOffset.stored(value, at)
                continue
            self.deleted_topics.put_live(topic_id, key, CommittedOffset.stored(value, at))
        for topic_id, offsets in of_deleted.items():
            self.deleted_topics.keep(topic_id, offsets)
        for producer_id, at, committed in self._markers_while_loading:
            self.count(self.transactions.ended(producer_id, at, committed=committed))
        self._markers_while_loading.clear()
        for group_id, stored in loaded.classic_groups.items():
            classic = group_of_value(group_id, stored)
            classic.formed_at = self._removals_before
            if not classic.formed_topics:
                classic.formed_topics = self._existed(classic)
            self.groups.put(classic)
        stored_groups = (records.group(group_id) for (_, group_id), records in loaded.epoch_groups.items())
        for group in {group.group_id: group for group in stored_groups if group is not None}.values():
            self.epochs.load(group)
        self.share_states.delete_states_of_dead_topics()
        for group_id in self.offsets.groups():
            self.note_group(group_id)
        for pending in loaded.pending.values():
            for key, _ in pending:
                self.note_group(key.group)
        for classic in self.groups.all_of(ClassicGroup):
            self.rebalances.resume(classic)
        if loaded.records:
            log.info(
                "offsets partition %d: %d records, %d groups, %d offsets (%d of topics that are gone, %d damaged "
                "records)",
                self.partition,
                loaded.records,
                len(self.groups),
                len(loaded.offsets),
                hidden,
                loaded.damaged,
            )

    def _install_pending(self, loaded: LoadedGroups) -> None:
        for producer_id, pending in loaded.pending.items():
            for (key, _), (at, value) in pending.items():
                topic_id = value.topic_id if value.topic_id is not None else self._topics.topic_id(key.topic)
                if topic_id is not None:
                    commit = self.transactions.began(producer_id, -1, [(topic_id, key, value)])
                    self.transactions.written(commit, at)

    def give_up(self, error: ErrorCode) -> None:
        """End the shard because it moves to another broker or the broker stops: waiting clients get `error`."""
        self.offsets.close()
        self.note_commits()
        for group in self.groups.all_of(ClassicGroup):
            self.rebalances.give_up(group, error, self._clock.wall_ms())
        self.epochs.forget_all(error)
        self.groups.clear()

    # --- groups -------------------------------------------------------------------------------------------------------

    def note_group(self, group_id: str) -> Group:
        """Return the group. If it does not exist, create a group without members, which can only hold offsets."""
        group = self.groups.get(group_id)
        if group is None:
            group = ClassicGroup(group_id)
            self.groups.put(group)
        return group

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """Return the group if it is a classic group."""
        return self.groups.get_as(group_id, ClassicGroup)

    def upgraded(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group of a classic member.

        While the conversion from the classic group is being written, raise KafkaError REBALANCE_IN_PROGRESS. The member
        then rejoins, and the consumer group exists.
        """
        group = self.groups.get_as(group_id, ConsumerGroup)
        if group is None:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return group

    def join_classic(self, group_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """Handle a JoinGroup for a classic group, which is created if it does not exist."""
        group = self.note_group(group_id)
        assert isinstance(group, ClassicGroup)
        self.rebalances.join(group, request, reply)
        self.emptied(group)

    def cached_responses(self, group_id: str) -> CachedResponses | None:
        """See `GroupCoordinator.cached_responses`."""
        group = self.groups.get_as(group_id, ClassicGroup)
        if group is None or group.state is not ClassicGroupState.STABLE:
            return None
        # While the first member of another protocol joins, members of the classic group must not get its cached
        # responses.
        return group.cached_responses if self.groups.kind(group_id) is GroupKind.CLASSIC else None

    def cached_responses_for_commits(self, request: CommitRequest) -> CachedResponses | None:
        """Return the response cache for a member's commits, after a valid commit of the member. None: only the
        coordinator may accept commits."""
        group = self.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.cached_responses(request.group_id)
        is_current = request.generation == group.member(request.member_id).epoch
        return self.epochs.cached_responses(group.group_id) if is_current and self.is_quiet(group) else None

    def heard_commit(self, group: Group, member_id: str) -> None:
        """Extend the session of a classic group's member that has committed. In groups of other kinds, only heartbeats
        extend the session."""
        if isinstance(group, ClassicGroup):
            self.rebalances.heard_commit(group, member_id)

    def rebalance(self, group: Group, reason: str) -> None:
        """Start a rebalance of a classic group unless one runs already."""
        if isinstance(group, ClassicGroup):
            self.rebalances.rebalance(group, reason)

    def is_quiet(self, group: Group) -> bool:
        """Return whether no change of the group is being written."""
        return self.epochs.is_quiet(group.group_id)

    def transaction_ended(self, producer_id: int, at: int, *, committed: bool) -> None:
        """Apply a durable transaction marker at offset `at`. If the shard is still loading, the replay may already have
        applied the marker."""
        if self.state is ShardState.ACTIVE:
            self.count(self.transactions.ended(producer_id, at, committed=committed))
        else:
            self._markers_while_loading.append((producer_id, at, committed))

    def metadata_bytes(self) -> int:
        """Return how many bytes the metadata of all members takes."""
        classic = sum(group.metadata_bytes for group in self.groups.all_of(ClassicGroup))
        return classic + self.epochs.metadata_sizes.total

    def bytes_beside_metadata(self) -> int:
        """Return the approximate memory, in bytes, of groups and members besides the metadata."""
        classic = sum(group.bytes_beside_metadata for group in self.groups.all_of(ClassicGroup))
        return classic + self.epochs.metadata_sizes.beside

    def has_commit_under_way(self, group_id: str) -> bool:
        """Return whether a commit of the group is being written or belongs to an open transaction. Expiry does not
        delete such a group."""
        return self.offsets.has_commit_in_flight(group_id) or bool(self.transactions.unstable_of(group_id))

    def count(self, offsets: list[Counting]) -> None:
        """Store the offsets of a committed transaction, which then become visible to readers. Add those of deleted
        topics to the deletion records."""
        of_deleted: dict[Uuid, dict[OffsetKey, CommittedOffset]] = {}
        for topic_id, key, value in offsets:
            if self._topics.topic_name(topic_id) is None:
                of_deleted.setdefault(topic_id, {})[key] = value
                continue
            self.note_group(key.group)
            self.deleted_topics.put_live(topic_id, key, value)
            self._statistics.offset_commits += 1
        for topic_id, late in of_deleted.items():
            self.deleted_topics.keep(topic_id, late)
        self.deleted_topics.bury_released()

    def note_commits(self) -> None:
        """Add the commits of data threads to the statistics."""
        self._statistics.offset_commits += self.offsets.take_count()

    # --- changes of kind ----------------------------------------------------------------------------------------------

    def heartbeat(self, of: GroupKind, group_id: str, beat: EpochHeartbeat, reply: Reply) -> None:
        """Handle a valid heartbeat of a member with an epoch; `reply` gets the result once its changes are durable.

        The first member may turn a classic group into a group of its kind (`EpochKind.may_replace`). Raise KafkaError
        GROUP_ID_NOT_FOUND if the group is of another kind.
        """
        kind, classic = self.groups.require(group_id, of, GroupKind.CLASSIC), self.classic_group(group_id)
        if kind is None and beat.epoch != JOINS:
            raise not_found(group_id, of)
        also: Records = {}
        if classic is not None:
            if kind is GroupKind.CLASSIC and (beat.epoch != JOINS or not self.epochs.may_replace(of, classic)):
                raise is_not(group_id, of)
            if classic.protocol_type is not None:
                also[encode_group_key(group_id)] = None
            if classic.members:
                reply = partial(self._answer_upgrade, classic, reply)
        self.epochs.heartbeat(of, group_id, beat, reply, also=also)

    def _upgrade(self, draft: ConsumerGroup) -> None:
        classic = self.classic_group(draft.group_id)
        if classic is not None and classic.members:
            upgrade(classic, draft, self._topics, self._settings.consumer.max_size)
            self.rebalances.freeze(classic)
            log.info("group %s becomes a consumer group at epoch %d", draft.group_id, draft.epoch)

    def _answer_upgrade(self, classic: ClassicGroup, reply: Reply, result: object) -> None:
        """Answer a heartbeat that was to upgrade a classic group; if the upgrade failed, the classic group continues.
        """
        if self.groups.get(classic.group_id) is classic and self.groups.kind(classic.group_id) is GroupKind.CLASSIC:
            self.rebalances.thaw(classic)
        reply(result)

    def _replaced(self, group: Group) -> None:
        if isinstance(group, ClassicGroup):
            self.rebalances.give_up(group, ErrorCode.REBALANCE_IN_PROGRESS, self._clock.wall_ms())

    def _consumer_changed(self, group: ConsumerGroup) -> None:
        if self._settings.consumer.downgrades and can_downgrade(group, self._settings.max_size):
            self._downgrade_later(group.group_id, 0)

    def _downgrade_later(self, group_id: str, delay_ms: int) -> None:
        self._timers.schedule(("consumer downgrade", group_id), delay_ms, lambda: self._downgrade(group_id))

    def _downgrade(self, group_id: str) -> None:
        """Turn the group into a classic group after the last member of the consumer protocol has left."""
        if self.groups.get_as(group_id, ConsumerGroup) is None:
            return

        def change(draft: ConsumerGroup) -> Finish:
            if not can_downgrade(draft, self._settings.max_size):
                return lambda _: None
            now_ms = self._clock.wall_ms()
            classic = downgrade(draft, self._topics, now_ms)
            self.formed(classic)
            assignments = {member.member_id: member.assignment for member in classic.members.values()}
            value = group_value(classic, assignments, now_ms)
            # The following rebalance is not stored. After a restart, members do not know its generation and rejoin.
            unknown = max(draft.epoch, value.generation + 1)
            stored = encode_group_value(msgspec.structs.replace(value, generation=unknown))
            draft.successor = {encode_group_key(group_id): stored}
            return lambda _: classic

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, ClassicGroup):
                log.info("group %s becomes a classic group at generation %d", group_id, outcome.generation)
                self.groups.put(outcome)
                self.rebalances.resume(outcome)
                self.rebalances.rebalance(outcome, "the last member of the consumer protocol has left")
            elif isinstance(outcome, KafkaError) and self.groups.get_as(group_id, ConsumerGroup) is not None:
                self._downgrade_later(group_id, DOWNGRADE_RETRY_MS)

        self.epochs.submit(group_id, change, answered, of=GroupKind.CONSUMER)

    def join_emptied_streams(self, group_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """Handle a JoinGroup for a streams group. A group without members becomes a classic group and keeps its
        offsets."""

        def change(draft: StreamsGroup) -> Finish:
            if not draft.is_empty:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group_id} is a streams group, with members."
                )
            draft.successor = {}
            return lambda emptied: ClassicGroup(group_id, identity=emptied.identity)

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KafkaError):
                reply(JoinResult(ErrorCode(outcome.code), request.member_id))
                return
            log.info("group %s: the empty streams group becomes a classic group", group_id)
            self.groups.put(outcome)
            self.join_classic(group_id, request, reply)

        self.epochs.submit(group_id, change, answered, of=GroupKind.STREAMS)

    def _write_changes(self, records: list[Record], done: Callable[[ErrorCode], None]) -> None:
        self.log.write(records, lambda error, _: done(ErrorCode.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else error))

    # --- deletion -----------------------------------------------------------------------------------------------------

    def delete_group(self, group_id: str, done: Callable[[ErrorCode], None]) -> int:
        """Delete a group without members; return the number of its offsets.

        Raise KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        group.require_empty()
        if not self.is_quiet(group):
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} has members.")
        return self.drop_group(group, done)

    # --- GroupStore ---------------------------------------------------------------------------------------------------

    def store(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]) -> None:
        """Write the current generation with these assignments."""
        value = group_value(group, assignments, self._clock.wall_ms())

        def written(error: ErrorCode, _: int) -> None:
            done(ErrorCode.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else error)

        self.log.write([(encode_group_key(group.group_id), encode_group_value(value))], written)

    def formed(self, group: ClassicGroup) -> None:
        """Record the topic incarnations that members of this generation may have been assigned."""
        group.formed_at = self._removals.count
        group.formed_topics = {}
        for name in group.subscribed_topics or ():
            # ZERO: the topic does not exist. If it is created later, no member of this generation has been assigned its
            # partitions.
            group.formed_topics[name] = self._topics.topic_id(name) or Uuid.ZERO

    def _existed(self, group: ClassicGroup) -> dict[str, Uuid]:
        """Return the topic incarnations that existed when a loaded generation formed, judging by timestamps.

        Return ZERO for a topic if the order of the timestamps is uncertain. A commit without a leader epoch then causes
        one unnecessary rebalance.
        """
        ids: dict[str, Uuid] = {}
        for name in group.subscribed_topics or ():
            topic_id = ids[name] = self._topics.topic_id(name) or Uuid.ZERO
            if topic_id and self._topics.first_epoch(topic_id) > 0:
                since_ms = self._topics.living_since(topic_id)
                if since_ms is None or since_ms + CLOCKS_DIFFER_MS > group.state_timestamp_ms:
                    ids[name] = Uuid.ZERO
        return ids

    def emptied(self, group: ClassicGroup) -> None:
        """Drop a group whose clients have requested member ids but never joined."""
        if (
            group.state is ClassicGroupState.EMPTY
            and group.generation == 0
            and not group.members
            and not group.pending_joins
            and not self.has_commit_under_way(group.group_id)
            and not self.offsets.topics(group.group_id)
            and self.groups.get(group.group_id) is group
        ):
            self.groups.remove(group.group_id)
            self.rebalances.give_up(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, self._clock.wall_ms())

    # --- removal ------------------------------------------------------------------------------------------------------

    def drop_group(self, group: Group, done: Callable[[ErrorCode], None]) -> int:
        """Remove a group and its offsets and write tombstones; return the number of offsets.

        `done` gets NONE once the tombstones are durable.
        """
        keys = self._forget_offsets(group.group_id)
        records: list[Record] = [(encode_offset_key(key), None) for key in keys]
        records += self._end(group).items()
        self.log.write(records, lambda error, _: done(error))
        return len(keys)

    def _end(self, group: Group) -> Records:
        """End a group before its deletion; return the tombstones of its records."""
        if isinstance(group, EpochGroup):
            return self.epochs.drop(group)
        self.groups.remove(group.group_id)
        if isinstance(group, ClassicGroup):
            self.rebalances.give_up(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, self._clock.wall_ms())
        return {encode_group_key(group.group_id): None}

    def _forget_offsets(self, group_id: str) -> list[OffsetKey]:
        keys = [*self.offsets.keys_of_group(group_id), *self.transactions.drop_group(group_id)]
        self.offsets.drop_group(group_id)
        return [key for _, key in dict.fromkeys(keys)]

    def write_offset_tombstones(self, keys: list[OffsetKey], done: Callable[[ErrorCode], None]) -> None:
        """Write tombstones for offsets that the caller has already removed from `offsets`."""
        self.log.write([(encode_offset_key(key), None) for key in keys], lambda error, _: done(error))


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> GroupValue:
    """Return the value of the record for a group's current generation.

    As in Kafka, only each member's metadata for the selected protocol is stored.
    """
    return GroupValue(
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader_id,
        group.state_timestamp_ms if group.state_timestamp_ms >= 0 else now_ms,
        tuple(
            MemberValue(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol_name),
                assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ),
    )


def group_of_value(group_id: str, value: GroupValue) -> ClassicGroup:
    """Return the group of a stored generation: in state Stable if it has members, else Empty."""
    group = ClassicGroup(
        group_id,
        ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
        state_timestamp_ms=value.current_state_timestamp_ms,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        formed_topics=dict(value.formed_topics),
    )
    for stored in value.members:
        group.add(
            ClassicMember(
                stored.member_id,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
                stored.rebalance_timeout_ms,
                stored.session_timeout_ms,
                value.protocol_type,
                ((value.protocol or "", stored.subscription),),
                stored.assignment,
            )
        )
    if value.leader in group.members:
        group.leader_id = value.leader
    group.read_subscriptions()
    return group
