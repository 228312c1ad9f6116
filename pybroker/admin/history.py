"""What is known of the lives of topics: the history of a name or id, and how far deletions have come. Knows no
protocol version."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from pybroker.cluster.lookup import topic_or_deletion, unknown_topic
from pybroker.cluster.view import ClusterView
from pybroker.metadata.deletion_records import DELETING, FOUND, REMOVED, STAGED, UNDELETING, DeletionRecord
from pybroker.metadata.image import TopicImage
from pybroker.metadata.lineage import CREATED, TRUNCATED, TopicEvent
from pybroker.native import NativeBroker, StagedDirectory, Uuid

UNFINISHED = (DELETING, STAGED, UNDELETING, FOUND)
"""States in which data is on disks."""


class Incarnation(msgspec.Struct, frozen=True):
    """One incarnation, living or dead."""

    topic_id: Uuid
    name: str
    state: str
    """live, or the state of its deletion."""
    created_ms: int
    created_by: str | None
    """None: from before histories were kept."""
    created_how: str
    deleted_ms: int
    """-1: it lives."""
    deleted_by: str | None
    deleted_how: str | None
    successor: Uuid | None
    events: tuple[TopicEvent, ...]
    ends: tuple[tuple[int, int], ...]
    """Log start and log end by partition; -1: nobody could say."""


class PartitionDeletion(msgspec.Struct, frozen=True):
    """What one broker holds of one partition of a deleted topic."""

    partition: int
    broker_id: int
    state: str
    """deleting, staged, removing, undeleting or removed."""
    log_dir: str | None
    size_bytes: int
    remaining_ms: int


class Deletion(msgspec.Struct, frozen=True):
    """A deletion, and how far it has come."""

    record: DeletionRecord
    size_bytes: int
    remaining_ms: int
    partitions: tuple[PartitionDeletion, ...]


class Waiting(Protocol):
    """What waits for removal on this broker (`replicas.staging.Staging`)."""

    def remaining_ms(self, topic_id: Uuid) -> int | None:
        """Time until the removal; None if nothing of the topic waits here."""
        ...

    def is_removing(self, topic_id: Uuid) -> bool:
        """Whether the removal has begun."""
        ...


class HistoryAdmin:
    """Reads the view and this broker's disks."""

    def __init__(self, view: ClusterView, native: NativeBroker, broker_id: int, waiting: Waiting) -> None:
        self._view = view
        self._native = native
        self._broker_id = broker_id
        self._waiting = waiting
        self._indexed: Mapping[Uuid, DeletionRecord] = {}
        self._by_name: dict[str, list[DeletionRecord]] = {}

    def topic(self, name: str | None, topic_id: Uuid) -> TopicImage | DeletionRecord | None:
        """The topic that a request means, living or deleted."""
        return topic_or_deletion(self._view.image, name, topic_id)

    # --- history ------------------------------------------------------------------------------------------------------

    def history(self, name: str | None, topic_id: Uuid) -> list[Incarnation]:
        """All incarnations of a name, or the one with an id, the latest first. KafkaError: nothing is known."""
        image = self._view.image
        if topic_id != Uuid.ZERO:
            which = self.topic(None, topic_id)
            if which is None:
                raise unknown_topic(image, topic_id)
            return [self._living(which) if isinstance(which, TopicImage) else _dead(which)]
        assert name is not None
        dead = [record for record in self._deletions_of(name) if record.topic_id not in image.names]
        dead.sort(key=lambda record: record.deleted_ms, reverse=True)
        live = image.topics.get(name)
        found = [*([] if live is None else [self._living(live)]), *(_dead(record) for record in dead)]
        if not found:
            raise unknown_topic(image, name)
        return found

    def _deletions_of(self, name: str) -> Sequence[DeletionRecord]:
        """Return the deletions of topics of a name; indexed, because one request asks for thousands of names."""
        deletions = self._view.image.deletions
        if self._indexed is not deletions:
            self._indexed, self._by_name = deletions, {}
            for record in deletions.values():
                self._by_name.setdefault(record.topic, []).append(record)
        return self._by_name.get(name, ())

    def _living(self, topic: TopicImage) -> Incarnation:
        made = _made(topic.lineage.events)
        ends = []
        for index in range(len(topic.partitions)):
            offsets = self._native.partitions.offsets(topic.topic_id, index)
            ends.append((-1, -1) if offsets is None else (offsets.log_start_offset, offsets.log_end_offset))
        return Incarnation(
            topic.topic_id,
            topic.name,
            "live",
            topic.created_ms,
            None if made is None else made.by,
            CREATED if made is None else made.what,
            -1,
            None,
            None,
            None,
            topic.lineage.events,
            tuple(ends),
        )

    # --- deletions ----------------------------------------------------------------------------------------------------

    async def deletions(self, wanted: Sequence[str | Uuid] | None, lists: Callable[[str], bool]) -> list[Deletion]:
        """Deletions whose data is not gone (None), or all that are meant, finished ones too. The latest first.

        `lists`: whether the caller may see topics of a name. Only those are looked for on the disks.
        """
        image = self._view.image
        if wanted is None:
            records = [
                record for record in image.deletions.values() if record.state in UNFINISHED and lists(record.topic)
            ]
        else:
            asked = frozenset(wanted)
            records = [
                record
                for record in image.deletions.values()
                if (record.topic_id in asked or record.topic in asked)
                and record.topic_id not in image.names
                and lists(record.topic)
            ]
        records.sort(key=lambda record: record.deleted_ms, reverse=True)
        if not records:
            return []
        topic_ids = frozenset(record.topic_id for record in records)
        on_disk = await asyncio.get_running_loop().run_in_executor(None, self._on_disk, topic_ids)
        return [self._deletion(record, on_disk) for record in records]

    def _on_disk(self, topic_ids: frozenset[Uuid]) -> dict[tuple[Uuid, int], tuple[StagedDirectory, int]]:
        found = {}
        for directory in self._native.log_dirs.staged():
            if directory.topic_id is not None and directory.topic_id in topic_ids:
                found[directory.topic_id, directory.partition] = (directory, _size(directory.path))
        return found

    def _deletion(
        self, record: DeletionRecord, on_disk: Mapping[tuple[Uuid, int], tuple[StagedDirectory, int]]
    ) -> Deletion:
        remaining = self._waiting.remaining_ms(record.topic_id)
        missing = record.unconfirmed
        partitions = []
        for index in record.partitions:
            for broker_id in record.holders(index):
                confirmed = record.state == DELETING and broker_id not in missing
                state = STAGED if confirmed else record.state
                if broker_id != self._broker_id:
                    partitions.append(PartitionDeletion(index, broker_id, state, None, -1, -1))
                    continue
                there = on_disk.get((record.topic_id, index))
                if there is None:
                    state = REMOVED if state == STAGED else state
                    partitions.append(PartitionDeletion(index, broker_id, state, None, 0, -1))
                    continue
                directory, size = there
                removing = directory.purging or self._waiting.is_removing(record.topic_id)
                state = "removing" if removing else state
                left = -1 if remaining is None else remaining
                partitions.append(PartitionDeletion(index, broker_id, state, directory.log_dir, size, left))
        size = sum(max(0, partition.size_bytes) for partition in partitions)
        return Deletion(record, size, -1 if remaining is None else remaining, tuple(partitions))


def _dead(record: DeletionRecord) -> Incarnation:
    made = _made(record.lineage.events)
    return Incarnation(
        record.topic_id,
        record.topic,
        record.state,
        record.created_ms,
        None if made is None else made.by,
        CREATED if made is None else made.what,
        record.deleted_ms,
        record.deleted_by,
        record.how,
        record.successor,
        record.lineage.events,
        tuple(record.end(index) for index in range(len(record.partitions))),
    )


def _made(events: Sequence[TopicEvent]) -> TopicEvent | None:
    """How an incarnation came to be; None if that was before histories were kept."""
    first = events[0] if events else None
    if first is None or first.what not in (CREATED, TRUNCATED):
        return None
    return first


def _size(path: str) -> int:
    """Bytes of the files in a directory; what goes away meanwhile counts nothing."""
    try:
        with os.scandir(path) as entries:
            return sum(_bytes(entry) for entry in entries)
    except OSError:
        return 0


def _bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
