"""Executes an adoption in durable steps. The point of no return is one rename: before it the directories belong to
Apache Kafka, complete and unchanged; after it they belong to pybroker. If the later steps are interrupted, the next
`adopt` finishes them; the broker can start without them.

    1  .adopting/metadata.db     the whole metadata store, closed and synced
    2  metadata.db               renamed into place: adopted
    3  meta.properties           of each directory: marked as ours, so that Apache Kafka cannot start on it by mistake
    4  .adopted/                 the KRaft metadata log, and directories that Apache Kafka was to remove, moved away
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.feature_levels import FEATURES, encode_features
from pybroker.broker.metadata.metadata_store import SQLITE_FILE, Create, Operation, ensure_paths
from pybroker.broker.metadata.quota_nodes import CLIENT_CONFIGS, IP_CONFIGS
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.offline.adopt.adoption_plan import LEFT_TO_REMOVE, AdoptedTopic, AdoptionPlan
from pybroker.broker.offline.audit_records import audit_record
from pybroker.broker.offline.offline_directories import read_properties_of, write_properties_of
from pybroker.broker.security.security_state import SECURITY_PATHS
from pybroker.files import fsync_directory
from pybroker.native import Uuid

WORK = ".adopting"
ASIDE = ".adopted"
TOPICS_A_MULTI = 100
NODES_A_MULTI = 1_000


async def carry_out(plan: AdoptionPlan) -> None:
    """Run steps 1 to 4. The caller holds the locks."""
    first = plan.directories[0]
    work = first / WORK
    if work.exists():
        shutil.rmtree(work)
    work.mkdir()
    store = await EmbeddedStore.open(work)
    try:
        await _fill(store, plan)
    finally:
        await store.close()
    _sync(work / SQLITE_FILE)
    os.rename(work / SQLITE_FILE, first / SQLITE_FILE)
    fsync_directory(first)
    finish(plan.directories)


def finish(directories: list[Path]) -> None:
    """Run steps 3 and 4. Idempotent."""
    for directory in directories:
        properties = read_properties_of(directory) or {}
        if "pybroker.format" not in properties:
            node = properties.get("node.id", properties.get("broker.id", ""))
            directory_id = properties.get("directory.id") or str(Uuid.random())
            write_properties_of(
                directory,
                {
                    "version": "0",
                    "broker.id": node,
                    "cluster.id": properties["cluster.id"],
                    "directory.id": directory_id,
                    "pybroker.format": "1",
                },
            )
        aside = [
            path
            for path in directory.iterdir()
            if path.name == METADATA_LOG_DIRECTORY or LEFT_TO_REMOVE.fullmatch(path.name)
        ]
        if aside:
            (directory / ASIDE).mkdir(exist_ok=True)
            for path in aside:
                os.rename(path, directory / ASIDE / path.name)
            fsync_directory(directory)
    shutil.rmtree(directories[0] / WORK, ignore_errors=True)


def unfinished(directory: Path) -> bool:
    """Return whether an adoption has passed the point of no return but has not finished."""
    properties = read_properties_of(directory)
    return (directory / SQLITE_FILE).exists() and properties is not None and "pybroker.format" not in properties


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


async def _fill(store: EmbeddedStore, plan: AdoptionPlan) -> None:
    await ensure_paths(store, znodes.PERSISTENT_PATHS)
    operations: list[Operation] = [Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(plan.cluster_id))]
    for name, config in plan.broker_configs.items():
        operations.append(
            Create(znodes.broker_config_path(name or znodes.DEFAULT_BROKER_CONFIG), znodes.encode_config(config))
        )
    for group, config in plan.group_configs.items():
        operations.append(Create(znodes.group_config_path(group), znodes.encode_config(config)))
    for name, config in plan.client_metrics_configs.items():
        operations.append(Create(znodes.client_metrics_config_path(name), znodes.encode_config(config)))
    if plan.features:
        operations.append(Create(FEATURES, encode_features(plan.features)))
    if plan.next_producer_id:
        block = {
            "version": 1,
            "broker": plan.node_id,
            "block_start": "0",
            "block_end": str(plan.next_producer_id - 1),
        }
        operations.append(Create("/latest_producer_id_block", msgspec.json.encode(block)))
    await store.multi(operations)
    if plan.security:
        await ensure_paths(store, (*SECURITY_PATHS, CLIENT_CONFIGS, IP_CONFIGS))
        for start in range(0, len(plan.security), NODES_A_MULTI):
            await store.multi(plan.security[start : start + NODES_A_MULTI])
    for start in range(0, len(plan.topics), TOPICS_A_MULTI):
        batch = plan.topics[start : start + TOPICS_A_MULTI]
        await store.multi([operation for topic in batch for operation in _topic(topic, plan.node_id)])
    for topic in plan.topics:
        if topic.first_id:
            # The directories have records but no topic id. This node stores the id, and the first start writes it to
            # the directories.
            created = (await store.get(znodes.topic_path(topic.name))).created_zxid
            record = znodes.TopicIdRecord(topic.topic_id, created)
            await store.create(znodes.topic_id_path(topic.name), record.encode())
    facts = {"cluster_id": plan.cluster_id, "broker": plan.node_id, "source": plan.source}
    audit = audit_record(
        "adopt",
        directories=[str(directory) for directory in plan.directories],
        topics=len(plan.topics),
        notes=plan.notes,
        **facts,
    )
    await store.multi([audit])


def _topic(topic: AdoptedTopic, node_id: int) -> list[Operation]:
    node = znodes.TopicNode(topic.topic_id, dict.fromkeys(range(len(topic.epochs)), (node_id,)))
    operations: list[Operation] = [
        Create(znodes.topic_path(topic.name), node.encode()),
        Create(znodes.partitions_path(topic.name)),
    ]
    for index, epoch in enumerate(topic.epochs):
        path = znodes.state_path(topic.name, index)
        # Store no leader. When this broker registers, it is elected, with an epoch above all epochs in the log.
        state = znodes.encode_state(0, -1, max(0, epoch), (node_id,))
        operations += [Create(path.removesuffix("/state")), Create(path, state)]
    if topic.config:
        operations.append(Create(znodes.topic_config_path(topic.name), znodes.encode_config(topic.config)))
    return operations
