"""Deltas as records of the metadata log.

As in Kafka, the records of a delta contain the differences from the image before it, so readers need that image.
Readers get the delta in the form of `image.with_changed_states`: new values, and only the changed partition states of a
topic if nothing else in the topic has changed. The records of one delta are applied together; their order matters only
within a resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.records.access_records import AccessReader, access_frames
from pybroker.broker.metadata.records.broker_records import BrokerReader, broker_frames
from pybroker.broker.metadata.records.deletion_parts import DeletionReader, deletion_frames
from pybroker.broker.metadata.records.frames import decode_record, encode_record, header_of
from pybroker.broker.metadata.records.ingest_parts import IngestReader, ingest_frames
from pybroker.broker.metadata.records.own_facts import OwnFacts
from pybroker.broker.metadata.records.run_parts import RunReader, run_frames
from pybroker.broker.metadata.records.setting_records import (
    TOPIC,
    SettingReader,
    delta_setting_frames,
    feature_frames,
    set_entry,
)
from pybroker.broker.metadata.records.topic_records import TopicChangeReader, TopicWriter
from pybroker.native import Uuid
from pybroker.protocol import messages as m

_PARTITION = header_of("PartitionRecord")[:2]


def to_records(before: ClusterImage, delta: ImageDelta) -> list[bytes]:
    """Return the records of a change of the image `before`, each in its frame."""
    facts = OwnFacts()
    return [*delta_frames(before, delta, facts), *facts.rest()]


def from_records(before: ClusterImage, frames: Iterable[bytes]) -> ImageDelta:
    """Return the change that the records make to the image `before`. Raises UnreadableRecordError."""
    reader = DeltaReader(before)
    for frame in frames:
        reader.read(frame)
    return reader.delta()


def delta_frames(before: ClusterImage, delta: ImageDelta, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of a delta. Data for a NoOpRecord that is not full yet stays in `facts`."""
    for gone in delta.removed:
        yield encode_record(m.RemoveTopicRecord(gone.topic_id))
    topics = TopicWriter(before, facts)
    for topic in delta.topics:
        yield from topics.frames(topic)
    for states in delta.states:
        yield from topics.state_frames(states)
    yield from broker_frames(before, delta, facts)
    yield from delta_setting_frames(before, delta, facts)
    if delta.features is not None:
        yield from feature_frames(before.features, delta.features, facts)
    yield from access_frames(before, delta, facts)
    yield from deletion_frames(before, delta.deletions, facts)
    for topic_id in delta.forgotten_deletions:
        facts.add("forgotten_deletions", topic_id)
        yield from facts.full()
    for name, epoch in delta.floors.items():
        facts.add("epoch_floors", m.NoOpRecord_EpochFloor(name, epoch))
        yield from facts.full()
    for name, count in delta.leftovers.items():
        facts.add("leftovers", m.NoOpRecord_Leftover(name, count))
        yield from facts.full()
    for name in delta.dropped_orders:
        facts.add("dropped_orders", name)
        yield from facts.full()
    if delta.raised:
        facts.set("raised", True)
    yield from ingest_frames(delta, facts)
    yield from run_frames(delta, facts)


