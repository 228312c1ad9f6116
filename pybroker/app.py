"""One broker in this process: the order in which it starts, and in which it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from pybroker.clock import Clock, SystemClock
from pybroker.cluster.events import RegisterBroker
from pybroker.cluster_resource import ClusterResource
from pybroker.composition import Ground, Parts, build
from pybroker.config import BrokerConfig, ConfigSource, Listener
from pybroker.config.protocol_version import PROTOCOL_VERSION
from pybroker.dispatch import STOPPING, Dispatcher, routes
from pybroker.errors import FatalError, StartError
from pybroker.metadata.cluster_id import get_or_generate_cluster_id
from pybroker.metadata.embedded import EmbeddedStore
from pybroker.metadata.ingest_records import INGEST_COMMITTED, INGEST_OPEN
from pybroker.metadata.load import LocalIds, LoweredError
from pybroker.metadata.store import ensure_path
from pybroker.metadata.znodes import PERSISTENT_PATHS, DamagedNodeError, Endpoint
from pybroker.native import ListenerConfig, ListenerError, LocalPartition, LogDirError, NativeBroker, Uuid
from pybroker.observability.reporters import Reporters
from pybroker.replicas.dynamic_configs import with_stored
from pybroker.security.nodes import ensure_security_paths
from pybroker.services import Services
from pybroker.startup.last_stop import unclean
from pybroker.startup.ownership import refuse_other_clusters, refuse_others_data

log = logging.getLogger(__name__)

PARKED_GRACE_S = 1.0
"""What requests that wait for something get at a stop before they are answered with an error."""

MakeNative = Callable[..., NativeBroker]


class Broker:
    """One broker in this process. `start` returns when clients are served; `stop` when everything is on disk.

    `failed` is done, with a FatalError, when the broker cannot go on; its owner then calls `stop` and ends.
    """

    def __init__(
        self, config: BrokerConfig, *, clock: Clock | None = None, make_native: MakeNative = NativeBroker
    ) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._make_native = make_native
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self.parts: Parts | None = None
        self.endpoints: tuple[Listener, ...] = ()
        self._store: EmbeddedStore | None = None
        self._native: NativeBroker | None = None
        self._dispatcher: Dispatcher | None = None
        self._reporters = Reporters(())

    @property
    def services(self) -> Services | None:
        """What handlers are bound to; None before the start."""
        return None if self.parts is None else self.parts.services

    async def start(self) -> None:
        """Opens the store and the log directories, becomes controller, applies all partitions, then accepts clients.

        Raises StartError with one clear sentence for whatever the operator can mend; what was opened is closed again.
        """
        try:
            await self._start()
        except BaseException:
            await self._close(clean=False)
            raise

    async def _start(self) -> None:
        config, broker_id = self._config, self._config.broker_id
        first_dir = Path(config.log_dirs[0])
        refuse_others_data(config.log_dirs, broker_id)
        store = self._store = await EmbeddedStore.open(first_dir, self._fail)
        try:
            for path in (*PERSISTENT_PATHS, INGEST_OPEN, INGEST_COMMITTED):
                await ensure_path(store, path)
            await ensure_security_paths(store)
            cluster_id = await get_or_generate_cluster_id(store)
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        refuse_other_clusters(config.log_dirs, cluster_id)
        log.info("Cluster ID = %s", cluster_id)
        for sentence in unclean(config.log_dirs):
            log.info("%s", sentence)
        self._reporters = Reporters.load(config.get_list("metric.reporters"))
        self._reporters.start(config.layer(ConfigSource.STATIC_BROKER_CONFIG), self.metrics_text)
        self._reporters.on_update(ClusterResource(cluster_id))
        native = self._native = self._make_native(
            broker_id=broker_id,
            cluster_id=cluster_id,
            log_dirs=list(config.log_dirs),
            settings=config.native_settings(),
        )
        parts = self.parts = build(
            Ground(broker_id, cluster_id, config, self._clock, self._loop, native, store), self._fail
        )
        found = await self._take_office(parts, native)
        services = parts.services
        parts.replicas.found_on_disk(found)
        try:
            bound = native.listeners.open(
                [ListenerConfig(one.name, one.host, one.port, one.protocol) for one in config.listeners]
            )
        except ListenerError as problem:
            raise StartError(problem.message) from None
        self.endpoints = config.advertised_listeners((one.listener, one.host, one.port) for one in bound)
        await self._join(parts)
        self._dispatcher = Dispatcher(native, parts.appends, routes(services), self._loop, self._fail)
        services.groups.start()
        if parts.returned_offsets.pending or services.topics.delete_orders:
            # Before clients can look: what groups get back, or lose with a topic, is in their memory.
            await services.groups.loaded()
        await services.topics.carry_out_delete_orders()
        parts.returned_offsets.start()
        self._dispatcher.start()
        native.listeners.start_accepting()

    async def _take_office(self, parts: Parts, native: NativeBroker) -> list[LocalPartition]:
        """Opens the log directories and becomes controller; gives what lies on the disks."""
        config, broker_id = self._config, self._config.broker_id
        # Both read the disk: side by side. Both are over when one has failed, so that closing meets no work.
        scan = self._loop.run_in_executor(None, native.log_dirs.start)
        election = asyncio.create_task(
            parts.controller.start(
                lambda: _local_ids(scan), lambda stored: with_stored(config, broker_id, stored).topic_ids
            )
        )
        await asyncio.gather(election, scan, return_exceptions=True)
        try:
            if scan.exception() is not None:
                # The cause; an election that waited for the scan has the same.
                election.exception()
            found = scan.result()
            await election
        except LogDirError as problem:
            raise StartError(problem.message) from None
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        except LoweredError as problem:
            raise StartError(f"{PROTOCOL_VERSION} is below 2.8, but {problem}") from None
        return found

    async def _join(self, parts: Parts) -> None:
        """Registers this broker; the controller answers with everything that it hosts."""
        await parts.staging.load()
        endpoints = tuple(Endpoint(one.name, one.host, one.port, one.protocol) for one in self.endpoints)
        rack = self._config["broker.rack"] or None
        registered = await parts.membership.register(endpoints, rack)
        parts.fence.registered(registered.epoch)
        await parts.port.submit(
            RegisterBroker(self._config.broker_id, registered.epoch, endpoints, rack, registered.intact)
        )
        await parts.staging.start(self._config["delete.topic.delay.ms"])
        await parts.services.ingests.start()

    def metrics_text(self) -> str:
        """The text of /metrics; empty during the start."""
        from pybroker.observability.broker_metrics import broker_metrics

        return broker_metrics(self.services) if self.services is not None else ""

    def _fail(self, problem: FatalError) -> None:
        if not self.failed.done():
            self.failed.set_exception(problem)

    async def stop(self) -> None:
        """Stops accepting, answers or fails what waits, brings everything to disk; bounded by
        `shutdown.timeout.ms`."""
        await self._close(clean=not self.failed.done())

    async def _close(self, *, clean: bool) -> None:
        self._reporters.close()
        native, parts, dispatcher = self._native, self.parts, self._dispatcher
        self._native = self._dispatcher = None
        if native is not None:
            native.listeners.stop_accepting()
        if parts is not None and dispatcher is not None:
            # Groups answer their parked requests themselves; the rest gets a moment, then an error.
            await parts.services.groups.stop()
            await dispatcher.cancel_parked(PARKED_GRACE_S)
        if parts is not None:
            await parts.services.ingests.stop()
            await parts.returned_offsets.stop()
            await parts.staging.stop()
            await parts.controller.stop()
        if dispatcher is not None:
            dispatcher.stop()
        if native is not None:
            await self._loop.run_in_executor(None, native.shutdown, self._config["shutdown.timeout.ms"])
        if parts is not None:
            parts.appends.fail_all(STOPPING)
        store, self._store = self._store, None
        if store is not None:
            if clean and parts is not None:
                await parts.membership.leave()
            await store.close()


async def _local_ids(scan: asyncio.Future[list[LocalPartition]]) -> LocalIds:
    """What `partition.metadata` on this broker says about names."""
    ids: dict[str, set[Uuid]] = {}
    for directory in await scan:
        if directory.topic is not None and directory.topic_id is not None and directory.problem is None:
            ids.setdefault(directory.topic, set()).add(directory.topic_id)
    return ids
