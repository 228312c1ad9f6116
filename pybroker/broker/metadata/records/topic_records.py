"""Topics as TopicRecord, PartitionRecord, PartitionChangeRecord, ConfigRecord and RemoveTopicRecord.

If the previous image contains the topic, only the differences are written. A changed setting of a topic with 10,000
partitions takes one ConfigRecord and the topic's details.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pybroker.broker.metadata.image import ChangedStates, ClusterImage, PartitionImage, TopicImage
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.broker.metadata.records.frames import UnreadableRecordError, encode_record
from pybroker.broker.metadata.records.own_facts import OwnFacts, lineage_from, lineage_of
from pybroker.broker.metadata.records.partition_records import (
    PartitionReader,
    PartitionWriter,
    change_frame,
    changed_state,
)
from pybroker.broker.metadata.records.setting_records import TOPIC, setting_frames
from pybroker.native import Uuid
from pybroker.protocol import messages as m


class TopicDetails(msgspec.Struct, frozen=True):
    """The fields of a topic for which Kafka's records have no place. NoOpRecord stores them."""

    created_ms: int
    node_version: int
    config_version: int
    lineage: TopicLineage
    departed: Mapping[int, Mapping[int, int]]

    @staticmethod
    def of(topic: TopicImage) -> TopicDetails:
        """Return a topic's details."""
        return TopicDetails(
            topic.created_ms, topic.node_version, topic.config_version, topic.lineage, topic.departed
        )


class TopicWriter:
    """Writes topics of deltas as differences from an image."""

    def __init__(self, before: ClusterImage, facts: OwnFacts) -> None:
        self._before = before
        self._facts = facts
        self._partitions = PartitionWriter()

    def frames(self, topic: TopicImage) -> Iterator[bytes]:
        """Yield the records of a new or changed topic."""
        known = self._before.topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id or len(known.partitions) > len(topic.partitions):
            known = TopicImage(topic.name, topic.topic_id, (), {}, -1, -1, -1)
            yield encode_record(m.TopicRecord(topic.name, topic.topic_id))
        if known.partitions is not topic.partitions:
            yield from self._partition_frames(known, topic)
        yield from setting_frames(TOPIC, topic.name, known.config, topic.config, self._facts)
        details = TopicDetails.of(topic)
        if details != TopicDetails.of(known):
            self._facts.add(
                "topics",
                _details_struct(topic.topic_id, details),
                weight=1 + len(details.departed) + len(details.lineage.start_offsets),
            )
        yield from self._facts.full()

    def _partition_frames(self, known: TopicImage, topic: TopicImage) -> Iterator[bytes]:
        old, topic_id = known.partitions, topic.topic_id
        for index, (before, after) in enumerate(zip(old, topic.partitions, strict=False)):
            if before is not after:
                yield change_frame(topic_id, index, before, after)
        raw = topic_id.bytes
        for index in range(len(old), len(topic.partitions)):
            yield self._partitions.frame(raw, index, topic.partitions[index])

    def state_frames(self, states: ChangedStates) -> Iterator[bytes]:
        """Yield the records of changed partitions."""
        known = self._before.topics[states.name]
        for index, state in states.partitions.items():
            yield change_frame(known.topic_id, index, known.partitions[index], state)


class _TopicChange:
    """The changes of one topic in the records read so far."""

    def __init__(self, name: str, topic_id: Uuid, known: TopicImage | None) -> None:
        self.known = known
        self.topic = TopicImage(name, topic_id, (), {}, -1, -1, -1) if known is None else known
        self.states: dict[int, PartitionImage] = {}
        self.config: dict[str, str] | None = None
        self.details: TopicDetails | None = None

    def state(self, index: int) -> PartitionImage:
        """Return a partition's state after the records read so far."""
        partitions = self.topic.partitions
        state = self.states.get(index)
        if state is None and 0 <= index < len(partitions):
            state = partitions[index]
        if state is None:
            raise UnreadableRecordError(f"a change of partition {index} of topic {self.topic.name}, which has none")
        return state

    def states_alone(self) -> ChangedStates | None:
        """Return the change if it only concerns states of existing partitions; otherwise None."""
        if self.known is None or self.config is not None or self.details is not None:
            return None
        if max(self.states, default=-1) >= len(self.known.partitions):
            return None
        return ChangedStates(self.topic.name, self.states)

    def whole(self) -> TopicImage:
        """Return the topic after the change. Raises UnreadableRecordError."""
        topic, partitions = self.topic, self.topic.partitions
        if self.states:
            had, count = len(partitions), max(len(partitions), max(self.states) + 1)
            try:
                partitions = tuple(
                    self.states[index] if index >= had else self.states.get(index, partitions[index])
                    for index in range(count)
                )
            except KeyError as missing:
                raise UnreadableRecordError(f"partition {missing} of topic {topic.name} has no record") from None
        details = TopicDetails.of(topic) if self.details is None else self.details
        return TopicImage(
            topic.name,
            topic.topic_id,
            partitions,
            topic.config if self.config is None else self.config,
            details.created_ms,
            details.node_version,
            details.config_version,
            details.lineage,
            details.departed,
        )


