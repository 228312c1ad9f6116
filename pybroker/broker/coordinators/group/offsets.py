"""Committed offsets of one offsets partition, in memory: group → topic id → partition.

The topic id is the key, because an offset is valid only for the incarnation that it was committed for. The name is
stored as well, because the record's key contains it. Only durable offsets are stored here: callers use `put` once an
append has completed. Native data threads answer some OffsetCommit requests themselves (`shards.cached_responses`);
every read of this store first adds their offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.coordinators.group.records import OffsetKey, OffsetValue
from pybroker.native import MemberCommit, Uuid


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Expiry time from an OffsetCommit 2–4; None: the broker's retention applies."""
    log_offset: int = -1
    """Offset of the commit's record in the offsets partition. Of two commits, the commit with the later record is
    valid, even if its append completes first."""

    @classmethod
    def stored(cls, value: OffsetValue, at: int) -> CommittedOffset:
        """Return the committed offset of a record. `at`: the offset of the record in the offsets partition (-1: not
        written yet)."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
            at,
        )


KeepOffsetsOf = Callable[[Uuid, Sequence[Mapping[str, Any]], Callable[[bool], object]], Collection[tuple[str, int]]]
"""Called with the committed offsets of a topic that no longer exists, in the form of `kept_offset`. Returns the group
and partition of each offset that only the offsets topic has. The last argument is called, later, when the deletion
record has them; it gets whether the topic is live again. Must be quick: it blocks the event loop."""


def kept_offset(group: str, partition: int, offset: CommittedOffset) -> Mapping[str, Any]:
    """Return a committed offset in the form of a deletion record."""
    return {"group": group, "partition": partition, **msgspec.structs.asdict(offset)}


def offset_value(topic_id: Uuid, offset: CommittedOffset) -> OffsetValue:
    """Return the value of a committed offset's record."""
    return OffsetValue(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        offset.commit_timestamp_ms,
        offset.expire_timestamp_ms,
        topic_id,
    )


class TopicOffsets(msgspec.Struct):
    """Offsets of one group in one topic incarnation."""

    name: str
    partitions: dict[int, CommittedOffset] = {}


class WrittenCommit(msgspec.Struct, eq=False):
    """A commit that is being written."""

    topic_removed: bool = False
    """Whether the topic was removed during the write. The deletion record may lack the commit, so the commit must not
    succeed."""


class MembersCommits(Protocol):
    """The delegated commits of data threads (`native.ShardCommits`)."""

    def revoke_all(self) -> None:
        """Revoke all leases. Commits made under these leases are in the log when this method returns."""
        ...

    def close(self) -> None:
        """Revoke every lease and refuse new ones."""
        ...

    def take(self) -> Sequence[MemberCommit]:
        """Return the commits that became durable since the last call of `take`."""
        ...

    def take_count(self) -> int:
        """Return the number of offsets committed since the last call of `take_count`."""
        ...

    def in_flight(self) -> Sequence[MemberCommit]:
        """Return the commits that are being written."""
        ...

    def drop_group(self, group: str) -> None:
        """Forget all commits of a deleted group, even commits that are being written."""
        ...

    def drop_topic(self, topic_id: Uuid) -> None:
        """Forget all commits for a deleted topic. Commits that are being written fail."""
        ...


