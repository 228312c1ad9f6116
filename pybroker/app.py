"""The composition root: builds every object, start order, stop order. Nothing else constructs services."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pybroker.admin.cluster import ClusterAdmin
from pybroker.admin.configs import ConfigAdmin
from pybroker.admin.log_dirs import LogDirAdmin
from pybroker.admin.records import RecordAdmin
from pybroker.admin.topics import TopicAdmin
from pybroker.api import control
from pybroker.clock import Clock, SystemClock
from pybroker.completions import NativeAppends
from pybroker.config import BrokerConfig, Listener
from pybroker.controller.channel import LocalChannel
from pybroker.controller.controller import Controller
from pybroker.controller.events import AlterConfigs, RegisterBroker
from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.coordinators.group.ports import Settings
from pybroker.coordinators.group.topic_view import CachedTopics
from pybroker.coordinators.producer_ids import ProducerIds
from pybroker.dispatch import STOPPING, Dispatcher, routes
from pybroker.errors import FatalError, KafkaError, StartError
from pybroker.metadata.cache import MetadataCache
from pybroker.metadata.cluster_id import get_or_generate_cluster_id
from pybroker.metadata.embedded import FILE_NAME as STORE_FILE
from pybroker.metadata.embedded import EmbeddedStore
from pybroker.metadata.store import MetadataStore, ensure_path
from pybroker.metadata.znodes import PERSISTENT_PATHS, DamagedNodeError, Endpoint
from pybroker.native import ListenerError, LogDirError, NativeBroker, Uuid
from pybroker.replicas.manager import ReplicaManager
from pybroker.replicas.membership import Membership
from pybroker.replicas.staging import Staging
from pybroker.replicas.strays import Strays
from pybroker.services import Services

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
        self.services: Services | None = None
        self.endpoints: tuple[Listener, ...] = ()
        self._store: EmbeddedStore | None = None
        self._native: NativeBroker | None = None
        self._dispatcher: Dispatcher | None = None
        self._staging: Staging | None = None
        self._membership: Membership | None = None

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
        _refuse_lost_store(first_dir)
        store = self._store = await EmbeddedStore.open(first_dir, self._fail)
        try:
            for path in PERSISTENT_PATHS:
                await ensure_path(store, path)
            cluster_id = await get_or_generate_cluster_id(store)
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        log.info("Cluster ID = %s", cluster_id)
        native = self._native = self._make_native(
            broker_id=broker_id,
            cluster_id=cluster_id,
            log_dirs=list(config.log_dirs),
            settings=config.native_settings(),
        )
        services = self.services = self._build(broker_id, cluster_id, store, native)
        try:
            # Both read the disk: side by side. Both are over when one has failed, so that closing meets no work.
            scan = self._loop.run_in_executor(None, native.start_log_dirs)
            election = asyncio.create_task(services.controller.start())
            await asyncio.wait([election])
            found = await scan
            await election
            bound = native.open_listeners([(one.name, one.host, one.port, one.protocol) for one in config.listeners])
        except (LogDirError, ListenerError) as problem:
            raise StartError(problem.message) from None
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        services.replicas.found_on_disk(found)
        self.endpoints = config.advertised_listeners(bound)
        services.configs.load()
        await self._join(services)
        self._dispatcher = Dispatcher(native, services.appends, routes(services), self._loop, self._fail)
        services.groups.start()
        self._dispatcher.start()
        native.start_accepting()

    def _build(self, broker_id: int, cluster_id: str, store: MetadataStore, native: NativeBroker) -> Services:
        config, clock, loop = self._config, self._clock, self._loop
        appends = NativeAppends(native, loop)
        cache = MetadataCache(native, cluster_id)
        staging = self._staging = Staging(native, store, clock, broker_id)
        replicas = ReplicaManager(
            native=native,
            cache=cache,
            config=config,
            staging=staging,
            strays=Strays(native, store),
            broker_id=broker_id,
        )
        self._membership = Membership(store, clock, broker_id, config["log.flush.mode"])
        channel = LocalChannel(partial(control.handle, replicas))
        controller = Controller(store, clock, broker_id, {broker_id: channel}, self._fail)
        topics = TopicAdmin(controller, config, clock)

        async def alter(event: AlterConfigs) -> Sequence[KafkaError | None]:
            outcome = await controller.submit(event)
            await outcome.applied
            reply: Sequence[KafkaError | None] = outcome.reply
            return reply

        group_topics = CachedTopics(cache)
        groups = GroupCoordinator(
            broker_id=broker_id,
            settings=Settings(config),
            clock=clock,
            loop=loop,
            appends=appends,
            reads=native,
            topics=group_topics,
            creator=topics,
        )
        cache.on_topics_removed(groups.topics_removed)

        def committed_offsets(name: str, topic_id: Uuid) -> Sequence[Mapping[str, Any]]:
            del name
            return [
                {"group": group, "partition": partition, **asdict(offset)}
                for group, partition, offset in groups.offsets_of_topic(topic_id)
            ]

        topics.committed_offsets = committed_offsets
        return Services(
            broker_id=broker_id,
            cluster_id=cluster_id,
            config=config,
            clock=clock,
            loop=loop,
            native=native,
            appends=appends,
            store=store,
            cache=cache,
            controller=controller,
            replicas=replicas,
            topics=topics,
            cluster=ClusterAdmin(cache),
            records=RecordAdmin(native, cache, replicas),
            configs=ConfigAdmin(broker_id, config, native, lambda: controller.image, alter),
            log_dirs=LogDirAdmin(native),
            groups=groups,
            group_topics=group_topics,
            producer_ids=ProducerIds(store, broker_id),
        )

    async def _join(self, services: Services) -> None:
        """Registers this broker; the controller answers with everything that it hosts."""
        assert self._staging is not None
        assert self._membership is not None
        await self._staging.load()
        endpoints = tuple(Endpoint(one.name, one.host, one.port, one.protocol) for one in self.endpoints)
        rack = self._config["broker.rack"] or None
        registered = await self._membership.register(endpoints, rack)
        services.replicas.broker_epoch = registered.epoch
        outcome = await services.controller.submit(
            RegisterBroker(services.broker_id, registered.epoch, endpoints, rack, registered.intact)
        )
        await outcome.applied
        await self._staging.start(self._config["delete.topic.delay.ms"])
        await services.controller.start_deletions()

    def _fail(self, problem: FatalError) -> None:
        if not self.failed.done():
            self.failed.set_exception(problem)

    async def stop(self) -> None:
        """Stops in the order of R24; bounded by `shutdown.timeout.ms`."""
        await self._close(clean=not self.failed.done())

    async def _close(self, *, clean: bool) -> None:
        native, services, dispatcher = self._native, self.services, self._dispatcher
        self._native = self._dispatcher = None
        if native is not None:
            native.stop_accepting()
        if services is not None and dispatcher is not None:
            # Groups answer their parked requests themselves; the rest gets a moment, then an error.
            await services.groups.stop()
            await dispatcher.cancel_parked(PARKED_GRACE_S)
        if self._staging is not None:
            await self._staging.stop()
        if services is not None:
            await services.controller.stop()
        if dispatcher is not None:
            dispatcher.stop()
        if native is not None:
            await self._loop.run_in_executor(None, native.shutdown, self._config["shutdown.timeout.ms"])
        if services is not None:
            services.appends.fail_all(STOPPING)
        store, self._store = self._store, None
        if store is not None:
            if clean and self._membership is not None:
                await self._membership.leave()
            await store.close()


def _refuse_lost_store(directory: Path) -> None:
    """A directory that was claimed for a cluster has a store: one that is gone must not be replaced by an empty one of
    another cluster, with every topic forgotten.
    """
    store = directory / STORE_FILE
    parts = (store, store.with_name(f"{STORE_FILE}-wal"))
    if (directory / "meta.properties").exists() and not any(one.exists() and one.stat().st_size for one in parts):
        raise StartError(
            f"the metadata store {store} is missing or empty, but {directory} holds data; restore it from a backup, or "
            "point log.dirs to another directory. Nothing was changed."
        )
