"""`pybroker cluster adopt-id`: changes the cluster id of a stopped broker.

The command writes the id and the audit record to the store first, then `meta.properties` of each directory. After a
crash in between, the next start refuses the remaining directories and suggests this command, which then finishes the
work.

In a cluster all brokers share the id, which is in ZooKeeper or, in a metadata quorum, in `meta.properties` beside the
metadata log: the command changes only the directories of this broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pybroker.broker.lifecycle.startup.store_opening import open_store
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import (
    SQLITE_FILE,
    Create,
    Operation,
    Set,
    StoreError,
    ensure_paths,
    get_or_none,
)
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.offline.audit_records import audit_record
from pybroker.broker.offline.offline_directories import locked, read_properties_of, write_properties_of
from pybroker.broker.offline.quorum_copies import metadata_directory
from pybroker.config import BrokerConfig
from pybroker.errors import StartError


class ClusterIdChange(NamedTuple):
    """The result of the command."""

    before: str | None
    """The id in the store or, in a cluster, in the directories; None if there was no id."""
    directories: tuple[Path, ...]
    """Directories whose `meta.properties` had another id."""


async def adopt_cluster_id(config: BrokerConfig, cluster_id: str) -> ClusterIdChange:
    """Make `cluster_id` the id of the broker with these settings.

    Raises StartError if the id is invalid, a directory is in use, the store is lost, files are damaged, or, in a
    cluster, the id is not the cluster's.
    """
    directories = [Path(each) for each in config.log_dirs]
    if not znodes.is_cluster_id(cluster_id):
        raise StartError(f"{cluster_id!r} is not a cluster id. Use letters, digits, '_' and '-' only")
    first = directories[0]
    with locked(directories):
        properties = {directory: read_properties_of(directory) for directory in directories}
        if config.in_cluster:
            if config.in_quorum:
                _check_id_of_quorum(config, properties[Path(config.metadata_log_dir)], cluster_id)
            else:
                await _check_id_of_cluster(config, cluster_id)
            owned = (content["cluster.id"] for content in properties.values() if content and "cluster.id" in content)
            before: str | None = next((each for each in owned if each != cluster_id), cluster_id)
        else:
            if properties[first] is not None and not (first / SQLITE_FILE).exists():
                message = f"{first} holds data but no metadata store ({SQLITE_FILE}). Restore it from a backup first"
                raise StartError(message)
            store = await EmbeddedStore.open(first)
            try:
                before = await _change(store, cluster_id)
            finally:
                await store.close()
        changed = []
        for directory, content in properties.items():
            if content is not None and content.get("cluster.id") != cluster_id:
                write_properties_of(directory, {**content, "cluster.id": cluster_id})
                changed.append(directory)
    return ClusterIdChange(before, tuple(changed))


def _check_id_of_quorum(config: BrokerConfig, properties: Mapping[str, str] | None, cluster_id: str) -> None:
    """Raise StartError if the id is not the id of the metadata log. Without the log, the broker joins the cluster that
    has the id."""
    found = (properties or {}).get("cluster.id")
    if found not in (None, cluster_id) and metadata_directory(config).exists():
        raise StartError(
            f"the metadata log in {config.metadata_log_dir} belongs to cluster {found}, whose brokers share that id. "
            f"Adopt {found}, or give this broker an empty directory for the metadata log to join another cluster"
        )


async def _check_id_of_cluster(config: BrokerConfig, cluster_id: str) -> None:
    where = f"ZooKeeper at {config['zookeeper.connect']}"
    try:
        store = await open_store(config, lambda problem: None)
        try:
            node = await get_or_none(store, znodes.CLUSTER_ID)
        finally:
            await store.close()
        found = None if node is None else znodes.decode_cluster_id(node.data)
    except (StoreError, znodes.DamagedNodeError) as problem:
        raise StartError(f"{where}: {problem}") from None
    if found is None:
        raise StartError(f"{where} holds no cluster. Correct the path in zookeeper.connect")
    if found != cluster_id:
        raise StartError(f"{where} holds cluster {found}, whose brokers share that id. Adopt {found}")


async def _change(store: EmbeddedStore, cluster_id: str) -> str | None:
    await ensure_paths(store, ("/cluster", znodes.AUDIT))
    node = await get_or_none(store, znodes.CLUSTER_ID)
    before = None
    if node is not None:
        try:
            before = znodes.decode_cluster_id(node.data)
        except znodes.DamagedNodeError:
            before = node.data.decode("utf-8", "replace")
    if before == cluster_id:
        return before
    data = znodes.encode_cluster_id(cluster_id)
    write: Operation = Create(znodes.CLUSTER_ID, data) if node is None else Set(znodes.CLUSTER_ID, data, node.version)
    await store.multi([write, audit_record("cluster adopt-id", before=before, after=cluster_id)])
    return before
