"""`pybroker metadata migrate --to zookeeper`: turns a single broker into the first one of a cluster.

The embedded store has ZooKeeper's structure, so its nodes are copied unchanged: ids, settings, users, ACLs, deletion
records, histories, ingests. Each step can be interrupted anywhere, and the next run repeats it:

- marked: `/migration` says that a copy is in progress. If interrupted before its end: brokers refuse this ZooKeeper;
  the embedded store still works.
- copied, compared: every node, byte for byte. If interrupted: the same; the next run copies the differences.
- sealed: `metadata.sealed` is beside the embedded store. If interrupted: brokers refuse the embedded store, and still
  refuse ZooKeeper.
- opened: `/migration` says that the copy is complete. If interrupted: the same.
- put aside: `metadata.db` is renamed to `metadata.db.migrated`. If interrupted: ZooKeeper has the metadata; brokers
  refuse this broker's directories.

Not copied: ephemeral nodes, and broker epochs, which are transaction ids of the embedded store.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pybroker.broker.lifecycle.startup.ownership import refuse_other_clusters, refuse_others_data
from pybroker.broker.lifecycle.startup.store_opening import open_store
from pybroker.broker.metadata import migration_node, znodes
from pybroker.broker.metadata.metadata_store import (
    SQLITE_FILE,
    Create,
    Delete,
    MetadataStore,
    MultiError,
    Node,
    Operation,
    Set,
    StoreError,
    UnavailableError,
    UnknownOutcomeError,
    get_or_none,
    in_parts,
)
from pybroker.broker.metadata.migration_marker import MigrationMarker, read_marker, write_marker
from pybroker.broker.metadata.migration_node import COPYING, DONE, Mark, decode_mark
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.broker.offline.audit_records import audit_record
from pybroker.broker.offline.offline_directories import locked, put_store_aside
from pybroker.config import BrokerConfig
from pybroker.config.broker_cluster import EMBEDDED
from pybroker.errors import FatalError, StartError

ATTEMPTS_MAX = 10
"""Limit of attempts to copy if the connection breaks. Each attempt continues after the nodes that already exist."""

AGAIN = "run `pybroker metadata migrate --to zookeeper` again"
NOT_COPIED = frozenset({znodes.BROKER_EPOCHS})
"""Nodes that the target also has, but with other values, which must not be overwritten."""

StepCallback = Callable[[str], None]


class MigrationResult(NamedTuple):
    """The result of the command."""

    cluster_id: str
    nodes: int
    """Number of copied nodes; 0 if an earlier run has copied them."""
    topics: int


async def migrate(config: BrokerConfig, on_step: StepCallback = lambda step: None) -> MigrationResult:
    """Move the metadata to ZooKeeper. `config` has the settings with which the broker will start in the cluster.
    `on_step` is called at the end of each step, with its name.

    Raises StartError, with a remedy, if the broker runs, there is nothing to migrate, ZooKeeper has another cluster's
    metadata or is unreachable, or something is damaged.
    """
    if not config.in_cluster or config.in_quorum:
        raise StartError(
            "use the settings for the cluster: metadata.store=zookeeper, zookeeper.connect=…, and a listener for "
            "brokers (docs/cluster.md)"
        )
    directories = [Path(log_dir) for log_dir in config.log_dirs]
    first, connect = directories[0], config.get_str("zookeeper.connect")
    seal = read_marker(first)
    if seal is not None and not (first / SQLITE_FILE).exists():
        raise StartError(f"the metadata of {first} has already moved to {seal.place}. Start with {seal.settings}")
    if not (first / SQLITE_FILE).exists():
        raise StartError(f"{first} has no metadata store ({SQLITE_FILE}): there is nothing to migrate")
    refuse_others_data(config.log_dirs, config.broker_id, store=EMBEDDED, sealed=True)
    with locked(directories):
        source = await EmbeddedStore.open(first, sealed=True)
        try:
            cluster_id = await _cluster_id(source)
            refuse_other_clusters(config.log_dirs, cluster_id)
            failures: list[FatalError] = []
            target = await open_store(config, failures.append)
            try:
                run = _Run(source, target, connect, cluster_id, first)
                done = await run.all(seal, on_step)
            except (StoreError, DamagedNodeError) as problem:
                raise StartError(f"{failures[0] if failures else problem}; {AGAIN}") from None
            finally:
                await target.close()
        finally:
            await source.close()
        put_store_aside(first)
    on_step("put aside")
    return done


async def _cluster_id(source: EmbeddedStore) -> str:
    node = await get_or_none(source, znodes.CLUSTER_ID)
    if node is None:
        raise StartError("the broker has never started: there is nothing to migrate")
    try:
        return znodes.decode_cluster_id(node.data)
    except DamagedNodeError as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None


class _Run:
    """One run of the command; both stores are open."""

    def __init__(
        self, source: MetadataStore, target: MetadataStore, connect: str, cluster_id: str, first: Path
    ) -> None:
        self._source = source
        self._target = target
        self._connect = connect
        self._cluster_id = cluster_id
        self._first = first

    async def all(self, seal: MigrationMarker | None, on_step: StepCallback) -> MigrationResult:
        """Run all steps up to the mark that opens the copy."""
        mark = await self._mark(seal)
        on_step("marked")
        wanted = _to_copy(await self._source.subtree("/"))
        _refuse_without_ids(wanted)
        topics = sum(path.startswith(f"{znodes.TOPICS}/") and path.count("/") == 3 for path in wanted)
        if mark.state == DONE:
            return MigrationResult(self._cluster_id, 0, topics)
        await self._copy(wanted)
        on_step("copied")
        await self._compare(wanted)
        on_step("compared")
        write_marker(self._first, MigrationMarker(self._connect, self._cluster_id, mark.migration))
        on_step("sealed")
        await self._open(mark)
        on_step("opened")
        return MigrationResult(self._cluster_id, len(wanted), topics)

    async def _mark(self, seal: MigrationMarker | None) -> Mark:
        """Return the migration mark in the target; create it unless an earlier run has created it."""
        node = await get_or_none(self._target, migration_node.PATH)
        if node is not None:
            mark = decode_mark(node)
            ours = mark.state == COPYING if seal is None else mark.migration == seal.migration
            if mark.cluster_id != self._cluster_id or not ours:
                raise self._taken(mark.cluster_id)
            return mark
        if seal is not None:
            raise StartError(
                f"{self._first} is sealed for zookeeper.connect={seal.connect}, but {self._connect} has no copy. "
                "Name the ZooKeeper that has the copy"
            )
        there = [name for name in await self._target.children("/") if name != "zookeeper"]
        if there:
            raise self._taken(await self._other_id())
        mark = Mark(secrets.token_hex(16), self._cluster_id, COPYING)
        try:
            await self._target.create(migration_node.PATH, mark.encode())
        except UnknownOutcomeError:
            return await self._mark(seal)
        return mark

    async def _other_id(self) -> str:
        node = await get_or_none(self._target, znodes.CLUSTER_ID)
        return "(none)" if node is None else znodes.decode_cluster_id(node.data)

    def _taken(self, cluster_id: str) -> StartError:
        return StartError(
            f"zookeeper.connect={self._connect} already holds a cluster (id {cluster_id}). Name an empty path "
            "(host:port/path). Nothing was changed"
        )

    async def _copy(self, wanted: Mapping[str, bytes]) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await self._target.sync()
                there = _copied(await self._target.subtree("/"))
                for part in in_parts(_differences(wanted, there)):
                    await self._target.multi(part)
                return
            except (UnavailableError, UnknownOutcomeError, MultiError):
                # A write whose connection broke may or may not have succeeded. The next attempt reads the nodes again.
                if attempt == ATTEMPTS_MAX:
                    raise

    async def _compare(self, wanted: Mapping[str, bytes]) -> None:
        await self._target.sync()
        there = _copied(await self._target.subtree("/"))
        different = next((path for path in sorted({*wanted, *there}) if wanted.get(path) != there.get(path)), None)
        if different is not None:
            raise StartError(
                f"the copy in ZooKeeper differs from the source at {different}: another program writes to this "
                "ZooKeeper"
            )

    async def _open(self, mark: Mark) -> None:
        """Write the mark that opens the copy. Brokers may then start on it."""
        whole = Mark(mark.migration, mark.cluster_id, DONE).encode()
        record = audit_record("metadata migrate", cluster_id=mark.cluster_id, to="zookeeper")
        for attempt in range(1, ATTEMPTS_MAX + 1):
            node = await self._target.get(migration_node.PATH)
            if decode_mark(node).state == DONE:
                return
            try:
                await self._target.multi([Set(migration_node.PATH, whole, node.version), record])
                return
            except (UnavailableError, UnknownOutcomeError, MultiError):
                if attempt == ATTEMPTS_MAX:
                    raise


def _to_copy(nodes: Mapping[str, Node]) -> dict[str, bytes]:
    return {path: b"" if path in NOT_COPIED else node.data for path, node in nodes.items() if not node.ephemeral_owner}


def _refuse_without_ids(wanted: Mapping[str, bytes]) -> None:
    """Refuse to migrate if the id of a topic depends on the transaction that created the topic's node in this store,
    because its number has no meaning in another store.
    """
    for path, data in sorted(wanted.items()):
        parent, _, name = path.rpartition("/")
        if parent == znodes.TOPICS and znodes.decode_topic(path, data).topic_id is None:
            raise StartError(
                f"topic {name} has no topic id yet. Start the broker once more without ZooKeeper and with "
                "inter.broker.protocol.version 2.8 or later"
            )


def _copied(nodes: Mapping[str, Node]) -> dict[str, bytes]:
    """Return the nodes in the target, except ZooKeeper's own nodes and the mark."""
    return {
        path: node.data
        for path, node in nodes.items()
        if path.split("/", 2)[1] not in ("zookeeper", migration_node.PATH[1:])
    }


def _differences(wanted: Mapping[str, bytes], there: Mapping[str, bytes]) -> list[Operation]:
    """Return the operations that make the target equal to the source. Deletions remove children before parents;
    creations create parents before children.
    """
    gone: list[Operation] = [Delete(path) for path in sorted(set(there) - set(wanted), reverse=True)]
    changed: list[Operation] = [
        Create(path, wanted[path]) if path not in there else Set(path, wanted[path])
        for path in sorted(wanted)
        if there.get(path) != wanted[path]
    ]
    return gone + changed
