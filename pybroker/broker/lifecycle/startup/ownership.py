"""Checks of the log directories before a start writes anything: which broker and cluster own them, and whether the
last stop was clean.

Native code checks again when it has locked the directories. That is too late for this purpose, because by then the
store exists and an election may have raised the controller epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pybroker.broker.metadata.metadata_store import SQLITE_FILE, MetadataStore, get_or_none
from pybroker.broker.metadata.migration_marker import refuse_migrated
from pybroker.broker.metadata.znodes import CLUSTER_ID
from pybroker.config.broker_cluster import EMBEDDED
from pybroker.errors import StartError

META_PROPERTIES = "meta.properties"
PROPERTIES_BYTES_MAX = 64 * 1024


def refuse_others_data(log_dirs: Sequence[str], broker_id: int, *, store: str, sealed: bool = False) -> None:
    """Raise StartError in three cases: a directory belongs to another broker; a cluster has claimed the directories but
    their metadata store is missing; or a store exists although the metadata is kept elsewhere, so that its topics would
    be lost. `store`: the value of `metadata.store`. If `sealed` is true, accept a store after its content was migrated.
    """
    if store == EMBEDDED:
        if not sealed:
            refuse_migrated(Path(log_dirs[0]))
        _refuse_lost_store(Path(log_dirs[0]), [Path(log_dir) for log_dir in log_dirs])
    elif (Path(log_dirs[0]) / SQLITE_FILE).exists():
        raise StartError(
            f"{Path(log_dirs[0]) / SQLITE_FILE} is the metadata of a single broker. Move it with `pybroker metadata "
            f"migrate --to {store}` (repeat the command if it was interrupted), or point log.dirs to other directories"
        )
    _refuse(log_dirs, ("broker.id", "node.id"), "broker", str(broker_id))


async def refuse_empty_store(store: MetadataStore, log_dirs: Sequence[str], connect: str) -> None:
    """Raise StartError if the directories belong to a cluster and ZooKeeper is empty: the start would create a new
    cluster there without any of the topics."""
    for directory in log_dirs:
        cluster_id = owner_of(Path(directory)).get("cluster.id")
        if cluster_id is not None and await get_or_none(store, CLUSTER_ID) is None:
            raise StartError(
                f"ZooKeeper at {connect} holds no cluster, but {directory} belongs to cluster {cluster_id}. "
                "Correct the path in zookeeper.connect, or restore ZooKeeper's data. To start without any topic "
                "run `pybroker cluster accept-restored-store`. Nothing was changed"
            )


def refuse_other_clusters(log_dirs: Sequence[str], cluster_id: str) -> None:
    """Raise StartError if a directory belongs to another cluster."""
    _refuse(log_dirs, ("cluster.id",), "cluster", cluster_id)


def _refuse(log_dirs: Sequence[str], names: tuple[str, ...], what: str, expected: str) -> None:
    for directory in log_dirs:
        owner = owner_of(Path(directory))
        found = next((owner[name] for name in names if name in owner), expected)
        if found != expected:
            # Only experts should change ids (KIP-78), so the message contains the command.
            adopt = f". If it is the data of this cluster, run `pybroker cluster adopt-id {expected} --config FILE`"
            raise StartError(
                f"{Path(directory) / META_PROPERTIES} belongs to {what} {found}, this is {what} {expected}. "
                f"Point log.dirs to the right directory{(adopt if what == 'cluster' else '')}"
            )


def directory_id_of(directory: str) -> str:
    """Return the id of an open log directory; "" if it has none."""
    return owner_of(Path(directory)).get("directory.id", "")


def owner_of(directory: Path) -> Mapping[str, str]:
    """Return the settings in `meta.properties`; none if it cannot be read, because native code reports that problem."""
    try:
        with (directory / META_PROPERTIES).open("rb") as file:
            text = file.read(PROPERTIES_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and line.lstrip()[:1] not in "#!")
    return {name.strip(): value.strip() for name, value in pairs}


def _refuse_lost_store(first: Path, directories: Sequence[Path]) -> None:
    """Raise StartError if a cluster has claimed the directories but they have no store. Otherwise the start would
    create an empty store for another cluster, and every topic would be lost.
    """
    store = first / SQLITE_FILE
    # SQLite's write-ahead log is useless without the main file. The main file is never empty after it was first opened.
    if store.exists() and store.stat().st_size:
        return
    for directory in directories:
        if (directory / META_PROPERTIES).exists():
            raise StartError(
                f"the metadata store {store} is missing or empty, but {directory} holds data. Restore it from a "
                "backup, or point log.dirs to another directory. Nothing was changed."
            )


MARKER = ".kafka_cleanshutdown"


def unclean(log_dirs: Sequence[str]) -> list[str]:
    """Return a sentence for each directory without a mark of a clean stop (after a crash or a power cut)."""
    return [
        f"{directory} was not closed by a clean stop; checking its logs from their recovery points"
        for directory in map(Path, log_dirs)
        if (directory / META_PROPERTIES).exists() and not (directory / MARKER).exists()
    ]