class DeltaReader:
    """Reads the records of one delta."""

    def __init__(self, before: ClusterImage) -> None:
        self._topics = TopicChangeReader(before)
        self._brokers = BrokerReader()
        self._settings = SettingReader(before)
        self._access = AccessReader(before)
        self._deletions = DeletionReader(before)
        self._ingests = IngestReader()
        self._runs = RunReader()
        self._forgotten_deletions: list[Uuid] = []
        self._floors: dict[str, int] = {}
        self._leftovers: dict[str, int] = {}
        self._dropped_orders: list[str] = []
        self._raised = False
        self.cluster: Any = None
        """The fields of NoOpRecord that concern the whole image."""
        self._read: dict[str, Callable[[Any], None]] = {
            "RegisterBrokerRecord": self._brokers.register,
            "UnregisterBrokerRecord": self._brokers.unregister,
            "BrokerRegistrationChangeRecord": self._brokers.change,
            "TopicRecord": self._topics.topic,
            "PartitionChangeRecord": self._topics.partition_change,
            "RemoveTopicRecord": self._topics.remove,
            "ConfigRecord": self._config,
            "UserScramCredentialRecord": self._settings.credential,
            "RemoveUserScramCredentialRecord": self._settings.remove_credential,
            "ClientQuotaRecord": self._settings.quota,
            "FeatureLevelRecord": self._settings.level,
            "AccessControlEntryRecord": self._access.add,
            "RemoveAccessControlEntryRecord": self._access.remove,
            "DelegationTokenRecord": self._access.token,
            "RemoveDelegationTokenRecord": self._access.remove_token,
            "ProducerIdsRecord": self._runs.producer_ids,
            "NoOpRecord": self._own_facts,
        }

    def read(self, frame: bytes) -> None:
        """Read the next record. Raises UnreadableRecordError."""
        if frame[:2] == _PARTITION:
            self._topics.partition(frame)
            return
        name, record = decode_record(frame)
        self._read[name](record)

    def delta(self) -> ImageDelta:
        """Return the delta of the records read so far. Raises UnreadableRecordError."""
        topics, states = self._topics.topics()
        return ImageDelta(
            topics=topics,
            states=states,
            removed=tuple(self._topics.removed),
            brokers=tuple(self._brokers.registered),
            lost_brokers=tuple(self._brokers.lost),
            fenced=tuple(self._brokers.fenced),
            broker_epochs=self._brokers.epochs,
            forgotten_brokers=tuple(self._brokers.forgotten),
            leaving=tuple(self._brokers.leaving),
            deletions=self._deletions.records(),
            forgotten_deletions=tuple(self._forgotten_deletions),
            floors=self._floors,
            acls=self._access.acls(),
            tokens=self._access.tokens,
            features=self._settings.features(),
            ingests=tuple(self._ingests.open),
            ended_ingests=tuple(self._ingests.ended),
            committed_ingests=tuple(self._ingests.committed),
            forgotten_ingests=tuple(self._ingests.forgotten),
            made_ingest_folders=self._ingests.folders,
            removed_ingest_folders=tuple(self._ingests.removed_folders),
            dropped_orders=tuple(self._dropped_orders),
            raised=self._raised,
            leftovers=self._leftovers,
            running=self._runs.running,
            staged=self._runs.staged,
            unstaged=tuple(self._runs.unstaged),
            next_producer_id=self._runs.next_producer_id,
            outcomes=self._runs.outcomes,
            forgotten_outcomes=tuple(self._runs.forgotten_outcomes),
            **self._settings.settings(),
        )

    def _config(self, record: m.ConfigRecord) -> None:
        self._entry(record.resource_type, record.resource_name, record.name, record.value)

    def _entry(self, kind: int, resource: str, key: str, value: str | None) -> None:
        if kind == TOPIC:
            set_entry(self._topics.config_of(resource), key, value)
        else:
            self._settings.entry(kind, resource, key, value)

    def _own_facts(self, record: m.NoOpRecord) -> None:
        self._brokers.broker_epochs(record.broker_epochs)
        self._topics.details(record.topics)
        self._settings.versions(record.config_versions)
        for entry in record.config_entries:
            self._entry(entry.resource_type, entry.resource_name, entry.name, entry.value)
        self._settings.features_version(record.features_version)
        self._access.versions(record.acl_versions)
        self._floors.update((floor.topic_name, floor.leader_epoch) for floor in record.epoch_floors)
        self._leftovers.update((leftover.topic_name, leftover.partitions) for leftover in record.leftovers)
        self._dropped_orders += record.dropped_orders
        self._raised |= record.raised
        self._deletions.heads(record.deletions)
        self._deletions.data(record.deletion_data)
        self._forgotten_deletions += record.forgotten_deletions
        self._ingests.read(record)
        self._runs.read(record)
        if record.cluster is not None:
            self.cluster = record.cluster
