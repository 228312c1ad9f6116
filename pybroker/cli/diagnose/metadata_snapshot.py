"""The metadata store of a stopped broker. The command changes nothing: it copies the embedded store and reads the copy,
and it only sends read requests to ZooKeeper."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pybroker.broker.metadata.metadata_store import SQLITE_FILE, Node
from pybroker.broker.metadata.node_table import NodeTable
from pybroker.broker.observability.diagnosis import node_documents
from pybroker.config import BrokerConfig, ConfigSource
from pybroker.errors import FatalError

ANSWER_MS_MAX = 10_000


async def metadata(config: BrokerConfig) -> dict[str, Any]:
    """Return the nodes for JSON. Raises StartError, StoreError, OSError or sqlite3.Error if the store cannot be
    read."""
    found = await _of_zookeeper(config) if config.in_cluster else _of_file(Path(config.log_dirs[0]))
    return node_documents.document(found)


def _of_file(directory: Path) -> Mapping[str, Node]:
    path = directory / SQLITE_FILE
    with tempfile.TemporaryDirectory(prefix="pybroker-diagnose-") as place:
        copy = Path(place) / SQLITE_FILE
        shutil.copyfile(path, copy)
        # After a crash, the write-ahead log contains a part of the data.
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            table = NodeTable(connection, create=False)
            found: dict[str, Node] = {}
            for root in node_documents.ROOTS:
                node = table.get(root)
                if node is not None:
                    found |= {root: node, **table.subtree(root)}
            return found


async def _of_zookeeper(config: BrokerConfig) -> Mapping[str, Node]:
    from pybroker.broker.lifecycle.startup.store_opening import open_store

    def on_fatal(problem: FatalError) -> None:
        """Do nothing: the next call to the store raises the error."""

    static = {**config.layer(ConfigSource.STATIC_BROKER_CONFIG)}
    static["zookeeper.connection.timeout.ms"] = str(ANSWER_MS_MAX)
    store = await open_store(BrokerConfig(static, config.listener_settings), on_fatal)
    try:
        return await node_documents.read(store)
    finally:
        await store.close()