class TopicChangeReader:
    """Reads topics from records. The records contain differences from an image."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self._changes: dict[Uuid, _TopicChange] = {}
        self._new_names: dict[str, _TopicChange] = {}
        self._partitions = PartitionReader()
        self._last: tuple[bytes, _TopicChange] | None = None
        """The topic of the last PartitionRecord. It is cached because the records of a topic are adjacent."""
        self.removed: list[TopicImage] = []

    def topic(self, record: m.TopicRecord) -> None:
        change = _TopicChange(record.name, record.topic_id, None)
        self._changes[record.topic_id] = self._new_names[record.name] = change
        self._last = None

    def remove(self, record: m.RemoveTopicRecord) -> None:
        topic = self._before.topic_by_id(record.topic_id)
        if topic is None:
            raise UnreadableRecordError(f"the removal of topic {record.topic_id}, which is unknown")
        self.removed.append(topic)

    def partition(self, frame: bytes) -> None:
        """Read PartitionRecord, in its frame."""
        raw, index, state = self._partitions.read(frame)
        if self._last is None or self._last[0] != raw:
            self._last = raw, self._change(Uuid.from_bytes(raw))
        self._last[1].states[index] = state

    def partition_change(self, record: m.PartitionChangeRecord) -> None:
        change = self._change(record.topic_id)
        change.states[record.partition_id] = changed_state(record, change.state(record.partition_id))

    def config_of(self, name: str) -> dict[str, str]:
        """Return the topic's settings, for changes by the caller."""
        change = self._new_names.get(name)
        if change is None:
            known = self._before.topics.get(name)
            if known is None:
                raise UnreadableRecordError(f"a setting of topic {name!r}, which is unknown")
            change = self._change(known.topic_id)
        if change.config is None:
            change.config = dict(change.topic.config)
        return change.config

    def details(self, structs: list[Any]) -> None:
        """Read topics' details from NoOpRecord."""
        for struct in structs:
            departed = {
                partition.partition_id: {removal.broker_id: removal.leader_epoch for removal in partition.removals}
                for partition in struct.departed
            }
            self._change(struct.topic_id).details = TopicDetails(
                struct.created_ms, struct.node_version, struct.config_version, lineage_from(struct.lineage), departed
            )

    def topics(self) -> tuple[tuple[TopicImage, ...], tuple[ChangedStates, ...]]:
        """Return the new and changed topics, and the topics in which only partition states have changed. Raises
        UnreadableRecordError.
        """
        topics, states = [], []
        for change in self._changes.values():
            alone = change.states_alone()
            if alone is None:
                topics.append(change.whole())
            else:
                states.append(alone)
        return tuple(topics), tuple(states)

    def _change(self, topic_id: Uuid) -> _TopicChange:
        change = self._changes.get(topic_id)
        if change is None:
            known = self._before.topic_by_id(topic_id)
            if known is None:
                raise UnreadableRecordError(f"a record of topic {topic_id}, which is unknown")
            change = self._changes[topic_id] = _TopicChange(known.name, topic_id, known)
        return change


def _details_struct(topic_id: Uuid, details: TopicDetails) -> Any:
    departed = [
        m.NoOpRecord_PartitionRemovals(
            index, [m.NoOpRecord_ReplicaRemoval(broker_id, epoch) for broker_id, epoch in brokers.items()]
        )
        for index, brokers in details.departed.items()
    ]
    return m.NoOpRecord_TopicDetails(
        topic_id,
        details.created_ms,
        details.node_version,
        details.config_version,
        lineage_of(details.lineage),
        departed,
    )
