"""The composition root: builds every object, start order, stop order. Nothing else constructs services."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pybroker.admin.acls import AclAdmin
from pybroker.admin.closing import Closing
from pybroker.admin.cluster import ClusterAdmin
from pybroker.admin.configs import ConfigAdmin, with_stored
from pybroker.admin.lineage import LineageAdmin, Waiting
from pybroker.admin.log_dirs import LogDirAdmin
from pybroker.admin.records import RecordAdmin
from pybroker.admin.topics import TopicAdmin
from pybroker.admin.users import UserAdmin
from pybroker.api import control
from pybroker.clock import Clock, SystemClock
from pybroker.cluster.events import AlterConfigs, RegisterBroker
from pybroker.cluster_resource import ClusterResource
from pybroker.config import BrokerConfig, ConfigSource, Listener
from pybroker.config.protocol_version import PROTOCOL_VERSION
from pybroker.controller.channel import LocalChannel
from pybroker.controller.controller import Controller
from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.coordinators.group.ports import Settings
from pybroker.coordinators.producer_ids import ProducerIds
from pybroker.coordinators.shards.appends import NativeAppends
from pybroker.coordinators.shards.ports import Ports
from pybroker.coordinators.shards.topic_view import CachedTopics
from pybroker.dispatch import STOPPING, Dispatcher, routes
from pybroker.errors import FatalError, KafkaError, StartError
from pybroker.ingest.ingests import Ingests
from pybroker.metadata.cache import MetadataCache
from pybroker.metadata.cluster_id import get_or_generate_cluster_id
from pybroker.metadata.embedded import EmbeddedStore
from pybroker.metadata.ingest_records import INGEST_COMMITTED, INGEST_OPEN
from pybroker.metadata.load import LocalIds, LoweredError
from pybroker.metadata.store import MetadataStore, ensure_path
from pybroker.metadata.znodes import PERSISTENT_PATHS, DamagedNodeError, Endpoint
from pybroker.native import ListenerConfig, ListenerError, LocalPartition, LogDirError, NativeBroker, Uuid
from pybroker.observability.reporters import Reporters
from pybroker.replicas.manager import ReplicaManager
from pybroker.replicas.membership import Membership
from pybroker.replicas.staging import Staging
from pybroker.replicas.strays import Strays
from pybroker.security.authorizer import Authorizer
from pybroker.security.credentials import Credentials
from pybroker.security.nodes import ensure_security_paths
from pybroker.security.sasl import SaslServer
from pybroker.security.security import Security
from pybroker.services import Services
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
        self.services: Services | None = None
        self.endpoints: tuple[Listener, ...] = ()
        self._store: EmbeddedStore | None = None
        self._native: NativeBroker | None = None
        self._dispatcher: Dispatcher | None = None
        self._staging: Staging | None = None
        self._membership: Membership | None = None
        self._ingests: Ingests | None = None
        self._reporters = Reporters(())
        self._scan: asyncio.Future[list[LocalPartition]] | None = None

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
        self._reporters = Reporters.load(config.get_list("metric.reporters"))
        self._reporters.start(config.layer(ConfigSource.STATIC_BROKER_CONFIG), self.metrics_text)
        self._reporters.on_update(ClusterResource(cluster_id))
        native = self._native = self._make_native(
            broker_id=broker_id,
            cluster_id=cluster_id,
            log_dirs=list(config.log_dirs),
            settings=config.native_settings(),
        )
        services = self.services = self._build(broker_id, cluster_id, store, native)
        try:
            # Both read the disk: side by side. Both are over when one has failed, so that closing meets no work.
            scan = self._scan = self._loop.run_in_executor(None, native.log_dirs.start)
            election = asyncio.create_task(services.controller.start())
            await asyncio.gather(election, scan, return_exceptions=True)
            if scan.exception() is not None:
                # The cause; an election that waited for the scan has the same.
                election.exception()
            found = scan.result()
            await election
            bound = native.listeners.open(
                [ListenerConfig(one.name, one.host, one.port, one.protocol) for one in config.listeners]
            )
        except (LogDirError, ListenerError) as problem:
            raise StartError(problem.message) from None
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        except LoweredError as problem:
            raise StartError(f"{PROTOCOL_VERSION} is below 2.8, but {problem}") from None
        services.replicas.found_on_disk(found)
        self.endpoints = config.advertised_listeners((one.listener, one.host, one.port) for one in bound)
        services.configs.load()
        await self._join(services)
        self._dispatcher = Dispatcher(native, services.appends, routes(services), self._loop, self._fail)
        services.groups.start()
        if services.lineage.pending or services.topics.delete_orders:
            # Before clients can look: what groups get back, or lose with a topic, is in their memory.
            await services.groups.loaded()
        await services.topics.carry_out_delete_orders()
        services.lineage.start()
        self._dispatcher.start()
        native.listeners.start_accepting()

    async def _local_ids(self) -> LocalIds:
        """What `partition.metadata` on this broker says about names."""
        assert self._scan is not None, "asked for during the start"
        ids: dict[str, set[Uuid]] = {}
        for directory in await self._scan:
            if directory.topic is not None and directory.topic_id is not None and directory.problem is None:
                ids.setdefault(directory.topic, set()).add(directory.topic_id)
        return ids

    def _build(self, broker_id: int, cluster_id: str, store: MetadataStore, native: NativeBroker) -> Services:
        config, clock, loop = self._config, self._clock, self._loop
        appends = NativeAppends(native.partitions, loop)
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
        authorizer, credentials = Authorizer(native.authorizer, config), Credentials()
        channel = LocalChannel(partial(control.handle, replicas, Security(authorizer, credentials)))
        controller = Controller(
            store,
            clock,
            broker_id,
            {broker_id: channel},
            self._fail,
            local_ids=self._local_ids,
            topic_ids=lambda stored: with_stored(config, broker_id, stored).topic_ids,
        )
        controller.tombstones_max = lambda: config["topic.history.max.incarnations"]
        topics = TopicAdmin(controller, config, clock)

        async def alter(event: AlterConfigs) -> Sequence[KafkaError | None]:
            outcome = await controller.submit(event)
            await outcome.applied
            reply: Sequence[KafkaError | None] = outcome.reply
            return reply

        def owns_epoch(topic_id: Uuid, leader_epoch: int) -> bool:
            topic = controller.image.topic_by_id(topic_id)
            return topic is None or topic.lineage.owns_epoch(leader_epoch)

        group_topics = CachedTopics(cache, owns_epoch)
        ports = Ports(broker_id, clock, loop, appends, native.partitions, group_topics, topics)
        groups = GroupCoordinator(ports, Settings(config))
        cache.on_topics_removed(groups.topics_removed)

        ingests = self._ingests = Ingests(
            native=native.ingests,
            controller=controller,
            cache=cache,
            config=config,
            clock=clock,
            resolved_config=replicas.resolved_config,
        )
        closing = topics.closing = Closing(
            native.partitions, groups, lambda topic_id: topic_id in controller.image.names
        )
        lineage = LineageAdmin(
            controller=controller,
            config=config,
            clock=clock,
            native=native,
            broker_id=broker_id,
            closing=closing,
            waiting=Waiting(staging.remaining_ms, staging.is_removing),
            restore_offsets=groups.give_back,
        )
        cache.on_topics_shown(lineage.topics_shown)
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
            lineage=lineage,
            cluster=ClusterAdmin(cache),
            records=RecordAdmin(native, cache, replicas),
            configs=ConfigAdmin(broker_id, config, native, lambda: controller.image, alter),
            log_dirs=LogDirAdmin(native.log_dirs, cache.topic_id),
            groups=groups,
            ingests=ingests,
            group_topics=group_topics,
            producer_ids=ProducerIds(store, broker_id),
            authorizer=authorizer,
            sasl=SaslServer(config, credentials, clock),
            acls=AclAdmin(controller, enabled=authorizer.enabled),
            users=UserAdmin(controller),
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
        await services.ingests.start()

    def metrics_text(self) -> str:
        """The text of /metrics; empty during the start."""
        from pybroker.observability.broker_metrics import broker_metrics

        return broker_metrics(self.services) if self.services is not None else ""

    def _fail(self, problem: FatalError) -> None:
        if not self.failed.done():
            self.failed.set_exception(problem)

    async def stop(self) -> None:
        """Stops in the order of R24; bounded by `shutdown.timeout.ms`."""
        await self._close(clean=not self.failed.done())

    async def _close(self, *, clean: bool) -> None:
        self._reporters.close()
        native, services, dispatcher = self._native, self.services, self._dispatcher
        self._native = self._dispatcher = None
        if native is not None:
            native.listeners.stop_accepting()
        if services is not None and dispatcher is not None:
            # Groups answer their parked requests themselves; the rest gets a moment, then an error.
            await services.groups.stop()
            await dispatcher.cancel_parked(PARKED_GRACE_S)
        if self._ingests is not None:
            await self._ingests.stop()
        if services is not None:
            await services.lineage.stop()
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