class Offsets:
    """All committed offsets of one shard, and the commits being written."""

    def __init__(self, of_members: MembersCommits) -> None:
        self._of_members = of_members
        self._groups: dict[str, dict[Uuid, TopicOffsets]] = {}
        self._groups_by_topic: dict[Uuid, set[str]] = {}
        self._in_flight: dict[tuple[Uuid, OffsetKey], list[WrittenCommit]] = {}

    def revoke_delegated(self) -> None:
        """Revoke delegated commits. Until the current step of the event loop ends, only the coordinator commits."""
        self._of_members.revoke_all()

    def close(self) -> None:
        """Revoke delegated commits permanently."""
        self._of_members.close()

    def take_count(self) -> int:
        """Return how many offsets data threads have committed since the last call of `take_count`."""
        return self._of_members.take_count()

    def _take_over(self) -> None:
        for commit in self._of_members.take():
            value = CommittedOffset(
                commit.offset, commit.leader_epoch, commit.metadata, commit.timestamp_ms, None, commit.log_offset
            )
            self.put(commit.group, commit.topic_id, commit.topic, commit.partition, value)

    def _under_way(self) -> Iterator[tuple[Uuid, OffsetKey]]:
        yield from self._in_flight
        for commit in self._of_members.in_flight():
            yield commit.topic_id, OffsetKey(commit.group, commit.topic, commit.partition)

    def __len__(self) -> int:
        self._take_over()
        return sum(len(t.partitions) for topics in self._groups.values() for t in topics.values())

    def get(self, group: str, topic_id: Uuid, partition: int) -> CommittedOffset | None:
        self._take_over()
        topic = self._groups.get(group, {}).get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def has(self, key: OffsetKey) -> bool:
        """Return whether a record of this key is being written, or belongs to an existing incarnation."""
        topics = self.topics(key.group).values()
        return any(topic.name == key.topic and key.partition in topic.partitions for topic in topics) or any(
            known == key for _, known in self._under_way()
        )

    def is_on_disk(self, group: str, topic_id: Uuid, partition: int) -> bool:
        """Return whether the offset exists and its record is durable."""
        known = self.get(group, topic_id, partition)
        return known is not None and known.log_offset >= 0

    def topics(self, group: str) -> dict[Uuid, TopicOffsets]:
        """Return all committed offsets of a group by topic id. Callers must not change them."""
        self._take_over()
        return self._groups.get(group, {})

    def groups(self) -> list[str]:
        """Return the groups that have offsets."""
        self._take_over()
        return list(self._groups)

    def put(self, group: str, topic_id: Uuid, name: str, partition: int, value: CommittedOffset) -> None:
        """Store a durable commit, unless a later record of the same key is already stored."""
        topic = self._groups.setdefault(group, {}).get(topic_id)
        if topic is None:
            topic = self._groups[group][topic_id] = TopicOffsets(name)
            self._groups_by_topic.setdefault(topic_id, set()).add(group)
        known = topic.partitions.get(partition)
        if known is None or known.log_offset <= value.log_offset:
            topic.partitions[partition] = value

    def remove(self, group: str, topic_id: Uuid, partition: int) -> None:
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

    def rename(self, group: str, topic_id: Uuid, name: str) -> dict[OffsetKey, CommittedOffset]:
        """Give the group's offsets of a topic the topic's new name. Return the durable ones by their old keys; none if
        they have the name already."""
        topic = self.topics(group).get(topic_id)
        if topic is None or topic.name == name:
            return {}
        old, topic.name = topic.name, name
        durable = {partition: value for partition, value in topic.partitions.items() if value.log_offset >= 0}
        return {OffsetKey(group, old, partition): value for partition, value in durable.items()}

    def is_in_flight(self, topic_id: Uuid, key: OffsetKey) -> bool:
        """Return whether a record for `key` is being written for this incarnation."""
        return (topic_id, key) in self._under_way()

    def keys_of_group(self, group: str) -> list[tuple[Uuid, OffsetKey]]:
        """Return the keys that need tombstones when a group is deleted: committed offsets, and commits being
        written."""
        self.revoke_delegated()
        # Read the commits being written before the committed offsets. In the other order, a commit that completes
        # between the two reads would be missed.
        keys = dict.fromkeys(pair for pair in self._under_way() if pair[1].group == group)
        self._take_over()
        for topic_id, topic in self._groups.get(group, {}).items():
            keys.update(((topic_id, OffsetKey(group, topic.name, p)), None) for p in topic.partitions)
        return list(keys)

    def keys_of_topic(self, topic_id: Uuid) -> list[OffsetKey]:
        """Return the keys that need tombstones when a topic is deleted: committed offsets, and commits being
        written."""
        self.revoke_delegated()
        keys = dict.fromkeys(key for in_topic, key in self._under_way() if in_topic == topic_id)
        self._take_over()
        for group in self._groups_by_topic.get(topic_id, ()):
            topic = self._groups[group][topic_id]
            keys.update((OffsetKey(group, topic.name, partition), None) for partition in topic.partitions)
        return list(keys)

    def of_topic(self, topic_id: Uuid) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Yield (group, name, partition, offset) of one incarnation, for its deletion record."""
        self._take_over()
        for group in self._groups_by_topic.get(topic_id, ()):
            topic = self._groups[group][topic_id]
            for partition, value in topic.partitions.items():
                yield group, topic.name, partition, value

    def drop_topic(self, topic_id: Uuid) -> None:
        self._take_over()
        self._of_members.drop_topic(topic_id)
        for (in_topic, _), commits in self._in_flight.items():
            for commit in commits if in_topic == topic_id else ():
                commit.topic_removed = True
        for group in self._groups_by_topic.pop(topic_id, set()):
            topics = self._groups[group]
            del topics[topic_id]
            if not topics:
                del self._groups[group]

    def drop_group(self, group: str) -> None:
        self._take_over()
        self._of_members.drop_group(group)
        for topic_id in self._groups.pop(group, {}):
            self._unlink(topic_id, group)

    def commit_began(self, topic_id: Uuid, key: OffsetKey) -> WrittenCommit:
        """Note that a record for `key` is being written."""
        commit = WrittenCommit()
        self._in_flight.setdefault((topic_id, key), []).append(commit)
        return commit

    def commit_ended(self, topic_id: Uuid, key: OffsetKey, commit: WrittenCommit) -> None:
        """Note that the record for `key` is durable or has failed."""
        left = self._in_flight[topic_id, key]
        left.remove(commit)
        if not left:
            del self._in_flight[topic_id, key]

    def topic_in_flight(self, topic_id: Uuid) -> bool:
        """Return whether a commit for this topic is being written."""
        return any(in_topic == topic_id for in_topic, _ in self._under_way())

    def has_commit_in_flight(self, group: str) -> bool:
        """Return whether a commit of this group is being written; expiry does not delete such a group."""
        return any(key.group == group for _, key in self._under_way())

    def _unlink(self, topic_id: Uuid, group: str) -> None:
        groups = self._groups_by_topic.get(topic_id)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._groups_by_topic[topic_id]
