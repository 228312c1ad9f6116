"""Offset commits, fetches and deletions of one shard. Validation is synchronous; callers wait for the write only.

A commit names its topic by id (OffsetCommit 10) or by name (older versions). A commit by id is unambiguous: the id of a
deleted topic gets UNKNOWN_TOPIC_ID. A commit by name may belong to an earlier incarnation, whose partitions the member
was assigned (see franz-go's #1426). Each generation therefore records the topic ids that existed when it formed. A
commit to a name whose id has changed since gets REBALANCE_IN_PROGRESS, and the coordinator starts a rebalance, which
gives every member a new generation. A leader epoch of the current incarnation (OffsetCommit 6) proves that the member
reads the current incarnation: the coordinator accepts such a commit, and the generation continues.

A consumer that assigns its partitions itself has no generation. For such a consumer, the coordinator can only check the
leader epoch in the commit (OffsetCommit 6). Leader epochs continue across the incarnations of a name. If the current
incarnation never had this epoch, the commit belongs to an earlier incarnation and gets FENCED_LEADER_EPOCH. The
coordinator accepts a commit without an epoch unchecked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pybroker.broker.coordinators.group.classic_group import ClassicGroup
from pybroker.broker.coordinators.group.commit_fence import CommitFence
from pybroker.broker.coordinators.group.offsets import CommittedOffset, WrittenCommit, offset_value
from pybroker.broker.coordinators.group.records import (
    OffsetKey,
    OffsetValue,
    encode_offset,
    encode_offset_key,
)
from pybroker.broker.coordinators.group.shard import GroupShard
from pybroker.broker.coordinators.group_base.group_registry import Group, GroupKind, not_found
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.group_base.requests import CommitItem, CommitRequest
from pybroker.broker.coordinators.shards.cached_responses import COMMITS
from pybroker.broker.coordinators.shards.interfaces import Record, Topics
from pybroker.broker.coordinators.shards.log import TOO_LARGE
from pybroker.broker.requests.context import CommitGrant
from pybroker.errors import KafkaError
from pybroker.native import CommitTopic, Uuid
from pybroker.protocol.error_codes import ErrorCode

Finished = Callable[[list[ErrorCode]], None]
"""Called once, with one error code per item, in order."""


class OffsetCommits:
    """Offset commits, fetches and deletions for the shards of this broker."""

    def __init__(
        self,
        topics: Topics,
        removals: Removals,
        *,
        fence: CommitFence,
        metadata_bytes_max: Callable[[], int],
        statistics: GroupStatistics,
        shard_of: Callable[[str], GroupShard],
    ) -> None:
        """shard_of: raises KafkaError for groups that other brokers coordinate and for groups that are still loading.
        """
        self._topics = topics
        self._removals = removals
        self._metadata_bytes_max = metadata_bytes_max
        self._fence = fence
        self._statistics = statistics
        self._shard_of = shard_of

    def commit(self, shard: GroupShard, request: CommitRequest, now_ms: int, finished: Finished) -> None:
        """Append the valid items. Call `finished` once they are durable, or immediately if no item is valid.

        Raise KafkaError for the whole request if the group's state forbids the commit.
        """
        group = self._group_for_commit(shard, request)
        is_protected = shard.deleted_topics.is_protected
        answers: list[ErrorCode] = []
        accepted: list[tuple[int, Uuid, OffsetKey, OffsetValue]] = []
        expire_ms = None if request.retention_ms < 0 else now_ms + request.retention_ms
        for index, item in enumerate(request.items):
            outcome = self._check(group, request, item)
            if not isinstance(outcome, ErrorCode) and is_protected(group.group_id, outcome[1], item.partition):
                outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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
        if ErrorCode.REBALANCE_IN_PROGRESS in answers:
            pairs = zip(request.items, answers, strict=True)
            stale = {item.name or "" for item, answer in pairs if answer is ErrorCode.REBALANCE_IN_PROGRESS}
            shard.rebalance(group, f"a member commits for an earlier {', '.join(sorted(stale))}")
        if not accepted:
            finished(answers)
            return
        if shard.groups.get(group.group_id) is None:
            # Create the group only now. As in Kafka, a request whose items are all refused creates no group and uses no
            # memory.
            shard.groups.put(group)
        if request.producer is not None:
            self._append_in_transaction(shard, request.producer, accepted, answers, finished)
        else:
            self._append(shard, group, accepted, answers, finished)

    def grant(self, shard: GroupShard, request: CommitRequest, timeout_ms: int) -> CommitGrant | None:
        """Delegate the member's next commits for the same topics to data threads; return None if the coordinator must
        check them.

        Repeat every check of the commit, because the group may have changed since the coordinator accepted it.
        """
        if request.generation < 0 or request.producer is not None or not shard.log.is_still:
            return None
        try:
            group = self._group_for_commit(shard, request)
        except KafkaError:
            return None
        answers = shard.cached_responses_for_commits(request)
        if answers is None:
            return None
        topics: dict[Uuid, CommitTopic] = {}
        for item in request.items:
            outcome = self._check(group, request, item)
            if isinstance(outcome, ErrorCode):
                return None
            topic_id, name = outcome
            if shard.deleted_topics.is_protected(group.group_id, name):
                return None
            if item.topic_id is None and self._incarnation_error(group, request, name, topic_id) is not None:
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
            answers.cached(member_id, COMMITS),
            # In groups with epochs, a commit does not extend the member's session.
            lambda lease: answers.keep(member_id, lease, COMMITS, heard=group.kind is GroupKind.CLASSIC),
        )

    def _group_for_commit(self, shard: GroupShard, request: CommitRequest) -> Group:
        """Return the group, or a new group if it does not exist. Raise KafkaError if the group's state forbids the
        commit."""
        group = shard.groups.get(request.group_id)
        if group is None:
            # A share group refuses commits, even while the write of its first member is in progress.
            shard.groups.require(request.group_id, GroupKind.CONSUMER, GroupKind.CLASSIC, GroupKind.STREAMS)
            if request.generation >= 0:
                raise KafkaError(
                    ErrorCode.GROUP_ID_NOT_FOUND if request.knows_member_epochs else ErrorCode.ILLEGAL_GENERATION
                )
            group = ClassicGroup(request.group_id)
        group.check_commit(request, self._topics)
        shard.heard_commit(group, request.member_id)
        return group

    def _check(self, group: Group, request: CommitRequest, item: CommitItem) -> ErrorCode | tuple[Uuid, str]:
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
            if not self._topics.proves(topic_id, item.leader_epoch):
                error = self._incarnation_error(group, request, name, topic_id)
                if error is not None:
                    return error
            if item.leader_epoch >= 0 and not self._topics.owns_epoch(topic_id, item.leader_epoch):
                return ErrorCode.FENCED_LEADER_EPOCH
        if topic_id in self._fence:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not 0 <= item.partition < self._topics.partition_count(topic_id):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if item.metadata is not None and len(item.metadata) > self._metadata_bytes_max():
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return topic_id, name

    def _incarnation_error(self, group: Group, request: CommitRequest, name: str, topic_id: Uuid) -> ErrorCode | None:
        return group.incarnation_error(request, name, topic_id, self._topics, self._removals)

    def give_back(
        self,
        topic_id: Uuid,
        name: str,
        kept: Sequence[Mapping[str, Any]],
        promise: Callable[[], asyncio.Future[ErrorCode]],
    ) -> dict[str, asyncio.Future[ErrorCode]]:
        """See `GroupCoordinator.give_back`. `promise` returns a new pending future."""
        by_group: dict[str, list[tuple[OffsetKey, OffsetValue]]] = {}
        for group_id, partition, offset in map(_as_committed, kept):
            value = offset_value(topic_id, offset)
            by_group.setdefault(group_id, []).append((OffsetKey(group_id, name, partition), value))
        stored: dict[str, asyncio.Future[ErrorCode]] = {}
        for group_id, entries in by_group.items():
            done = stored[group_id] = promise()
            try:
                shard = self._shard_of(group_id)
            except KafkaError as error:
                done.set_result(ErrorCode(error.code))
                continue
            shard.offsets.revoke_delegated()
            shard.deleted_topics.rename_offsets(group_id, topic_id, name)
            lost = [entry for entry in entries if self._is_lost(shard, topic_id, *entry)]
            # If these offsets were written now, their records would follow those of an open transaction, which are
            # newer: the deletion record keeps the offsets until the transaction has ended.
            unstable = {key.partition for of, key in shard.transactions.unstable_of(group_id) if of == topic_id}
            free = [entry for entry in lost if entry[0].partition not in unstable]
            _show(shard, group_id, topic_id, lost)
            if len(free) < len(lost):
                done.set_result(ErrorCode.CONCURRENT_TRANSACTIONS)
            elif not lost:
                done.set_result(ErrorCode.NONE)
            if free:
                self._write_back(shard, group_id, topic_id, free, partial(_settle, done))
        return stored

    def _is_lost(self, shard: GroupShard, topic_id: Uuid, key: OffsetKey, value: OffsetValue) -> bool:
        """Return whether an offset from a deletion record has to be restored."""
        known = shard.offsets.get(key.group, topic_id, key.partition)
        if known is None or known.log_offset < 0:
            return True
        # Of a truncated topic, the record may get a later offset after an earlier one was restored to the successor.
        # Both are positions in the old log, which ends where the successor begins.
        return known.offset < value.offset <= self._topics.start_offset(topic_id, key.partition)

    def _write_back(
        self,
        shard: GroupShard,
        group_id: str,
        topic_id: Uuid,
        entries: Sequence[tuple[OffsetKey, OffsetValue]],
        finished: Callable[[ErrorCode], None],
    ) -> None:
        group = shard.note_group(group_id)
        accepted = [(index, topic_id, key, value) for index, (key, value) in enumerate(entries)]
        answers = [ErrorCode.NONE] * len(entries)
        self._append(shard, group, accepted, answers, lambda codes: finished(max(codes, key=abs)))

    def _append(
        self,
        shard: GroupShard,
        group: Group,
        accepted: Sequence[tuple[int, Uuid, OffsetKey, OffsetValue]],
        answers: list[ErrorCode],
        finished: Finished,
    ) -> None:
        identity = group.identity

        def written(error: ErrorCode, at: int) -> None:
            if error in TOO_LARGE:
                error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            if error is ErrorCode.NONE:
                self._statistics.offset_commits += len(accepted)
            for position, (index, topic_id, key, value) in enumerate(accepted):
                commit = begun[position]
                shard.offsets.commit_ended(topic_id, key, commit)
                answers[index] = error
                if error is ErrorCode.NONE and commit.topic_removed:
                    # The deletion record may lack this commit, and an undelete would not restore it.
                    answers[index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                # If the group was deleted during the write, its tombstone follows this commit in the log. Drop the
                # commit.
                now = shard.groups.get(key.group)
                if error is ErrorCode.NONE and now is not None and now.identity is identity:
                    shard.offsets.put(
                        key.group,
                        topic_id,
                        key.topic,
                        key.partition,
                        CommittedOffset.stored(value, at + position),
                    )
            finished(answers)

        records: list[Record] = []
        begun: list[WrittenCommit] = []
        for _, topic_id, key, value in accepted:
            begun.append(shard.offsets.commit_began(topic_id, key))
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
                shard.deleted_topics.bury_released()
            for index, *_ in accepted:
                answers[index] = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in TOO_LARGE else error
            finished(answers)

        records = [encode_offset(key, value) for _, _, key, value in accepted]
        shard.log.write_in_transaction(producer, records, written)

    def delete(
        self,
        shard: GroupShard,
        group_id: str,
        requested: Sequence[tuple[str, int]],
        finished: Finished,
    ) -> None:
        """Handle an OffsetDelete (KIP-496) for topics that no member subscribes to.

        Raise KafkaError GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        group = shard.groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        group.check_offset_deletion()
        answers: list[ErrorCode] = []
        doomed: list[tuple[Uuid, OffsetKey]] = []
        for name, partition in requested:
            topic_id = self._topics.topic_id(name)
            if topic_id is None or not 0 <= partition < self._topics.partition_count(topic_id):
                answers.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif group.is_subscribed_to(name):
                answers.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            else:
                answers.append(ErrorCode.NONE)
                if shard.offsets.get(group_id, topic_id, partition) is not None:
                    doomed.append((topic_id, OffsetKey(group_id, name, partition)))
        if not doomed:
            finished(answers)
            return

        def written(error: ErrorCode, at: int) -> None:
            for position, (topic_id, key) in enumerate(doomed):
                known = shard.offsets.get(key.group, topic_id, key.partition)
                # Keep offsets that were committed after the tombstone.
                if error is ErrorCode.NONE and known is not None and known.log_offset < at + position:
                    shard.offsets.remove(key.group, topic_id, key.partition)
                    self._statistics.offset_deletions += 1
            finished([answer if answer is not ErrorCode.NONE else error for answer in answers])

        # Remove the offset from memory only after the tombstone is written. Otherwise the offset could return after a
        # crash, or be missing from memory if the write fails.
        shard.log.write([(encode_offset_key(key), None) for _, key in doomed], written)


def _show(
    shard: GroupShard, group_id: str, topic_id: Uuid, entries: Sequence[tuple[OffsetKey, OffsetValue]]
) -> None:
    """Make offsets from a deletion record visible before they are written: the deletion record is durable."""
    if entries:
        shard.note_group(group_id)
    for key, value in entries:
        shard.offsets.put(key.group, topic_id, key.topic, key.partition, CommittedOffset.stored(value, -1))


def _as_committed(kept: Mapping[str, Any]) -> tuple[str, int, CommittedOffset]:
    fields = {name: value for name, value in kept.items() if name not in ("group", "partition")}
    return kept["group"], kept["partition"], CommittedOffset(**fields)


def _settle(done: asyncio.Future[ErrorCode], code: ErrorCode) -> None:
    if not done.done():
        done.set_result(code)
