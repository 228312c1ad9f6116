"""`pybroker cluster accept-restored-store`: accepts a ZooKeeper that was wiped or restored from a backup.

One run while this broker is stopped is enough for the whole cluster: every other broker reads the result at its start.
The log directories are not changed.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from pybroker.broker.lifecycle.startup.store_opening import open_store
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import (
    Create,
    MetadataStore,
    Operation,
    Set,
    StoreError,
    ensure_paths,
    get_or_none,
)
from pybroker.broker.metadata.store_history import Acceptance
from pybroker.broker.offline.audit_records import audit_record
from pybroker.broker.offline.offline_directories import locked, read_properties_of
from pybroker.broker.replicas.store_guard import StoreGuard
from pybroker.config import BrokerConfig
from pybroker.errors import FatalError, StartError
from pybroker.wall_clock import wall_ms


class RestoredStore:
    """The metadata store of a stopped broker."""

    def __init__(self, store: MetadataStore, directories: list[Path]) -> None:
        self._store = store
        self._directories = directories

    async def reason(self) -> str | None:
        """Return the reason to refuse the store; None if there is no reason. Raises StartError if it cannot be compared
        with the directories.
        """
        if self._own_cluster() is not None and await get_or_none(self._store, znodes.CLUSTER_ID) is None:
            return "the store holds no cluster"
        return await StoreGuard(self._store, self._directories[0]).reason()

    async def accept(self, reason: str) -> None:
        """Accept the store and record the reason."""
        await ensure_paths(self._store, ("/cluster", znodes.AUDIT))
        accepted = Acceptance(secrets.token_hex(8), wall_ms())
        node = await get_or_none(self._store, znodes.RESTORED)
        make = Create if node is None else Set
        operations: list[Operation] = [make(znodes.RESTORED, accepted.encode())]
        cluster_id = self._own_cluster()
        if cluster_id is not None and await get_or_none(self._store, znodes.CLUSTER_ID) is None:
            operations.append(Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id)))
        operations.append(audit_record("cluster accept-restored-store", reason=reason, id=accepted.id))
        await self._store.multi(operations)

    def _own_cluster(self) -> str | None:
        for directory in self._directories:
            found = (read_properties_of(directory) or {}).get("cluster.id")
            if found is not None:
                return found
        return None


async def accept_restored_store(config: BrokerConfig, agree: bool) -> str | None:
    """Return the reason why brokers refuse the store, or None if there is none. If there is a reason and `agree` is
    true, also accept the store. Raises StartError if the store cannot be read.
    """
    if config.in_quorum:
        raise StartError(
            "metadata.store is not zookeeper. For the metadata log of a quorum use `pybroker cluster quorum "
            "accept-restored`"
        )
    if not config.in_cluster:
        raise StartError(
            "metadata.store is not zookeeper: a single broker has its metadata in a file, which needs no acceptance"
        )

    def failed(problem: FatalError) -> None:
        raise problem

    directories = [Path(log_dir) for log_dir in config.log_dirs]
    with locked(directories):
        try:
            store = await open_store(config, failed)
            try:
                restored = RestoredStore(store, directories)
                reason = await restored.reason()
                if reason is not None and agree:
                    await restored.accept(reason)
                return reason
            finally:
                await store.close()
        except (StoreError, znodes.DamagedNodeError) as problem:
            raise StartError(f"the metadata store: {problem}") from None
