"""Committed offsets of one offsets partition, in memory: group → topic id → partition.

Keyed by topic id, so that an offset can only ever be read for the incarnation it was committed for. The name is kept
beside the id because the stored key has it. Only what is on disk gets in here: `put` is called when the append has
completed. What data threads have committed since (`shards.standing`) is taken over before anything is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from pybroker.broker.coordinators.group.records import OffsetKey, OffsetValue
from pybroker.native import MemberCommit, Uuid


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """One committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Set by clients of OffsetCommit 2–4 that ask for a retention of their own."""
    log_offset: int = -1
    """Where its record is in the offsets partition: of two commits the later record counts, in whatever order they
    complete.
    """

    @classmethod
    def stored(cls, value: OffsetValue, at: int) -> CommittedOffset:
        """As its record says that lies at offset `at` of the offsets partition (-1: not written yet)."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
            at,
        )


class TopicOffsets(msgspec.Struct):
    """Offsets of one group in one topic incarnation."""

    name: str
    partitions: dict[int, CommittedOffset] = {}


class MembersCommits(Protocol):
    """What data threads commit (`native.ShardCommits`)."""

    def take_all_back(self) -> None:
        """No right that was given before stands any more, and what was committed under them is in the log."""
        ...

    def close(self) -> None:
        """The same; nor does one that is given later."""
        ...

    def take(self) -> Sequence[MemberCommit]:
        """What is on disk since this was called last."""
        ...

    def take_count(self) -> int:
        """How many offsets that were."""
        ...

    def in_flight(self) -> Sequence[MemberCommit]:
        """What is on its way to disk."""
        ...

    def drop_group(self, group: str) -> None:
        """The group is gone with all that it has committed, also what is on its way."""
        ...

    def drop_topic(self, topic_id: Uuid) -> None:
        """The same for a topic."""
        ...


