"""The history of a topic name or topic id, and the progress of deletions. Independent of protocol versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from pybroker.broker.admin.staged_replicas import ReplicasByPartition, StagedReplicas
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.lookup import deletions_of, topic_or_deletion, unknown_topic
from pybroker.broker.metadata.deletion_records import DELETING, FOUND, REMOVED, STAGED, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import TopicImage
from pybroker.broker.metadata.lineage import BEGINNINGS, CREATED, TopicEvent
from pybroker.native import NativeBroker, Uuid

UNFINISHED = (DELETING, STAGED, UNDELETING, FOUND)
"""States of deletions whose data is still on disks."""


FormerNames = Mapping[str, Sequence[TopicImage | DeletionRecord]]
"""Topics by each of their former names."""


class Incarnation(msgspec.Struct, frozen=True):
    """One incarnation of a topic, live or deleted."""

    topic_id: Uuid
    name: str
    state: str
    """"live", or the state of the deletion."""
    created_ms: int
    created_by: str | None
    """None: the topic is older than stored histories."""
    created_how: str
    deleted_ms: int
    """−1: the incarnation is live."""
    deleted_by: str | None
    deleted_how: str | None
    successor: Uuid | None
    events: tuple[TopicEvent, ...]
    ends: tuple[tuple[int, int], ...]
    """(log start offset, log end offset) by partition; -1: not known."""


class PartitionDeletion(msgspec.Struct, frozen=True):
    """The data that one broker holds of one partition of a deleted topic."""

    partition: int
    broker_id: int
    state: str
    """deleting, staged, removing, undeleting or removed."""
    log_dir: str | None
    size_bytes: int
    """-1 if unknown."""
    remaining_ms: int


class Deletion(msgspec.Struct, frozen=True):
    """A deletion and its progress on the brokers."""

    record: DeletionRecord
    size_bytes: int
    """Sum over the brokers that responded; -1 if no broker responded."""
    remaining_ms: int
    """Time until the last broker removes its data; -1 if the time is unknown, or if an operator has to order the
    removal."""
    partitions: tuple[PartitionDeletion, ...]


class HistoryAdmin:
    """Reads the cluster view, and asks brokers about the data on their disks."""

    def __init__(self, view: ClusterView, native: NativeBroker, staged: StagedReplicas) -> None:
        self._view = view
        self._native = native
        self._staged = staged

    def topic(self, name: str | None, topic_id: Uuid) -> TopicImage | DeletionRecord | None:
        """Return the topic of a request, live or deleted."""
        return topic_or_deletion(self._view.image, name, topic_id)

    # --- history ------------------------------------------------------------------------------------------------------

    def former_names(self) -> FormerNames:
        """Return live and deleted topics by each of their former names."""
        image = self._view.image
        found: dict[str, list[TopicImage | DeletionRecord]] = {}
        both: tuple[Iterable[TopicImage | DeletionRecord], ...] = (image.topics.values(), image.deletions.values())
        for which in chain(*both):
            events = which.lineage.events
            if len(events) < 2 or (isinstance(which, DeletionRecord) and which.topic_id in image.names):
                continue
            present = which.topic if isinstance(which, DeletionRecord) else which.name
            for name in {event.name for event in events} - {present}:
                found.setdefault(name, []).append(which)
        return found

    def history(self, name: str | None, topic_id: Uuid, former: FormerNames) -> list[Incarnation]:
        """Return all incarnations of a name, or the incarnation with an id; the latest first. Raises KafkaError if
        there is no such incarnation."""
        image = self._view.image
        if topic_id != Uuid.ZERO:
            which = self.topic(None, topic_id)
            if which is None:
                raise unknown_topic(image, topic_id)
            return [self._living(which) if isinstance(which, TopicImage) else _dead(which)]
        assert name is not None
        live = image.topics.get(name)
        renamed = former.get(name, ())
        living = [*([] if live is None else [live]), *(each for each in renamed if isinstance(each, TopicImage))]
        dead = [*deletions_of(image, name), *(each for each in renamed if isinstance(each, DeletionRecord))]
        dead.sort(key=lambda record: record.deleted_ms, reverse=True)
        found = [*map(self._living, living), *map(_dead, dead)]
        if not found:
            raise unknown_topic(image, name)
        return found

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

    async def deletions(
        self, wanted: Sequence[str | Uuid] | None, may_see: Callable[[str], bool] = lambda _: True
    ) -> list[Deletion]:
        """Return the deletions of the topics in `wanted`, including finished deletions. With None, return all deletions
        whose data is still on disks. The latest comes first. `may_see`: returns whether the client may see a topic's
        name. The sizes and states come from the brokers that have the data."""
        image = self._view.image
        if wanted is None:
            records = [record for record in image.deletions.values() if record.state in UNFINISHED]
        else:
            asked = frozenset(wanted)
            records = [
                record
                for record in image.deletions.values()
                if (record.topic_id in asked or record.topic in asked) and record.topic_id not in image.names
            ]
        records = [record for record in records if may_see(record.topic)]
        records.sort(key=lambda record: record.deleted_ms, reverse=True)
        holders: dict[int, list[Uuid]] = {}
        for record in records:
            if record.state in UNFINISHED:
                for broker_id in {broker for index in record.partitions for broker in record.holders(index)}:
                    holders.setdefault(broker_id, []).append(record.topic_id)
        held = await self._staged.everywhere(holders) if holders else {}
        return [_deletion(record, held) for record in records]


def _deletion(record: DeletionRecord, held: Mapping[int, ReplicasByPartition]) -> Deletion:
    partitions = [
        _replica(record, index, broker_id, held.get(broker_id))
        for index in record.partitions
        for broker_id in record.holders(index)
    ]
    sizes = [partition.size_bytes for partition in partitions if partition.size_bytes >= 0]
    return Deletion(
        record,
        sum(sizes) if sizes or not partitions else -1,
        max((partition.remaining_ms for partition in partitions), default=-1),
        tuple(partitions),
    )


def _replica(record: DeletionRecord, index: int, broker_id: int, held: ReplicasByPartition | None) -> PartitionDeletion:
    """Return the state of a replica from its broker's report, or from the deletion record if the broker did not respond
    (`held` None)."""
    if record.state == REMOVED:
        return PartitionDeletion(index, broker_id, REMOVED, None, 0, -1)
    confirmed = record.state == DELETING and broker_id not in record.unconfirmed
    state = STAGED if confirmed else record.state
    if held is None:
        return PartitionDeletion(index, broker_id, state, None, -1, -1)
    there = held.get((record.topic_id, index))
    if there is not None:
        state = "removing" if there.removing else state
        return PartitionDeletion(index, broker_id, state, there.log_dir, there.size_bytes, there.remaining_ms)
    if state in (STAGED, FOUND):
        return PartitionDeletion(index, broker_id, REMOVED, None, 0, -1)
    # The replica is not staged yet, or is being undeleted. The broker reports its size as the size of a live partition.
    return PartitionDeletion(index, broker_id, state, None, -1, -1)


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
    """Return the event that created an incarnation; None if the topic is older than stored histories."""
    first = events[0] if events else None
    if first is None or first.what not in BEGINNINGS:
        return None
    return first
