"""Topics, their configs and what else matters here, from KRaft's metadata log: the latest snapshot, then the log.

Record types by number (KIP-631): TopicRecord 2, PartitionRecord 3, ConfigRecord 4, PartitionChangeRecord 5,
AccessControlEntryRecord 18, RemoveTopicRecord 9, UserScramCredentialRecord 11, ClientQuotaRecord 14,
ProducerIdsRecord 15, and the marks of a transaction 23, 24, 25. Others say nothing that is taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from pybroker.native import Uuid
from pybroker.offline.adopt.batches import values
from pybroker.protocol.primitives import BytesReader, Malformed

DIRECTORY = "__cluster_metadata-0"
TOPIC, BROKER = 2, 4
"""Resource types of ConfigRecord."""
FRAME_VERSION = 1
NOT_TAKEN = {11: "SCRAM credentials", 14: "client quotas", 18: "ACLs"}


class Partition(msgspec.Struct):
    """What the log says of a partition in the end."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    eligible: tuple[int, ...] = ()
    """Replicas that have everything though they left the ISR (KIP-966), as the last one does with a clean stop."""


class Topic(msgspec.Struct):
    """A topic that lives."""

    name: str
    topic_id: Uuid
    partitions: dict[int, Partition] = {}


class Metadata(msgspec.Struct):
    """The cluster as of the end of the log."""

    topics: dict[Uuid, Topic] = {}
    topic_configs: dict[str, dict[str, str]] = {}
    broker_configs: dict[str, dict[str, str]] = {}
    """By broker id; "" for all."""
    next_producer_id: int = 0
    passed_over: Counter[str] = msgspec.field(default_factory=Counter)
    """What there is and is not taken over."""


def read_metadata(directory: Path) -> Metadata:
    """Reads `__cluster_metadata-0`. Raises Malformed for damage, and for records newer than those known."""
    metadata = Metadata()
    start = 0
    snapshots = sorted(path for path in directory.glob("*.checkpoint") if "-" in path.name)
    if snapshots:
        # Named {end offset}-{epoch}.checkpoint.
        start = int(snapshots[-1].name.partition("-")[0])
        _apply_all(metadata, (value for _, value in values(snapshots[-1])))
    segments = sorted(directory.glob("*.log"))
    _apply_all(metadata, (value for segment in segments for offset, value in values(segment) if offset >= start))
    return metadata


def _apply_all(metadata: Metadata, records: Iterator[bytes]) -> None:
    """Applies records; those of a transaction that was aborted, or never ended, are left out."""
    pending: list[tuple[int, int, BytesReader]] | None = None
    for value in records:
        reader = BytesReader(value)
        frame = reader.uvarint()
        if frame != FRAME_VERSION:
            raise Malformed(f"a metadata record with frame version {frame}")
        kind, version = reader.uvarint(), reader.uvarint()
        if kind == 23:
            pending = []
        elif kind == 25:
            pending = None
        elif kind == 24:
            for item in pending or ():
                _apply(metadata, *item)
            pending = None
        elif pending is not None:
            pending.append((kind, version, reader))
        else:
            _apply(metadata, kind, version, reader)


def _apply(metadata: Metadata, kind: int, version: int, reader: BytesReader) -> None:
    found = _KNOWN.get(kind)
    if found is None:
        if kind in NOT_TAKEN:
            metadata.passed_over[NOT_TAKEN[kind]] += 1
        return
    newest, apply = found
    if version > newest:
        raise Malformed(f"a metadata record of type {kind} with version {version}; up to {newest} is known")
    apply(metadata, version, reader)


def _topic(metadata: Metadata, version: int, reader: BytesReader) -> None:
    del version
    name, topic_id = reader.compact_string(), reader.uuid()
    metadata.topics[topic_id] = Topic(name, topic_id)


def _partition(metadata: Metadata, version: int, reader: BytesReader) -> None:
    index, topic_id = reader.int32(), reader.uuid()
    replicas, isr = reader.compact_int32s(), reader.compact_int32s()
    reader.compact_int32s()  # removing
    reader.compact_int32s()  # adding
    leader, leader_epoch = reader.int32(), reader.int32()
    reader.int32()  # partition epoch
    if version >= 1:
        for _ in range(reader.compact_count(16)):
            reader.uuid()  # log directories
    tags = reader.tags()
    eligible = BytesReader(tags[1]).compact_int32s() if 1 in tags else ()
    _of(metadata, topic_id).partitions[index] = Partition(replicas, isr, leader, leader_epoch, eligible)


def _partition_change(metadata: Metadata, version: int, reader: BytesReader) -> None:
    del version
    index, topic_id = reader.int32(), reader.uuid()
    tags = reader.tags()
    partition = _of(metadata, topic_id).partitions.get(index)
    if partition is None:
        raise Malformed(f"a change of partition {index} of topic {topic_id}, which is not there")
    if 0 in tags:
        partition.isr = BytesReader(tags[0]).compact_int32s()
    if 1 in tags:
        partition.leader = BytesReader(tags[1]).int32()
        partition.leader_epoch += 1
    if 2 in tags:
        partition.replicas = BytesReader(tags[2]).compact_int32s()
    if 6 in tags:
        partition.eligible = BytesReader(tags[6]).compact_int32s()


def _config(metadata: Metadata, version: int, reader: BytesReader) -> None:
    del version
    kind, resource, name = reader.int8(), reader.compact_string(), reader.compact_string()
    value = reader.compact_nullable_string()
    if kind == TOPIC:
        configs = metadata.topic_configs.setdefault(resource, {})
    elif kind == BROKER:
        configs = metadata.broker_configs.setdefault(resource, {})
    else:
        return
    if value is None:
        configs.pop(name, None)
    else:
        configs[name] = value


def _remove_topic(metadata: Metadata, version: int, reader: BytesReader) -> None:
    del version
    topic = metadata.topics.pop(reader.uuid(), None)
    if topic is not None:
        metadata.topic_configs.pop(topic.name, None)


def _producer_ids(metadata: Metadata, version: int, reader: BytesReader) -> None:
    del version
    reader.take(12)  # broker and its epoch
    metadata.next_producer_id = max(metadata.next_producer_id, reader.int64())


def _of(metadata: Metadata, topic_id: Uuid) -> Topic:
    topic = metadata.topics.get(topic_id)
    if topic is None:
        raise Malformed(f"a partition of topic {topic_id}, which is not there")
    return topic


_KNOWN: dict[int, tuple[int, Callable[[Metadata, int, BytesReader], None]]] = {
    2: (0, _topic),
    3: (2, _partition),
    4: (0, _config),
    5: (2, _partition_change),
    9: (0, _remove_topic),
    15: (0, _producer_ids),
}