class Offsets:
    """All committed offsets of one shard, and the commits on their way to disk."""

    def __init__(self, of_members: MembersCommits) -> None:
        self._of_members = of_members
        self._groups: dict[str, dict[Uuid, TopicOffsets]] = {}
        self._groups_by_topic: dict[Uuid, set[str]] = {}
        self._in_flight: dict[tuple[Uuid, OffsetKey], int] = {}

    def take_back(self) -> None:
        """Data threads commit no more: until this step of the loop is over, nobody else does."""
        self._of_members.take_all_back()

    def close(self) -> None:
        """Data threads commit no more here."""
        self._of_members.close()

    def take_count(self) -> int:
        """How many offsets data threads have committed since this was called last."""
        return self._of_members.take_count()

    def _take_over(self) -> None:
        for one in self._of_members.take():
            value = CommittedOffset(
                one.offset, one.leader_epoch, one.metadata, one.timestamp_ms, None, one.log_offset
            )
            self.put(one.group, one.topic_id, one.topic, one.partition, value)

    def _under_way(self) -> Iterator[tuple[Uuid, OffsetKey]]:
        yield from self._in_flight
        for one in self._of_members.in_flight():
            yield one.topic_id, OffsetKey(one.group, one.topic, one.partition)

    def __len__(self) -> int:
        self._take_over()
        return sum(len(t.partitions) for topics in self._groups.values() for t in topics.values())

    def get(self, group: str, topic_id: Uuid, partition: int) -> CommittedOffset | None:
        """The committed offset, if there is one."""
        self._take_over()
        topic = self._groups.get(group, {}).get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def is_on_disk(self, group: str, topic_id: Uuid, partition: int) -> bool:
        """Whether there is one whose record is written."""
        known = self.get(group, topic_id, partition)
        return known is not None and known.log_offset >= 0

    def topics(self, group: str) -> dict[Uuid, TopicOffsets]:
        """Everything a group has committed. Not to be changed by the caller."""
        self._take_over()
        return self._groups.get(group, {})

    def groups(self) -> list[str]:
        """Groups that have offsets."""
        self._take_over()
        return list(self._groups)

    def put(self, group: str, topic_id: Uuid, name: str, partition: int, value: CommittedOffset) -> None:
        """Takes a commit that is on disk; one whose record is older than what is known is passed over."""
        topic = self._groups.setdefault(group, {}).get(topic_id)
        if topic is None:
            topic = self._groups[group][topic_id] = TopicOffsets(name)
            self._groups_by_topic.setdefault(topic_id, set()).add(group)
        known = topic.partitions.get(partition)
        if known is None or known.log_offset <= value.log_offset:
            topic.partitions[partition] = value

    def remove(self, group: str, topic_id: Uuid, partition: int) -> None:
        """Forgets one offset."""
        self._take_over()
        topics = self._groups.get(group)
        topic = None if topics is None else topics.get(topic_id)
        if topics is None or topic is None:
            return
        topic.partitions.pop(partition, None)
        if not topic.partitions:
            del topics[topic_id]
            self._unlink(topic_id, group)
            if not topics:
                del self._groups[group]

    def keys_of_group(self, group: str) -> list[tuple[Uuid, OffsetKey]]:
        """What has to be buried when a group is deleted: committed offsets, and commits that are still being written.
        """
        self.take_back()
        # In this order: what ends between the two is among the offsets.
        keys = dict.fromkeys(pair for pair in self._under_way() if pair[1].group == group)
        self._take_over()
        for topic_id, topic in self._groups.get(group, {}).items():
            keys.update(((topic_id, OffsetKey(group, topic.name, p)), None) for p in topic.partitions)
        return list(keys)

    def keys_of_topic(self, topic_id: Uuid) -> list[OffsetKey]:
        """What has to be buried when a topic is deleted: committed offsets, and commits that are still being written.
        """
        self.take_back()
        keys = dict.fromkeys(key for in_topic, key in self._under_way() if in_topic == topic_id)
        self._take_over()
        for group in self._groups_by_topic.get(topic_id, ()):
            topic = self._groups[group][topic_id]
            keys.update((OffsetKey(group, topic.name, partition), None) for partition in topic.partitions)
        return list(keys)

    def of_topic(self, topic_id: Uuid) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """(group, name, partition, offset) of one incarnation; a deletion record keeps them for undelete."""
        self._take_over()
        for group in self._groups_by_topic.get(topic_id, ()):
            topic = self._groups[group][topic_id]
            for partition, value in topic.partitions.items():
                yield group, topic.name, partition, value

    def drop_topic(self, topic_id: Uuid) -> None:
        """Forgets all offsets of an incarnation."""
        self._take_over()
        self._of_members.drop_topic(topic_id)
        for group in self._groups_by_topic.pop(topic_id, set()):
            topics = self._groups[group]
            del topics[topic_id]
            if not topics:
                del self._groups[group]

    def drop_group(self, group: str) -> None:
        """Forgets all offsets of a group."""
        self._take_over()
        self._of_members.drop_group(group)
        for topic_id in self._groups.pop(group, {}):
            self._unlink(topic_id, group)

    def commit_began(self, topic_id: Uuid, key: OffsetKey) -> None:
        """A record for `key` is on its way to disk."""
        self._in_flight[topic_id, key] = self._in_flight.get((topic_id, key), 0) + 1

    def commit_ended(self, topic_id: Uuid, key: OffsetKey) -> None:
        """That record is on disk, or failed."""
        left = self._in_flight[topic_id, key] - 1
        if left:
            self._in_flight[topic_id, key] = left
        else:
            del self._in_flight[topic_id, key]

    def topic_in_flight(self, topic_id: Uuid) -> bool:
        """A commit for this topic is on its way."""
        return any(in_topic == topic_id for in_topic, _ in self._under_way())

    def has_commit_in_flight(self, group: str) -> bool:
        """A commit of this group is on its way: the group must not be taken for unused."""
        return any(key.group == group for _, key in self._under_way())

    def _unlink(self, topic_id: Uuid, group: str) -> None:
        groups = self._groups_by_topic.get(topic_id)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._groups_by_topic[topic_id]
