"""Shared by the tests of topic ids: a stopped broker's store and directories, changed by the test, and records by
topic."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import NoNodeError, ensure_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.native import Uuid
from pybroker.protocol.messages import MetadataRequest, MetadataRequest_MetadataRequestTopic
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

T = TypeVar("T")


def in_store(directory: Path, work: Callable[[EmbeddedStore], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the metadata store of a stopped broker."""

    async def run() -> T:
        store = await EmbeddedStore.open(directory)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def put(directory: Path, nodes: Mapping[str, bytes]) -> None:
    """Write nodes directly, with their parents."""

    async def work(store: EmbeddedStore) -> None:
        for path, data in nodes.items():
            await ensure_path(store, path)
            await store.set(path, data)

    in_store(directory, work)


def nodes_below(directory: Path, path: str) -> dict[str, bytes]:
    """Return path → value."""

    async def work(store: EmbeddedStore) -> dict[str, bytes]:
        return {name: node.data for name, node in (await store.subtree(path)).items()}

    return in_store(directory, work)


def topic_node(directory: Path, name: str) -> dict[str, Any]:
    """Return the JSON of a topic's znode."""
    found: dict[str, Any] = json.loads(nodes_below(directory, znodes.TOPICS)[znodes.topic_path(name)])
    return found


def topic_ids(broker: BrokerProcess, *names: str) -> dict[str, Uuid]:
    """Return the topic id in Metadata; ZERO for a topic that is not served."""
    topics = [MetadataRequest_MetadataRequestTopic(name=name) for name in names]
    with WireClient(broker.port) as client:
        answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    return {topic.name: topic.topic_id for topic in answer.topics}


def metadata_file(broker: BrokerProcess, name: str, partition: int = 0) -> Path:
    """Return the path of a partition's `partition.metadata` in the first log directory."""
    return broker.data_dir / f"{name}-{partition}" / "partition.metadata"


def before_ids(broker: BrokerProcess, version: int, *names: str) -> None:
    """Turn a stopped broker's topics into those of a broker from before topic ids."""
    for name in names:
        node = topic_node(broker.data_dir, name)
        old = {"version": version, "partitions": node["partitions"]}
        if version == 2:
            old |= {"adding_replicas": {}, "removing_replicas": {}}
        put(broker.data_dir, {znodes.topic_path(name): json.dumps(old).encode()})
        if "id" in node:
            forget_history(broker.data_dir, Uuid.parse(node["id"]))
        for file in broker.data_dir.glob(f"{name}-*/partition.metadata"):
            file.unlink()


def forget_history(directory: Path, topic_id: Uuid) -> None:
    """Remove the histories: brokers from before topic ids stored none."""

    async def forget(store: EmbeddedStore) -> None:
        with contextlib.suppress(NoNodeError):
            await store.delete(znodes.lineage_path(topic_id))

    in_store(directory, forget)
