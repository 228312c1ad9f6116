"""Plans an adoption by reading the directories, without changes. If a problem could make a later step fail, the plan
refuses the adoption with one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.feature_levels import HIGHEST
from pybroker.broker.metadata.metadata_store import SQLITE_FILE, Operation
from pybroker.broker.offline.adopt.kafka_batches import MalformedBatchError, formats
from pybroker.broker.offline.adopt.metadata_log import KafkaMetadata, read_metadata
from pybroker.broker.offline.adopt.security_nodes import operations_of
from pybroker.broker.offline.offline_directories import read_properties_of
from pybroker.broker.replicas import partition_metadata
from pybroker.broker.replicas.partition_metadata import PartitionMetadataError
from pybroker.config import GROUP_SETTINGS, TOPIC_SETTINGS, single_node
from pybroker.config.client_metrics_defs import CLIENT_METRICS_SETTINGS
from pybroker.errors import StartError
from pybroker.native import Uuid

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,9})")
LEFT_TO_REMOVE = re.compile(r".+\.[0-9a-f]{32}-(delete|stray)")
"""Directories that Apache Kafka had marked for removal."""
_INTERNAL_CONFIGS = {
    "__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    "__transaction_state": {"cleanup.policy": "compact", "segment.bytes": "104857600"},
}


class AdoptedTopic(msgspec.Struct):
    """A topic after the adoption."""

    name: str
    topic_id: Uuid
    epochs: list[int]
    """Leader epoch by partition."""
    config: dict[str, str]
    size_bytes: int
    first_id: bool
    """True if the topic had no id. The first start then writes `partition.metadata`."""


class AdoptionPlan(msgspec.Struct):
    """The plan of an adoption."""

    directories: list[Path]
    cluster_id: str
    node_id: int
    source: str = ""
    """The kind of data directory, as text."""
    topics: list[AdoptedTopic] = []
    broker_configs: dict[str, dict[str, str]] = {}
    group_configs: dict[str, dict[str, str]] = {}
    client_metrics_configs: dict[str, dict[str, str]] = {}
    security: list[Operation] = []
    """Store operations that create users, quotas, ACLs and delegation tokens."""
    features: dict[str, int] = {}
    """Finalized feature levels (KIP-584); a feature that is not listed has its highest level."""
    next_producer_id: int = 0
    notes: list[str] = []
    """Descriptions of metadata that the adoption leaves out, with the reasons."""


def make_plan(directories: Sequence[Path], topic_configs: Mapping[str, Mapping[str, str]] | None) -> AdoptionPlan:
    """Read the directories and return the plan. `topic_configs` is for directories of a ZooKeeper cluster, which do not
    contain topic settings.

    Raises StartError if the directories cannot be adopted.
    """
    properties = [_properties(directory) for directory in directories]
    first = properties[0]
    for directory, other in zip(directories[1:], properties[1:], strict=True):
        if other != first:
            raise StartError(f"{directory} belongs to {_owner(other)}, {directories[0]} to {_owner(first)}")
    version, cluster_id, node_id = first
    local, notes = _local(directories)
    log = [path for directory in directories if (path := directory / METADATA_LOG_DIRECTORY).is_dir()]
    if len(log) > 1:
        raise StartError(f"two metadata logs, {log[0]} and {log[1]}: the directories belong to different brokers")
    if version == 1 and not log:
        raise StartError(
            f"{directories[0]} belongs to a KRaft broker, but has no {METADATA_LOG_DIRECTORY}. Name all log "
            "directories of the broker, and metadata.log.dir"
        )
    plan = AdoptionPlan(list(directories), cluster_id, node_id, notes=notes)
    if log:
        plan.source = "KRaft (metadata log)"
        try:
            metadata = read_metadata(log[0])
        except (MalformedBatchError, OSError, ValueError) as problem:
            raise StartError(f"cannot read the metadata log {log[0]}: {problem}") from None
        _from_metadata(plan, metadata, local)
    else:
        plan.source = "ZooKeeper (directories only)"
        _from_directories(plan, local, topic_configs)
    if topic_configs:
        for topic in plan.topics:
            topic.config |= _known(topic.name, topic_configs.get(topic.name, {}), plan.notes)
    _check_formats(local)
    return plan


Properties = tuple[int, str, int]


def _properties(directory: Path) -> Properties:
    found = read_properties_of(directory)
    if found is None:
        raise StartError(f"{directory} has no meta.properties: it is not a data directory of Apache Kafka")
    if (directory / SQLITE_FILE).exists() or "pybroker.format" in found:
        raise StartError(f"{directory} already belongs to pybroker")
    version = found.get("version", "0")
    if version not in ("0", "1"):
        raise StartError(f"{directory}/meta.properties has version {version}; only 0 and 1 are supported")
    cluster_id = found.get("cluster.id", "")
    node = found.get("node.id", found.get("broker.id", ""))
    if not znodes.is_cluster_id(cluster_id) or not node.isdigit():
        raise StartError(f"{directory}/meta.properties has no cluster id or no broker id")
    return int(version), cluster_id, int(node)


def _owner(properties: Properties) -> str:
    return f"broker {properties[2]} of cluster {properties[1]}"


class _Local(msgspec.Struct):
    path: Path
    topic_id: Uuid | None
    problem: str | None


Places = dict[str, dict[int, _Local]]


def _local(directories: Sequence[Path]) -> tuple[Places, list[str]]:
    """Return partition directories by name and index."""
    places: Places = {}
    notes = []
    for directory in directories:
        for path in sorted(directory.iterdir()):
            if not path.is_dir() or path.name == METADATA_LOG_DIRECTORY or path.name.startswith("."):
                continue
            if LEFT_TO_REMOVE.fullmatch(path.name):
                notes.append(f"Apache Kafka had marked {path} for removal; it is moved out of the way")
                continue
            named = _PARTITION.fullmatch(path.name)
            if named is None:
                notes.append(f"{path} is not a partition directory and stays where it is")
                continue
            topic_id, problem = None, None
            try:
                topic_id = partition_metadata.read(path)
            except PartitionMetadataError as damage:
                problem = str(damage)
            there = places.setdefault(named[1], {})
            if int(named[2]) in there:
                raise StartError(f"{path} and {there[int(named[2])].path} are the same partition; remove one of them")
            there[int(named[2])] = _Local(path, topic_id, problem)
    return places, notes


def _from_metadata(plan: AdoptionPlan, metadata: KafkaMetadata, local: Places) -> None:
    names: dict[str, Uuid] = {}
    for topic in metadata.topics.values():
        if topic.name in names:
            raise StartError(f"the metadata log names topic {topic.name!r} twice")
        names[topic.name] = topic.topic_id
        there = local.get(topic.name, {})
        epochs = []
        size = 0
        if sorted(topic.partitions) != list(range(len(topic.partitions))):
            raise StartError(f"the metadata log does not contain all partitions of {topic.name!r}")
        for index in range(len(topic.partitions)):
            partition = topic.partitions[index]
            only_copy = partition.replicas == (plan.node_id,)
            if not only_copy and plan.node_id not in {*partition.isr, *partition.eligible}:
                raise StartError(
                    f"{topic.name}-{index}: broker {plan.node_id} is not in its ISR {list(partition.isr)}. Adopt "
                    "a broker that has all partitions in sync"
                )
            found = there.get(index)
            if found is None or found.problem is not None or found.topic_id not in (None, topic.topic_id):
                why = "its directory is missing" if found is None else found.problem or f"has id {found.topic_id}"
                raise StartError(f"{topic.name}-{index} (topic id {topic.topic_id}): {why}")
            if found.topic_id is None and _bytes(found.path):
                raise StartError(f"{found.path} has records but no {partition_metadata.FILE_NAME}")
            epochs.append(max(partition.leader_epoch, _epoch(found.path)))
            size += _bytes(found.path)
        config = _known(topic.name, metadata.topic_configs.get(topic.name, {}), plan.notes)
        plan.topics.append(AdoptedTopic(topic.name, topic.topic_id, epochs, config, size, False))
    for name in sorted(local.keys() - names.keys()):
        plan.notes.append(
            f"{name}: its directories belong to a topic that the metadata log does not contain; they stay where "
            "they are"
        )
    plan.broker_configs = {
        broker: _for_one_node(f"broker {broker}" if broker else "all brokers", config, plan.notes)
        for broker, config in metadata.broker_configs.items()
    }
    plan.group_configs = {
        group: kept
        for group, config in metadata.group_configs.items()
        if (kept := _with_effect(f"group {group}", config, GROUP_SETTINGS, plan.notes))
    }
    plan.client_metrics_configs = {
        name: kept
        for name, config in metadata.client_metrics_configs.items()
        if (kept := _with_effect(f"client metrics {name}", config, CLIENT_METRICS_SETTINGS, plan.notes))
    }
    plan.features = features_of(metadata.features, plan.notes)
    plan.next_producer_id = metadata.next_producer_id
    plan.security = operations_of(metadata.security, plan.notes)
    for (what, why), count in sorted(metadata.left_out.items()):
        plan.notes.append(f"{what} is not adopted ({count} in total): {why}")


def _from_directories(plan: AdoptionPlan, local: Places, configs: Mapping[str, Mapping[str, str]] | None) -> None:
    if configs is None:
        raise StartError(
            "the topic configs are in ZooKeeper, not in these directories, and a compacted topic adopted without "
            "its cleanup.policy loses records. Name them with --topic-configs FILE (JSON: topic to setting to "
            "value; {} says that no topic has any)"
        )
    for name, there in sorted(local.items()):
        ids = {found.topic_id for found in there.values() if found.topic_id is not None}
        problems = [found.problem for found in there.values() if found.problem is not None]
        if problems or len(ids) > 1:
            named = ", ".join(map(str, ids))
            raise StartError(
                f"topic {name!r}: {problems[0] if problems else f'its directories have several topic ids: {named}'}"
            )
        if sorted(there) != list(range(len(there))):
            raise StartError(f"topic {name!r}: not all of its partitions are here: {sorted(there)}")
        epochs = [_epoch(there[index].path) for index in range(len(there))]
        size = sum(_bytes(found.path) for found in there.values())
        topic_id = next(iter(ids)) if ids else Uuid.random()
        config = dict(_INTERNAL_CONFIGS.get(name, {}))
        plan.topics.append(AdoptedTopic(name, topic_id, epochs, config, size, not ids))


def _known(topic: str, config: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    if config.get("remote.storage.enable") == "true":
        raise StartError(f"topic {topic!r} has records in tiered storage, which this broker does not support")
    return _for_one_node(topic, _with_effect(topic, config, TOPIC_SETTINGS, notes), notes)


def features_of(finalized: Mapping[str, int], notes: list[str]) -> dict[str, int]:
    """Return the levels of the features that this broker supports."""
    kept = {}
    for name, level in sorted(finalized.items()):
        highest = HIGHEST.get(name)
        if highest is None:
            if level:
                notes.append(f"the feature {name} at level {level} is not adopted: this broker does not have it")
            continue
        kept[name] = min(level, highest)
        if level > highest:
            notes.append(
                f"the feature {name} is at level {level} in Apache Kafka and at {highest}, the highest of this "
                "broker, here"
            )
    for name in sorted(HIGHEST.keys() - finalized.keys()):
        notes.append(f"the feature {name} was not finalized in Apache Kafka; here it is at level {HIGHEST[name]}")
    return kept


def _with_effect(whose: str, config: Mapping[str, str], settings: Container[str], notes: list[str]) -> dict[str, str]:
    """Drop settings that this broker does not know."""
    kept = {}
    for name, value in config.items():
        if name in settings:
            kept[name] = value
        else:
            notes.append(f"{whose}: its setting {name}={value} has no effect in this broker")
    return kept


def _for_one_node(whose: str, config: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """Drop settings that require more replicas than a single broker has, because writes with acks=all would fail."""
    kept = {}
    for name, value in config.items():
        problem = single_node.problem(name, value)
        if problem is None:
            kept[name] = value
        else:
            notes.append(f"{whose}: {name}={value} is not adopted: {problem}")
    return kept


def _epoch(directory: Path) -> int:
    try:
        lines = (directory / "leader-epoch-checkpoint").read_text("ascii").splitlines()[2:]
        return max((int(line.split()[0]) for line in lines if line.strip()), default=-1)
    except FileNotFoundError:
        return -1
    except (OSError, ValueError, IndexError) as problem:
        raise StartError(f"cannot read {directory}/leader-epoch-checkpoint: {problem}") from None


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def _check_formats(local: Places) -> None:
    for there in local.values():
        for found in there.values():
            for segment in sorted(found.path.glob("*.log")):
                other = formats(segment) - {2}
                if other:
                    raise StartError(
                        f"{segment} has records of message format {min(other)}. Only format 2 (Kafka 0.11 and "
                        "later) can be adopted"
                    )


def read_topic_configs(path: Path) -> dict[str, dict[str, str]]:
    """Read `--topic-configs`: JSON, topic → setting → value. Raises StartError."""
    try:
        return msgspec.convert(json.loads(path.read_text()), dict[str, dict[str, str]])
    except (OSError, ValueError) as problem:
        raise StartError(f"{path}: {problem}") from None
