"""Opens the configured metadata store, creates its permanent nodes and the cluster id (KIP-78)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.ingest_records import INGEST_COMMITTED, INGEST_OPEN
from pybroker.broker.metadata.metadata_store import (
    MetadataStore,
    NodeExistsError,
    UnavailableError,
    UnknownOutcomeError,
    ensure_path,
    ensure_paths,
    get_or_none,
)
from pybroker.broker.metadata.migration_node import refuse_unfinished
from pybroker.broker.metadata.quota_nodes import CLIENT_CONFIGS, IP_CONFIGS
from pybroker.broker.metadata.znodes import PERSISTENT_PATHS, DamagedNodeError
from pybroker.broker.security.security_state import SECURITY_PATHS
from pybroker.config import BrokerConfig
from pybroker.errors import FatalError, StartError
from pybroker.native import Uuid

ALWAYS_THERE = (*PERSISTENT_PATHS, CLIENT_CONFIGS, IP_CONFIGS, INGEST_OPEN, INGEST_COMMITTED, *SECURITY_PATHS)
"""Parents of all nodes that the brokers of a cluster store."""
ATTEMPTS_MAX = 5
"""Limit of attempts to read the store at a start, if the connection breaks."""


async def open_store(config: BrokerConfig, on_fatal: Callable[[FatalError], None]) -> MetadataStore:
    """Open the metadata store of the settings. Raises StartError if it cannot be opened."""
    if not config.in_cluster:
        # Import sqlite3 only for single brokers.
        from pybroker.broker.metadata.sqlite_store import EmbeddedStore

        return await EmbeddedStore.open(Path(config.log_dirs[0]), on_fatal)
    # Import kazoo only for clusters.
    from pybroker.broker.lifecycle.startup.zookeeper_tls import zookeeper_tls
    from pybroker.broker.metadata.zookeeper_store import ZooKeeperSettings, ZooKeeperStore

    session_ms = config.get_int("zookeeper.session.timeout.ms")
    settings = ZooKeeperSettings(
        connect=config.get_str("zookeeper.connect"),
        session_timeout_ms=session_ms,
        connection_timeout_ms=config["zookeeper.connection.timeout.ms"] or session_ms,
        digest=config["zookeeper.digest"],
        set_acl=config["zookeeper.set.acl"],
        tls=zookeeper_tls(config),
    )
    return await ZooKeeperStore.open(settings, on_fatal)


async def prepare_store(store: MetadataStore) -> str:
    """Create missing permanent nodes and return the cluster's id, which the first broker of a cluster chooses. Raises
    StartError."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            await refuse_unfinished(store)
            await ensure_paths(store, ALWAYS_THERE)
            return await get_or_generate_cluster_id(store)
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        except (UnavailableError, UnknownOutcomeError) as problem:
            # Each step is idempotent, so an attempt can be repeated.
            if attempt == ATTEMPTS_MAX:
                raise StartError(f"cannot reach the metadata store: {problem}") from None
    raise AssertionError


async def get_or_generate_cluster_id(store: MetadataStore) -> str:
    """Return the cluster id. The first broker to create the node chooses the id; all others read it."""
    node = await get_or_none(store, znodes.CLUSTER_ID)
    if node is None:
        await ensure_path(store, "/cluster")
        generated = str(Uuid.random())
        try:
            await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(generated))
            return generated
        except NodeExistsError:
            node = await store.get(znodes.CLUSTER_ID)
    return znodes.decode_cluster_id(node.data)
