"""Offset commits, fetches and deletions of one shard. Validation is synchronous; only callers wait.

A commit names its topic by name or (OffsetCommit 10) by id. A commit by id is unambiguous: a deleted id gets
UNKNOWN_TOPIC_ID. With a commit by name, a member may still mean the incarnation that it was assigned (see franz-go's
#1426). Each generation therefore records the topic ids that existed when it formed. A commit to a name whose id has
changed since gets REBALANCE_IN_PROGRESS, and the coordinator starts a rebalance, which gives every member a new
generation. A leader epoch of the current incarnation (OffsetCommit 6) proves that the member reads the current
incarnation: the coordinator accepts such a commit, and the generation continues.

For a client outside any generation (a consumer that assigns its partitions itself) the coordinator has only the
leader epoch of its position (OffsetCommit 6). Leader epochs continue across the incarnations of a name. An epoch
that the current incarnation never had therefore belongs to an earlier one, and the commit gets FENCED_LEADER_EPOCH.
A commit without an epoch cannot be checked and is accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import ConsumerMember
from pybroker.broker.coordinators.group.figures import GroupFigures
from pybroker.broker.coordinators.group.group import ClassicGroupState, Group
from pybroker.broker.coordinators.group.holds import Holds
from pybroker.broker.coordinators.group.offsets import CommittedOffset
from pybroker.broker.coordinators.group.records import (
    OffsetKey,
    OffsetValue,
    encode_offset,
    encode_offset_key,
)
from pybroker.broker.coordinators.group.removals import Removals
from pybroker.broker.coordinators.group.shard import GroupShard
from pybroker.broker.coordinators.shards.log import TOO_LARGE
from pybroker.broker.coordinators.shards.ports import Record, Topics
from pybroker.broker.coordinators.shards.standing import COMMITS
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.requests.context import CommitGrant
from pybroker.errors import KafkaError
from pybroker.native import CommitTopic, Uuid
from pybroker.protocol.error_codes import ErrorCode


class CommitItem(msgspec.Struct, frozen=True, gc=False):
    """One partition of a commit; the topic is given by name or by id."""

    name: str | None
    topic_id: Uuid | None
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    timestamp_ms: int = -1
    """The client's own commit time (OffsetCommit 1); −1: use the broker's time."""


class CommitRequest(msgspec.Struct, frozen=True):
    """An OffsetCommit, independent of its version."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    """−1: a commit from outside the group (an administrator, a consumer that assigns its partitions itself)."""
    items: tuple[CommitItem, ...]
    retention_ms: int = -1
    knows_member_epochs: bool = False
    """OffsetCommit 9 or later: the client supports KIP-848."""
    producer: tuple[int, int] | None = None
    """(id, epoch) of the producer whose transaction contains the commit."""


Finished = Callable[[list[ErrorCode]], None]
"""Called once, with one error code per item, in order."""


class OffsetCommits:
    """Commits, fetches and deletions for the shards of this broker."""

    def __init__(
        self,
        topics: Topics,
        removals: Removals,
        *,
        holds: Holds,
        metadata_bytes_max: Callable[[], int],
        figures: GroupFigures,
        shard_of: Callable[[str], GroupShard],
    ) -> None:
        """shard_of: raises KafkaError for groups of other brokers and for groups that are still loading."""
        self._topics = topics
        self._removals = removals
        self._metadata_bytes_max = metadata_bytes_max
        self._holds = holds
        self._figures = figures
        self._shard_of = shard_of

    def commit(self, shard: GroupShard, request: CommitRequest, now_ms: int, finished: Finished) -> None:
        """Append the valid items. Call `finished` once they are durable, or immediately if no item is valid.

        Raise KafkaError for the whole request if the group's state forbids the commit.
        """
        newer = shard.newer(request.group_id)
        group: Group | ConsumerGroup | StreamsGroup
        if newer is not None:
            group = newer
            self._check_newer(shard, newer, request)
        else:
            group = self._check_classic(shard, request)
        answers: list[ErrorCode] = []
        accepted: list[tuple[int, Uuid, OffsetKey, OffsetValue]] = []
        expire_ms = None if request.retention_ms < 0 else now_ms + request.retention_ms
        stale: set[str] = set()
        for index, item in enumerate(request.items):
            outcome = self._check(group, request, item, stale)
            if isinstance(outcome, ErrorCode):
                answers.append(outcome)
                continue
            topic_id, name = outcome
            answers.append(ErrorCode.NONE)
            value = OffsetValue(
                item.offset,
                item.leader_epoch,
                item.metadata or "",
                item.timestamp_ms if item.timestamp_ms >= 0 else now_ms,
                expire_ms,
                topic_id,
            )
            accepted.append((index, topic_id, OffsetKey(group.group_id, name, item.partition), value))
        if stale and isinstance(group, Group):
            shard.rounds.rebalance(group, f"a member commits for an earlier {', '.join(sorted(stale))}")
        if not accepted:
            finished(answers)
            return
        if isinstance(group, Group):
            # Create the group only now: commits that are all refused create no group, as in Kafka, and use no memory.
            shard.groups.setdefault(group.group_id, group)
        if request.producer is not None:
            self._append_in_transaction(shard, request.producer, accepted, answers, finished)
        else:
            self._append(shard, group.life, accepted, answers, finished)

    def grant(self, shard: GroupShard, request: CommitRequest, timeout_ms: int) -> CommitGrant | None:
        """Delegate the member's next commits for the same topics to data threads; return None if that is unsafe.

        Repeat every check of the commit, because time may have passed since the coordinator accepted it.
        """
        if request.generation < 0 or request.producer is not None or not shard.log.is_still:
            return None
        newer = shard.newer(request.group_id)
        group: Group | ConsumerGroup
        try:
            if newer is None:
                group = self._check_classic(shard, request)
                if group.state is not ClassicGroupState.STABLE or request.group_id in shard.consumers:
                    return None
                answers, heard = group.answers, True
            elif isinstance(newer, ConsumerGroup):
                group = newer
                self._check_newer(shard, group, request)
                epoch = group.member(request.member_id).epoch
                if request.generation != epoch or not shard.consumers.turns.is_quiet(group.group_id):
                    return None
                # Commits do not keep members of consumer groups alive.
                answers, heard = shard.consumers.answers(group.group_id), False
            else:
                return None
        except KafkaError:
            return None
        topics: dict[Uuid, CommitTopic] = {}
        for item in request.items:
            outcome = self._check(group, request, item, set())
            if isinstance(outcome, ErrorCode):
                return None
            topic_id, name = outcome
            if item.topic_id is None and self._may_mean_another(group, request, name, topic_id):
                # The member's next commit may lack a leader epoch, and data threads do not require one.
                return None
            if topic_id not in topics:
                counted = self._topics.partition_count(topic_id)
                topics[topic_id] = CommitTopic(topic_id, name, counted, self._topics.first_epoch(topic_id))
        member_id = request.member_id
        return CommitGrant(
            shard.commits_of_members,
            list(topics.values()),
            self._metadata_bytes_max(),
            timeout_ms,
            answers.standing(member_id, COMMITS),
            lambda right: answers.keep(member_id, right, COMMITS, heard=heard),
        )

    def _check_classic(self, shard: GroupShard, request: CommitRequest) -> Group:
        group = self._group_for_commit(shard, request)
        member = group.check_commit(
            request.member_id,
            request.instance_id,
            request.generation,
            in_transaction=request.producer is not None,
        )
        if member is not None and group.is_in(ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
            shard.rounds.keep_alive(group, member)
        return group

    def _check_newer(self, shard: GroupShard, group: ConsumerGroup | StreamsGroup, request: CommitRequest) -> None:
        """Check like a classic group's `check_commit`, but by member epoch instead of generation."""
        if request.generation < 0 and not group.members:
            return
        named = bool(request.member_id) or request.instance_id is not None
        if request.producer is not None and request.generation < 0 and not named:
            return
        member = group.member(request.member_id)
        is_classic = isinstance(member, ConsumerMember) and member.is_classic
        if request.producer is None and not is_classic and not request.knows_member_epochs:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "OffsetCommit version 9 or above must be used by members of this group."
            )
        who = request.member_id, request.instance_id
        if isinstance(group, StreamsGroup):
            by_name = frozenset(
                (item.name or self._topics.topic_name(item.topic_id or Uuid.ZERO) or "", item.partition)
                for item in request.items
            )
            shard.streams.check_commit(group, who, request.generation, by_name)
            return
        partitions = frozenset(
            ((item.topic_id or self._topics.topic_id(item.name or "") or Uuid.ZERO), item.partition)
            for item in request.items
        )
        shard.consumers.check_commit(group, who, request.generation, partitions)

    def _group_for_commit(self, shard: GroupShard, request: CommitRequest) -> Group:
        group = shard.group(request.group_id)
        if group is not None:
            return group
        if request.generation >= 0:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND if request.knows_member_epochs else ErrorCode.ILLEGAL_GENERATION
            )
        return Group(request.group_id)

    def _check(
        self,
        group: Group | ConsumerGroup | StreamsGroup,
        request: CommitRequest,
        item: CommitItem,
        stale: set[str],
    ) -> ErrorCode | tuple[Uuid, str]:
        if item.topic_id is not None:
            topic_id, name = item.topic_id, self._topics.topic_name(item.topic_id)
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            assert item.name is not None
            name = item.name
            found = self._topics.topic_id(name)
            if found is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = found
            proved = self._topics.proves(topic_id, item.leader_epoch)
            if not proved and self._may_mean_another(group, request, name, topic_id):
                if isinstance(group, ConsumerGroup):
                    return ErrorCode.STALE_MEMBER_EPOCH
                stale.add(name)
                return ErrorCode.REBALANCE_IN_PROGRESS
            if item.leader_epoch >= 0 and not self._topics.owns_epoch(topic_id, item.leader_epoch):
                return ErrorCode.FENCED_LEADER_EPOCH
        if topic_id in self._holds:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not 0 <= item.partition < self._topics.partition_count(topic_id):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if item.metadata is not None and len(item.metadata) > self._metadata_bytes_max():
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return topic_id, name

    def _may_mean_another(
        self, group: Group | ConsumerGroup | StreamsGroup, request: CommitRequest, name: str, topic_id: Uuid
    ) -> bool:
        """Return whether a member that commits by name may have read an earlier incarnation of that name."""
        if isinstance(group, ConsumerGroup):
            return self._was_another(group, request.member_id, topic_id)
        return isinstance(group, Group) and request.generation >= 0 and self._changed_hands(group, name, topic_id)

    def _was_another(self, group: ConsumerGroup, member_id: str, topic_id: Uuid) -> bool:
        """Return whether the member, which holds no partition of this incarnation, may mean an earlier one of its
        name."""
        member = group.members.get(member_id)
        return (
            member is not None
            and not self._topics.had_name_alone(topic_id)
            and all(topic != topic_id for held in (member.assigned, member.revoking) for topic, _ in held)
        )

    def _changed_hands(self, group: Group, name: str, topic_id: Uuid) -> bool:
        known = group.formed_topics.get(name)
        if known == Uuid.ZERO:
            # No member was assigned the current incarnation. If the name had an earlier one, the position may belong to
            # it.
            return not self._topics.had_name_alone(topic_id)
        if known is not None:
            return known != topic_id
        return self._removals.since(name, group.formed_at)

    def give_back(
        self,
        topic_id: Uuid,
        name: str,
        kept: Sequence[Mapping[str, Any]],
        promise: Callable[[], asyncio.Future[ErrorCode]],
    ) -> dict[str, asyncio.Future[ErrorCode]]:
        """See `GroupCoordinator.give_back`. `promise`: returns a new pending future."""
        by_group: dict[str, list[tuple[OffsetKey, OffsetValue]]] = {}
        for group_id, partition, offset in map(_as_committed, kept):
            value = OffsetValue(
                offset.offset,
                offset.leader_epoch,
                offset.metadata,
                offset.commit_timestamp_ms,
                offset.expire_timestamp_ms,
                topic_id,
            )
            by_group.setdefault(group_id, []).append((OffsetKey(group_id, name, partition), value))
        stored: dict[str, asyncio.Future[ErrorCode]] = {}
        for group_id, entries in by_group.items():
            done = stored[group_id] = promise()
            try:
                shard = self._shard_of(group_id)
            except KafkaError as error:
                done.set_result(ErrorCode(error.code))
                continue
            offsets = shard.offsets
            offsets.take_back()
            lost = [one for one in entries if not offsets.is_on_disk(group_id, topic_id, one[0].partition)]
            if lost:
                self._restore(shard, group_id, topic_id, lost, partial(_settle, done))
            else:
                done.set_result(ErrorCode.NONE)
        return stored

    def _restore(
        self,
        shard: GroupShard,
        group_id: str,
        topic_id: Uuid,
        entries: Sequence[tuple[OffsetKey, OffsetValue]],
        finished: Callable[[ErrorCode], None],
    ) -> None:
        """Write back offsets from a deletion record. They are valid at once, because the record itself is durable."""
        shard.note_group(group_id)
        for key, value in entries:
            shard.offsets.put(key.group, topic_id, key.topic, key.partition, CommittedOffset.stored(value, -1))
        accepted = [(index, topic_id, key, value) for index, (key, value) in enumerate(entries)]
        answers = [ErrorCode.NONE] * len(entries)
        self._append(shard, shard.life(group_id), accepted, answers, lambda codes: finished(max(codes, key=abs)))

    def _append(
        self,
        shard: GroupShard,
        life: object | None,
        accepted: Sequence[tuple[int, Uuid, OffsetKey, OffsetValue]],
        answers: list[ErrorCode],
        finished: Finished,
    ) -> None:
        def written(error: ErrorCode, at: int) -> None:
            if error in TOO_LARGE:
                error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            if error is ErrorCode.NONE:
                self._figures.offset_commits += len(accepted)
            for position, (index, topic_id, key, value) in enumerate(accepted):
                shard.offsets.commit_ended(topic_id, key)
                answers[index] = error
                # If the group or topic was deleted meanwhile, its tombstone follows this commit in the log: ignore the
                # commit.
                if (
                    error is ErrorCode.NONE
                    and shard.life(key.group) is life
                    and self._topics.topic_name(topic_id) is not None
                ):
                    shard.offsets.put(
                        key.group,
                        topic_id,
                        key.topic,
                        key.partition,
                        CommittedOffset.stored(value, at + position),
                    )
            finished(answers)

        records: list[Record] = []
        for _, topic_id, key, value in accepted:
            shard.offsets.commit_began(topic_id, key)
            records.append(encode_offset(key, value))
        shard.log.write(records, written)

    def _append_in_transaction(
        self,
        shard: GroupShard,
        producer: tuple[int, int],
        accepted: Sequence[tuple[int, Uuid, OffsetKey, OffsetValue]],
        answers: list[ErrorCode],
        finished: Finished,
    ) -> None:
        pending = shard.transactions.began(*producer, [(topic_id, key, value) for _, topic_id, key, value in accepted])

        def written(error: ErrorCode, at: int) -> None:
            if error is ErrorCode.NONE:
                shard.count(shard.transactions.written(pending, at))
            else:
                shard.transactions.failed(pending)
            for index, _, _, _ in accepted:
                answers[index] = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in TOO_LARGE else error
            finished(answers)

        records = [encode_offset(key, value) for _, _, key, value in accepted]
        shard.log.write_in_transaction(producer, records, written)

    def delete(
        self,
        shard: GroupShard,
        group_id: str,
        wanted: Sequence[tuple[str, int]],
        finished: Finished,
    ) -> None:
        """Handle an OffsetDelete (KIP-496) for topics that no member subscribes to.

        Raise KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        is_subscribed_to = _subscriptions(shard, group_id)
        answers: list[ErrorCode] = []
        doomed: list[tuple[Uuid, OffsetKey]] = []
        for name, partition in wanted:
            topic_id = self._topics.topic_id(name)
            if topic_id is None or not 0 <= partition < self._topics.partition_count(topic_id):
                answers.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif is_subscribed_to(name):
                answers.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            else:
                answers.append(ErrorCode.NONE)
                if shard.offsets.get(group_id, topic_id, partition) is not None:
                    doomed.append((topic_id, OffsetKey(group_id, name, partition)))
        if not doomed:
            finished(answers)
            return

        def buried(error: ErrorCode, at: int) -> None:
            for position, (topic_id, key) in enumerate(doomed):
                known = shard.offsets.get(key.group, topic_id, key.partition)
                # Keep offsets that were committed after the tombstone.
                if error is ErrorCode.NONE and known is not None and known.log_offset < at + position:
                    shard.offsets.remove(key.group, topic_id, key.partition)
                    self._figures.offset_deletions += 1
            finished([answer if answer is not ErrorCode.NONE else error for answer in answers])

        # Write the tombstone first: a deleted offset must not return after a crash, and must stay if the write fails.
        shard.log.write([(encode_offset_key(key), None) for _, key in doomed], buried)


def _subscriptions(shard: GroupShard, group_id: str) -> Callable[[str], bool]:
    """Return a predicate: whether members of the group subscribe to a topic.

    Raise KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
    """
    newer = shard.newer(group_id)
    if newer is not None:
        return newer.is_subscribed_to
    group = shard.group(group_id)
    if group is None or group.state is ClassicGroupState.DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if group.state is ClassicGroupState.EMPTY:
        return lambda _: False
    if not group.uses_consumer_protocol:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    return group.is_subscribed_to


def _as_committed(kept: Mapping[str, Any]) -> tuple[str, int, CommittedOffset]:
    fields = {name: value for name, value in kept.items() if name not in ("group", "partition")}
    return kept["group"], kept["partition"], CommittedOffset(**fields)


def _settle(done: asyncio.Future[ErrorCode], code: ErrorCode) -> None:
    if not done.done():
        done.set_result(code)
