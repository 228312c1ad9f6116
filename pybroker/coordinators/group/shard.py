"""One shard of the group coordinator: the groups whose id hashes to one partition of the offsets topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pybroker.clock import Clock
from pybroker.coordinators.group.figures import GroupFigures
from pybroker.coordinators.group.group import Group, GroupState, Member
from pybroker.coordinators.group.loading import Loaded
from pybroker.coordinators.group.offsets import CommittedOffset, Offsets
from pybroker.coordinators.group.ports import GroupSettings
from pybroker.coordinators.group.rebalance import Rounds
from pybroker.coordinators.group.records import (
    GroupValue,
    MemberValue,
    OffsetKey,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
)
from pybroker.coordinators.group.removals import Removals
from pybroker.coordinators.group.transactional_offsets import Counting, TransactionalOffsets
from pybroker.coordinators.shards.log import TOO_LARGE, ShardLog
from pybroker.coordinators.shards.ports import Topics
from pybroker.coordinators.shards.shard import Shard, ShardState
from pybroker.coordinators.shards.timers import TimerWheel
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class GroupShard(Shard[Loaded]):
    """The groups of one offsets partition. Implements the rounds' GroupStore."""

    def __init__(
        self,
        shard_log: ShardLog,
        *,
        clock: Clock,
        topics: Topics,
        removals: Removals,
        settings: GroupSettings,
        timers: TimerWheel,
        figures: GroupFigures,
    ) -> None:
        super().__init__(shard_log)
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.transactions = TransactionalOffsets()
        self._markers_while_loading: list[tuple[int, int, bool]] = []
        self.rounds = Rounds(settings, clock, timers, self, figures)
        self._clock = clock
        self._topics = topics
        self._removals = removals
        self._figures = figures
        self._removals_before = removals.count
        """Removals up to here say nothing about groups that are loaded: their generations may have formed since,
        elsewhere.
        """

    # --- what `Shards` asks -------------------------------------------------------------------------------------------

    def replay(self) -> Loaded:
        """Takes the records of the partition."""
        return Loaded()

    def install(self, loaded: Loaded) -> None:
        """Takes over groups and offsets. Offsets of incarnations that are gone stay hidden.

        They are not buried here: that a topic is not known is no proof that it was deleted, and a commit to a new
        incarnation of the name replaces the record anyway.
        """
        hidden = 0
        for key, (at, value) in loaded.offsets.items():
            # Kafka's values before version 4 have no id; they belong to whatever the name means now.
            topic_id = value.topic_id if value.topic_id is not None else self._topics.topic_id(key.topic)
            if topic_id is None or self._topics.topic_name(topic_id) is None:
                hidden += 1
                continue
            self.offsets.put(key.group, topic_id, key.topic, key.partition, CommittedOffset.stored(value, at))
        self._install_pending(loaded)
        for group_id, stored in loaded.groups.items():
            self.groups[group_id] = group = group_of_value(group_id, stored)
            group.formed_at = self._removals_before
        for group_id in self.offsets.groups():
            self.ensure_group(group_id)
        for pending in loaded.pending.values():
            for key in pending:
                self.ensure_group(key.group)
        for group in self.groups.values():
            self.rounds.resume(group)
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

    def _install_pending(self, loaded: Loaded) -> None:
        for producer_id, pending in loaded.pending.items():
            for key, (at, value) in pending.items():
                topic_id = value.topic_id if value.topic_id is not None else self._topics.topic_id(key.topic)
                if topic_id is not None and self._topics.topic_name(topic_id) is not None:
                    commit = self.transactions.began(producer_id, -1, [(topic_id, key, value)])
                    self.transactions.written(commit, at)
        for producer_id, at, committed in self._markers_while_loading:
            self.count(self.transactions.ended(producer_id, at, committed=committed))
        self._markers_while_loading.clear()

    def give_up(self, error: ErrorCode) -> None:
        """The shard moves away or the broker stops: whoever waits gets `error`."""
        for group in self.groups.values():
            self.rounds.give_up(group, error, self._clock.wall_ms())
        self.groups.clear()

    # --- groups -------------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group | None:
        """A group that exists."""
        return self.groups.get(group_id)

    def ensure_group(self, group_id: str) -> Group:
        """The group, made if it does not exist."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def transaction_ended(self, producer_id: int, at: int, *, committed: bool) -> None:
        """A marker is on disk at offset `at`. While the shard is being loaded, it may or may not be among what is read.
        """
        if self.state is ShardState.ACTIVE:
            self.count(self.transactions.ended(producer_id, at, committed=committed))
        else:
            self._markers_while_loading.append((producer_id, at, committed))

    def has_commit_under_way(self, group_id: str) -> bool:
        """A commit is being written, or its transaction has not ended: the group must not be taken for unused."""
        return self.offsets.has_commit_in_flight(group_id) or bool(self.transactions.unstable_of(group_id))

    def count(self, offsets: list[Counting]) -> None:
        """Offsets whose transaction is committed."""
        for topic_id, key, value in offsets:
            if self._topics.topic_name(topic_id) is not None:
                self.ensure_group(key.group)
                self.offsets.put(key.group, topic_id, key.topic, key.partition, value)
                self._figures.offset_commits += 1

    # --- GroupStore ---------------------------------------------------------------------------------------------------

    def store(self, group: Group, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]) -> None:
        """Writes the present generation with these assignments."""
        value = group_value(group, assignments, self._clock.wall_ms())

        def written(error: ErrorCode, _: int) -> None:
            done(ErrorCode.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else error)

        self.log.write([(encode_group_key(group.group_id), encode_group_value(value))], written)

    def formed(self, group: Group) -> None:
        """Notes which incarnations the members of this generation can have seen."""
        group.formed_at = self._removals.count
        group.formed_topics = {}
        for name in group.subscribed_topics or ():
            # ZERO: the name meant nothing, so nobody in this generation was assigned a later incarnation of it.
            group.formed_topics[name] = self._topics.topic_id(name) or Uuid.ZERO

    def emptied(self, group: Group) -> None:
        """Forgets a group that was only asked for a member id."""
        if (
            group.state is GroupState.EMPTY
            and group.generation == 0
            and not group.members
            and not group.pending_joins
            and not self.offsets.topics(group.group_id)
            and not self.has_commit_under_way(group.group_id)
            and self.groups.get(group.group_id) is group
        ):
            del self.groups[group.group_id]
            self.rounds.give_up(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, self._clock.wall_ms())

    # --- removal ------------------------------------------------------------------------------------------------------

    def drop_group(self, group: Group, done: Callable[[ErrorCode], None]) -> int:
        """Forgets a group and its offsets, and buries both; `done` gets NONE when that is on disk. The number of
        offsets.
        """
        keys = self.offsets.keys_of_group(group.group_id)
        keys = list(dict.fromkeys([*keys, *self.transactions.drop_group(group.group_id)]))
        self.offsets.drop_group(group.group_id)
        self.groups.pop(group.group_id, None)
        self.rounds.give_up(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, self._clock.wall_ms())
        records: list[tuple[bytes | None, bytes | None]] = [(encode_offset_key(key), None) for _, key in keys]
        records.append((encode_group_key(group.group_id), None))
        self.log.write(records, lambda error, _: done(error))
        return len(keys)

    def bury_offsets(self, keys: list[OffsetKey], done: Callable[[ErrorCode], None]) -> None:
        """Writes tombstones for offsets that were taken out of `offsets` by the caller."""
        self.log.write([(encode_offset_key(key), None) for key in keys], lambda error, _: done(error))


def group_value(group: Group, assignments: Mapping[str, bytes], now_ms: int) -> GroupValue:
    """The stored form of a group's present generation. Kafka keeps of each member only its metadata for the chosen
    protocol.
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
        group.formed_topics,
    )


def group_of_value(group_id: str, value: GroupValue) -> Group:
    """A group as it was stored: stable if it has members, else empty."""
    group = Group(
        group_id,
        GroupState.STABLE if value.members else GroupState.EMPTY,
        state_timestamp_ms=value.current_state_timestamp_ms,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        formed_topics=dict(value.formed_topics),
    )
    for stored in value.members:
        group.add(
            Member(
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
