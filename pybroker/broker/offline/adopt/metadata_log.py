"""Reads topics, settings and other metadata from KRaft's metadata log: the latest snapshot, then the log.

Record types have the numbers of KIP-631 and its successors. Each record type of Apache Kafka 4.4 is in one of three
groups: the reader takes it over, it marks a transaction, or `LEFT_OUT` lists it with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pybroker.broker.metadata.records.frames import RecordFrame, UnreadableRecordError, split_frame
from pybroker.broker.metadata.records.partition_records import SAME_LEADER
from pybroker.broker.metadata.records.setting_records import BROKER, CLIENT_METRICS, GROUP, TOPIC
from pybroker.broker.offline.adopt import security_records
from pybroker.broker.offline.adopt.kafka_batches import MalformedBatchError, values
from pybroker.broker.offline.adopt.security_records import AdoptedSecurity
from pybroker.native import CodecError, Uuid, decode_data
from pybroker.protocol import messages as m

BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25

_BROKERS = "this broker registers itself when it starts"
_CONTROLLERS = "there is no quorum of controllers"
LEFT_OUT: Mapping[int, tuple[str, str]] = {
    0: ("RegisterBrokerRecord", _BROKERS),
    1: ("UnregisterBrokerRecord", _BROKERS),
    7: ("FenceBrokerRecord", _BROKERS),
    8: ("UnfenceBrokerRecord", _BROKERS),
    17: ("BrokerRegistrationChangeRecord", _BROKERS),
    20: ("NoOpRecord", "it has no effect"),
    21: ("ZkMigrationStateRecord", "the migration from ZooKeeper has ended"),
    27: ("RegisterControllerRecord", _CONTROLLERS),
    29: ("UnregisterControllerRecord", _CONTROLLERS),
}
"""Record types that are not taken over: by type, the name and the reason."""


class Partition(msgspec.Struct):
    """The state of a partition after the last record of the log."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    eligible: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966). They have all committed records, although they have left the ISR, as the last
    ISR member does at a clean stop."""


class KafkaTopic(msgspec.Struct):
    """A live topic."""

    name: str
    topic_id: Uuid
    partitions: dict[int, Partition] = {}


class KafkaMetadata(msgspec.Struct):
    """The state of the cluster after the last record of the log."""

    topics: dict[Uuid, KafkaTopic] = {}
    topic_configs: dict[str, dict[str, str]] = {}
    broker_configs: dict[str, dict[str, str]] = {}
    """By broker id; "" for all brokers."""
    group_configs: dict[str, dict[str, str]] = {}
    client_metrics_configs: dict[str, dict[str, str]] = {}
    """By name of the subscription (KIP-714)."""
    security: AdoptedSecurity = msgspec.field(default_factory=AdoptedSecurity)
    features: dict[str, int] = {}
    """Finalized levels by name (KIP-584); 0 if a record removed the level."""
    next_producer_id: int = 0
    left_out: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """(type, reason) → number of records that the reader leaves out."""


def read_metadata(directory: Path) -> KafkaMetadata:
    """Read `__cluster_metadata-0`. Raises Malformed if the log is damaged or has records that a newer version of Kafka
    wrote.
    """
    metadata = KafkaMetadata()
    start = 0
    snapshots = sorted(path for path in directory.glob("*.checkpoint") if "-" in path.name)
    if snapshots:
        # The file's name is {end offset}-{epoch}.checkpoint.
        start = int(snapshots[-1].name.partition("-")[0])
        _apply_all(metadata, (value for _, value in values(snapshots[-1])))
    segments = sorted(directory.glob("*.log"))
    _apply_all(metadata, (value for segment in segments for offset, value in values(segment) if offset >= start))
    return metadata


def _apply_all(metadata: KafkaMetadata, records: Iterator[bytes]) -> None:
    """Apply the records. Skip the records of transactions that were aborted or never ended."""
    pending: list[RecordFrame] | None = None
    for value in records:
        try:
            record = split_frame(value)
        except UnreadableRecordError as problem:
            raise MalformedBatchError(str(problem)) from None
        if record.api_key == BEGIN_TRANSACTION:
            pending = []
        elif record.api_key == ABORT_TRANSACTION:
            pending = None
        elif record.api_key == END_TRANSACTION:
            for item in pending or ():
                _apply(metadata, item)
            pending = None
        elif pending is not None:
            pending.append(record)
        else:
            _apply(metadata, record)


def _apply(metadata: KafkaMetadata, record: RecordFrame) -> None:
    found = TAKEN_OVER.get(record.api_key)
    if found is None:
        unknown = f"records of type {record.api_key}", "this version of pybroker does not know them"
        metadata.left_out[LEFT_OUT.get(record.api_key, unknown)] += 1
        return
    name, apply = found
    try:
        content = decode_data(name, record.version, record.content)
    except CodecError as problem:
        raise MalformedBatchError(f"a metadata record of type {record.api_key}: {problem}") from None
    apply(metadata, content)


def _topic(metadata: KafkaMetadata, record: m.TopicRecord) -> None:
    metadata.topics[record.topic_id] = KafkaTopic(record.name, record.topic_id)


def _partition(metadata: KafkaMetadata, record: m.PartitionRecord) -> None:
    _of(metadata, record.topic_id).partitions[record.partition_id] = Partition(
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        tuple(record.eligible_leader_replicas or ()),
    )


def _partition_change(metadata: KafkaMetadata, record: m.PartitionChangeRecord) -> None:
    index, topic_id = record.partition_id, record.topic_id
    partition = _of(metadata, topic_id).partitions.get(index)
    if partition is None:
        raise MalformedBatchError(f"a change of partition {index} of topic {topic_id}, which the log does not contain")
    if record.isr is not None:
        partition.isr = tuple(record.isr)
    if record.leader != SAME_LEADER:
        partition.leader = record.leader
        partition.leader_epoch += 1
    if record.replicas is not None:
        partition.replicas = tuple(record.replicas)
    if record.eligible_leader_replicas is not None:
        partition.eligible = tuple(record.eligible_leader_replicas)


def _config(metadata: KafkaMetadata, record: m.ConfigRecord) -> None:
    by_type = {
        TOPIC: metadata.topic_configs,
        BROKER: metadata.broker_configs,
        CLIENT_METRICS: metadata.client_metrics_configs,
        GROUP: metadata.group_configs,
    }
    if record.resource_type not in by_type:
        what = f"settings of resource type {record.resource_type}"
        metadata.left_out[what, "this version of pybroker does not know it"] += 1
        return
    configs = by_type[record.resource_type].setdefault(record.resource_name, {})
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value


def _remove_topic(metadata: KafkaMetadata, record: m.RemoveTopicRecord) -> None:
    topic = metadata.topics.pop(record.topic_id, None)
    if topic is not None:
        metadata.topic_configs.pop(topic.name, None)


def _clear_eligible(metadata: KafkaMetadata, record: m.ClearElrRecord) -> None:
    for topic in metadata.topics.values():
        if record.topic_name in ("", topic.name):
            for partition in topic.partitions.values():
                partition.eligible = ()


def _producer_ids(metadata: KafkaMetadata, record: m.ProducerIdsRecord) -> None:
    metadata.next_producer_id = max(metadata.next_producer_id, record.next_producer_id)


def _feature(metadata: KafkaMetadata, record: m.FeatureLevelRecord) -> None:
    metadata.features[record.name] = record.feature_level


def _of(metadata: KafkaMetadata, topic_id: Uuid) -> KafkaTopic:
    topic = metadata.topics.get(topic_id)
    if topic is None:
        raise MalformedBatchError(f"a partition of topic {topic_id}, which the log does not contain")
    return topic


def _of_security(apply: Callable[[AdoptedSecurity, Any], None]) -> Callable[[KafkaMetadata, Any], None]:
    return lambda metadata, record: apply(metadata.security, record)


TAKEN_OVER: dict[int, tuple[str, Callable[[KafkaMetadata, Any], None]]] = {
    2: ("TopicRecord", _topic),
    3: ("PartitionRecord", _partition),
    4: ("ConfigRecord", _config),
    5: ("PartitionChangeRecord", _partition_change),
    9: ("RemoveTopicRecord", _remove_topic),
    12: ("FeatureLevelRecord", _feature),
    15: ("ProducerIdsRecord", _producer_ids),
    28: ("ClearElrRecord", _clear_eligible),
    **{kind: (name, _of_security(apply)) for kind, (name, apply) in security_records.KNOWN.items()},
}
"""Functions that apply the record types that are taken over."""
