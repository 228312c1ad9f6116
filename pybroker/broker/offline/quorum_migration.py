"""`pybroker metadata migrate --to quorum`: moves the metadata of a single broker, or of a cluster on ZooKeeper, to a
metadata log of which this broker is the only voter.

Each step can be interrupted anywhere, and the next run repeats it:

- marked (ZooKeeper only): `/migration` names the broker that gets the log. If interrupted before its end: brokers start
  on ZooKeeper as before.
- written: the log is in a directory that brokers ignore, and was compared with the store. If interrupted: a single
  broker starts as before; brokers of a cluster refuse ZooKeeper.
- sealed: `metadata.sealed` is beside the embedded store, or `/migration` in ZooKeeper says so. If interrupted: the
  same.
- opened: the log has its final name. If interrupted: all brokers refuse to start.
- put aside (single broker only): `metadata.db` is renamed to `metadata.db.migrated`. If interrupted: the same.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.lifecycle.startup.ownership import owner_of, refuse_other_clusters, refuse_others_data
from pybroker.broker.lifecycle.startup.quorum_opening import own_addresses, voter_endpoint
from pybroker.broker.lifecycle.startup.store_opening import open_store
from pybroker.broker.metadata import migration_node, znodes
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_store import (
    SQLITE_FILE,
    Create,
    MetadataStore,
    MultiError,
    Node,
    NoNodeError,
    Operation,
    Set,
    StoreError,
    get_or_none,
)
from pybroker.broker.metadata.migration_marker import IN_LOG, MigrationMarker, read_marker, write_marker
from pybroker.broker.metadata.migration_node import DONE, LEAVING, LEFT, Mark, decode_mark
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.broker.offline.adopt.kafka_batches import MalformedBatchError
from pybroker.broker.offline.audit_records import audit_record
from pybroker.broker.offline.first_snapshot import begin_log, remove_tree
from pybroker.broker.offline.offline_directories import locked, put_store_aside
from pybroker.broker.offline.quorum_copies import own_directory_id
from pybroker.broker.offline.quorum_directory import snapshot_image
from pybroker.broker.offline.store_image import image_of_store
from pybroker.broker.quorum.seen_metadata import SeenPosition, write_seen
from pybroker.config import BrokerConfig
from pybroker.config.broker_cluster import EMBEDDED, QUORUM, ZOOKEEPER
from pybroker.errors import FatalError, StartError
from pybroker.files import fsync_directory
from pybroker.native import Uuid
from pybroker.native_quorum import MetadataQuorum, QuorumReplica

UNFINISHED = ".quorum-migration"
"""Directory of the log before it is opened; brokers ignore names that begin with a dot."""

StepCallback = Callable[[str], None]


class LogMigration(NamedTuple):
    """The result of the command."""

    cluster_id: str
    topics: int
    partitions: int
    address: str
    """The inter-broker address of this broker, with which the other brokers join."""


class _NewLog:
    """The new metadata log in the first log directory of this broker."""

    def __init__(self, config: BrokerConfig, cluster_id: str) -> None:
        """Raises StartError if other brokers could not reach this broker."""
        self._config = config
        self._cluster_id = cluster_id
        self._first = Path(config.metadata_log_dir)
        self._unfinished = self._first / UNFINISHED
        self._directory = self._first / METADATA_LOG_DIRECTORY
        if not own_addresses(config):
            raise StartError(
                f"the listener {config.between_brokers} needs a fixed port: voters of the metadata log keep each "
                "other's addresses"
            )
        self._voter = QuorumReplica(config.broker_id, own_directory_id(config, cluster_id))

    @property
    def directory_id(self) -> Uuid:
        """The id of the log directory."""
        return self._voter.directory_id

    @property
    def address(self) -> str:
        """The inter-broker address of this broker."""
        address = own_addresses(self._config)[0]
        return f"{address.host}:{address.port}"

    @property
    def opened(self) -> bool:
        """Whether the log has its final name."""
        return self._directory.is_dir() and MetadataQuorum.is_formatted(self._directory)

    def refuse_another(self) -> None:
        """Raise StartError if the broker already has a metadata log."""
        if self.opened:
            raise StartError(
                f"{self._directory} is a metadata log already. Nothing was changed. If no cluster uses it, move it away"
            )

    def write(self, image: ClusterImage) -> LogMigration:
        """Write the log, and compare it with the image. Raises StartError."""
        remove_tree(self._unfinished)
        voter, endpoints = self._voter, voter_endpoint(self._config)
        begin_log(
            self._config, self._cluster_id, image, voter, endpoints=endpoints, directory=self._unfinished
        )
        fsync_directory(self._first)
        try:
            written = snapshot_image(self._unfinished)
        except (MalformedBatchError, ValueError) as problem:
            raise StartError(f"the metadata log in {self._unfinished} cannot be read: {problem}") from None
        different = [name for name in image.__struct_fields__ if getattr(image, name) != getattr(written, name)]
        if different:
            raise StartError(f"the metadata log differs from the store: {', '.join(different)}. Nothing was changed")
        return self.result(image)

    def result(self, image: ClusterImage) -> LogMigration:
        """Return the content of the log."""
        partitions = sum(len(topic.partitions) for topic in image.topics.values())
        return LogMigration(self._cluster_id, len(image.topics), partitions, self.address)

    def open(self, image: ClusterImage) -> None:
        """Give the log its final name. Before that, store its newest position; otherwise the broker would later accept
        an older log."""
        write_seen(self._first, SeenPosition(image.controller_epoch, image.offset))
        self._unfinished.rename(self._directory)
        fsync_directory(self._first)


# --- a single broker --------------------------------------------------------------------------------------------------


async def migrate_broker(config: BrokerConfig, on_step: StepCallback = lambda step: None) -> LogMigration:
    """Move the metadata of a stopped single broker. `config` has the settings with which it will start. `on_step` is
    called at the end of each step, with its name. Raises StartError, with a remedy."""
    if not config.in_quorum:
        raise StartError(
            "use the settings for the metadata quorum: metadata.store=quorum and a listener for brokers "
            "(docs/cluster.md)"
        )
    first = Path(config.log_dirs[0])
    seal = read_marker(first)
    if seal is not None and (not seal.in_log or not (first / SQLITE_FILE).exists()):
        raise StartError(f"the metadata of {first} has already moved to {seal.place}. Start with {seal.settings}")
    if not (first / SQLITE_FILE).exists():
        raise StartError(f"{first} has no metadata store ({SQLITE_FILE}): there is nothing to migrate")
    refuse_others_data(config.log_dirs, config.broker_id, store=EMBEDDED, sealed=True)
    with locked([Path(log_dir) for log_dir in config.log_dirs]):
        store = await EmbeddedStore.open(first, sealed=True)
        try:
            nodes = await store.subtree("/")
        finally:
            await store.close()
        cluster_id = _cluster_id(nodes, "the broker has never started: there is nothing to migrate")
        refuse_other_clusters(config.log_dirs, cluster_id)
        log, image = _NewLog(config, cluster_id), image_of_store(nodes)
        if seal is None or not log.opened:
            log.refuse_another()
            await asyncio.to_thread(log.write, image)
            on_step("written")
            write_marker(first, MigrationMarker(IN_LOG, cluster_id, secrets.token_hex(16)))
            on_step("sealed")
            log.open(image)
            on_step("opened")
        put_store_aside(first)
    on_step("put aside")
    return log.result(image)


def _cluster_id(nodes: Mapping[str, Node], missing: str) -> str:
    node = nodes.get(znodes.CLUSTER_ID)
    if node is None:
        raise StartError(missing)
    try:
        return znodes.decode_cluster_id(node.data)
    except DamagedNodeError as problem:
        raise StartError(f"the metadata store is damaged: {problem}") from None


# --- a cluster on ZooKeeper -------------------------------------------------------------------------------------------


async def migrate_cluster(config: BrokerConfig, on_step: StepCallback = lambda step: None) -> LogMigration:
    """Move the metadata of a cluster whose brokers are stopped. `config` has the settings with which this broker ran on
    ZooKeeper. `on_step` is called at the end of each step, with its name. Raises StartError, with a remedy."""
    if not config.in_cluster or config.in_quorum:
        raise StartError(
            "use the settings with which this broker ran on ZooKeeper: metadata.store=zookeeper, zookeeper.connect=…"
        )
    if not config.topic_ids:
        raise StartError("inter.broker.protocol.version must be 2.8 or later for a metadata quorum")
    refuse_others_data(config.log_dirs, config.broker_id, store=ZOOKEEPER)
    first = Path(config.log_dirs[0])
    if not owner_of(first):
        raise StartError(f"{first} has no data of the cluster. Run the command with the settings of one of its brokers")
    with locked([Path(log_dir) for log_dir in config.log_dirs]):
        failures: list[FatalError] = []
        store = await open_store(config, failures.append)
        try:
            return await _Departure(config, store, on_step).run()
        except (StoreError, DamagedNodeError) as problem:
            raise StartError(
                f"{failures[0] if failures else problem}; run `pybroker metadata migrate --from zookeeper --to quorum` "
                "again"
            ) from None
        finally:
            await store.close()


class _Departure:
    """One run of the command with ZooKeeper."""

    def __init__(self, config: BrokerConfig, store: MetadataStore, on_step: StepCallback) -> None:
        self._config = config
        self._store = store
        self._on_step = on_step

    async def run(self) -> LogMigration:
        nodes = await self._read()
        cluster_id = _cluster_id(
            nodes, f"ZooKeeper at {self._config['zookeeper.connect']} holds no cluster. Correct zookeeper.connect"
        )
        refuse_other_clusters(self._config.log_dirs, cluster_id)
        log = _NewLog(self._config, cluster_id)
        mark = self._known_mark(nodes, log)
        if log.opened:
            if mark is not None and mark.state == LEFT:
                raise StartError(
                    f"the metadata of this cluster has already moved to the metadata log of broker {mark.broker_id}. "
                    "Start it with metadata.store=quorum and without the settings of ZooKeeper"
                )
            log.refuse_another()
        if mark is None:
            _refuse_running(nodes)
            # Check this before the mark is written, because a store that cannot be moved must stay usable.
            image_of_store(nodes)
            mark = await self._mark(nodes, cluster_id, log)
        self._on_step("marked")
        nodes = await self._read()
        image = image_of_store(nodes)
        if mark.state == LEAVING:
            _refuse_running(nodes)
        result = await asyncio.to_thread(log.write, image)
        self._on_step("written")
        if mark.state == LEAVING:
            await self._seal(nodes, mark)
        self._on_step("sealed")
        log.open(image)
        self._on_step("opened")
        return result

    async def _read(self) -> dict[str, Node]:
        await self._store.sync()
        return await self._store.subtree("/")

    def _known_mark(self, nodes: Mapping[str, Node], log: _NewLog) -> Mark | None:
        """Return the mark of an earlier run for this broker; None if there is none."""
        node = nodes.get(migration_node.PATH)
        mark = None if node is None else decode_mark(node)
        if mark is None or mark.state == DONE:
            return None
        if mark.state not in (LEAVING, LEFT):
            raise StartError(
                "a migration of a broker's metadata to this ZooKeeper is not complete. Finish it first with `pybroker "
                "metadata migrate --to zookeeper`"
            )
        if (mark.broker_id, mark.directory_id) != (self._config.broker_id, str(log.directory_id)):
            raise StartError(
                f"broker {mark.broker_id} has begun this migration, with another data directory. Run the command with "
                "its settings, on its machine"
            )
        return mark

    async def _mark(self, nodes: Mapping[str, Node], cluster_id: str, log: _NewLog) -> Mark:
        mark = Mark(
            secrets.token_hex(16),
            cluster_id,
            LEAVING,
            broker_id=self._config.broker_id,
            directory_id=str(log.directory_id),
            address=log.address,
        )
        known = nodes.get(migration_node.PATH)
        path, data = migration_node.PATH, mark.encode()
        await self._store.multi([Create(path, data) if known is None else Set(path, data, known.version)])
        return mark

    async def _seal(self, nodes: Mapping[str, Node], mark: Mark) -> None:
        """Write the mark that makes brokers refuse ZooKeeper permanently, unless another program has changed the mark
        in the meantime."""
        now = await self._read()
        _refuse_running(now)
        if _contents(now) != _contents(nodes):
            raise StartError("another program has changed ZooKeeper meanwhile. Stop all brokers, and run this again")
        left = msgspec.structs.replace(mark, state=LEFT)
        operations: list[Operation] = [
            Set(migration_node.PATH, left.encode(), now[migration_node.PATH].version),
            audit_record("metadata migrate", cluster_id=mark.cluster_id, to=QUORUM, broker=mark.broker_id),
        ]
        try:
            await self._store.multi(operations)
        except (MultiError, NoNodeError):
            node = await get_or_none(self._store, migration_node.PATH)
            if node is None or decode_mark(node) != left:
                raise


def _contents(nodes: Mapping[str, Node]) -> dict[str, tuple[bytes, int]]:
    return {path: (node.data, node.version) for path, node in nodes.items() if not path.startswith("/zookeeper")}


def _refuse_running(nodes: Mapping[str, Node]) -> None:
    parent = znodes.BROKER_IDS + "/"
    running = sorted(path.removeprefix(parent) for path in nodes if path.startswith(parent))
    if running:
        raise StartError(
            f"brokers are registered in ZooKeeper: {', '.join(running)}. Stop all brokers of the cluster; the "
            "registration of a killed broker ends after zookeeper.session.timeout.ms"
        )
