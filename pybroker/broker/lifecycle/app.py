"""One broker in this process: starts and stops its parts in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.broker.api.client_routes import client_routes
from pybroker.broker.clock import Clock, SystemClock
from pybroker.broker.cluster.events import ShutDownBroker, ShutDownOutcome
from pybroker.broker.dispatch import STOPPING, Dispatcher, Tables
from pybroker.broker.lifecycle.broker_parts import BrokerDependencies, BrokerParts, QuorumMember
from pybroker.broker.lifecycle.composition import build
from pybroker.broker.lifecycle.startup.ownership import (
    directory_id_of,
    refuse_empty_store,
    refuse_other_clusters,
    refuse_others_data,
    unclean,
)
from pybroker.broker.lifecycle.startup.store_opening import open_store, prepare_store
from pybroker.broker.log_limits import CLIENT_LINES
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image_loader import LocalIds, LoweredError, broker_configs
from pybroker.broker.metadata.metadata_store import MetadataStore, Node, RefusedError, StoreError
from pybroker.broker.metadata.znodes import DamagedNodeError, Endpoint
from pybroker.broker.observability.reporters import Reporters
from pybroker.broker.replicas.broker_registration import BrokerRegistration
from pybroker.broker.replicas.dynamic_configs import with_stored
from pybroker.broker.replicas.store_guard import StoreGuard
from pybroker.broker.requests.context import Handler
from pybroker.broker.security.keystores import Keystores
from pybroker.broker.security.oauth.oauth_listeners import OAuthListeners
from pybroker.broker.security.security_state import apply_stored
from pybroker.broker.services import Services
from pybroker.cluster_resource import ClusterResource
from pybroker.config import BrokerConfig, ConfigSource, Listener
from pybroker.config.protocol_version import PROTOCOL_VERSION
from pybroker.config.setting_values import InvalidValue
from pybroker.errors import FatalError, KafkaError, StartError
from pybroker.native import (
    ListenerConfig,
    ListenerError,
    LocalPartition,
    LogDirError,
    MetricFamilies,
    NativeBroker,
    Uuid,
)

if TYPE_CHECKING:
    from pybroker.broker.lifecycle.startup.quorum_opening import OpenQuorum

log = logging.getLogger(__name__)

CATCH_UP_MS = 5_000
"""Time limit of one attempt to get the metadata of the quorum."""
HAND_OVER_MS = 5_000
"""Time limit of one attempt to move leadership away before a stop."""
LEAVE_S_MAX = 5.0
"""Limit in seconds of the wait for the metadata store at a stop."""
HAND_OVER_S_MAX = 12.0
"""Limit in seconds of all attempts to move leadership away, because the later steps of the stop must also fit into
`shutdown.timeout.ms`."""

PARKED_GRACE_S = 1.0
"""Seconds that parked requests get to finish at a stop; after that they fail."""

MakeNative = Callable[..., NativeBroker]


class FoundCluster(NamedTuple):
    """The cluster to which a broker belongs."""

    cluster_id: str
    store: MetadataStore | None
    """The metadata store; None for a metadata quorum."""
    founds: bool = False
    """Whether this broker founds the quorum."""


class Broker:
    """One broker in this process. `start` returns when it serves clients, `stop` when all data is on disk.

    If the broker cannot continue, the future `failed` completes with a FatalError; the owner of the broker then calls
    `stop` and exits.
    """

    def __init__(
        self, config: BrokerConfig, *, clock: Clock | None = None, make_native: MakeNative = NativeBroker
    ) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._make_native = make_native
        self._keystores: Keystores | None = None
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self.parts: BrokerParts | None = None
        self.endpoints: tuple[Listener, ...] = ()
        self._store: MetadataStore | None = None
        self._native: NativeBroker | None = None
        self._dispatcher: Dispatcher | None = None
        self._reporters = Reporters(())
        self._store_guard: StoreGuard | None = None
        self._quorum: OpenQuorum | None = None
        self._leaves = True
        """Whether a stop is recorded in the metadata."""
        self._only_voter = False
        """Whether this broker is the only voter of the quorum, and records its stop itself."""

    @property
    def services(self) -> Services | None:
        """Return the objects that handlers use; None before the start."""
        return None if self.parts is None else self.parts.services

    async def start(self) -> None:
        """Open the store and the log directories, become controller, apply all partitions, then accept clients.

        If the operator can fix the problem, raises StartError with one clear sentence. Closes everything that it has
        opened before it raises.
        """
        try:
            await self._start()
        except BaseException as problem:
            await self._close(clean=False)
            if isinstance(problem, RefusedError):
                raise StartError(str(problem)) from None
            raise

    async def _start(self) -> None:
        config, broker_id = self._config, self._config.broker_id
        refuse_others_data(config.log_dirs, broker_id, store=config.get_str("metadata.store"))
        login = await _login(config)
        cluster = await self._find_cluster(login)
        store, cluster_id = cluster.store, cluster.cluster_id
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
        scan = self._loop.run_in_executor(None, native.log_dirs.start)
        if store is None:
            # The scan writes the ids of new log directories, by which the quorum knows its nodes.
            await asyncio.wait([scan])
            _found(scan)
        metadata = await self._open_quorum(cluster, login) if store is None else store
        parts = self.parts = build(
            BrokerDependencies(
                broker_id, cluster_id, config, self._clock, self._loop, native, metadata, self._store_guard, login
            ),
            self._fail,
        )
        if config.in_cluster:
            await asyncio.wait([scan])
        else:
            await _both(self._take_leadership(parts, scan), scan)
        parts.replicas.found_on_disk(_found(scan))
        services = parts.services
        self._open_listeners(native, services.sasl.oauth)
        tables = Tables(client_routes(services), self._broker_routes(parts) if config.in_cluster else {})
        self._dispatcher = Dispatcher(
            native,
            appends=parts.appends,
            end_of_batch=parts.end_of_batch,
            isr=parts.isr,
            failed=parts.failed,
            membership=parts.services.transactions.membership,
            shares=parts.services.shares,
            tables=tables,
            loop=self._loop,
            on_fatal=self._fail,
        )
        # No request arrives before a listener accepts connections.
        self._dispatcher.start()
        if config.in_cluster:
            await self._meet_brokers(parts, store, scan, login)
        await self._join(parts, store)
        if config.in_cluster:
            services.producer_ids.stock()
        services.shares.states.start()
        services.groups.start()
        services.transactions.coordinator.start()
        if parts.returned_offsets.pending or services.topics.delete_orders:
            # Do this before clients connect, because it changes the groups in memory: groups get restored offsets, and
            # lose the offsets of deleted topics.
            await services.groups.loaded()
        await services.topics.carry_out_delete_orders()
        parts.returned_offsets.start()
        self._start_periodic_work(services)
        if store is not None:
            store.starting(False)
        native.listeners.start_accepting()

    async def _find_cluster(self, login: Mapping[str, str]) -> FoundCluster:
        """Open the metadata store, or find the quorum. Raises StartError."""
        config = self._config
        if config.in_quorum:
            from pybroker.broker.lifecycle.startup.quorum_opening import find_cluster

            cluster_id, founds = await find_cluster(config, login)
            return FoundCluster(cluster_id, None, founds)
        store = self._store = await open_store(config, self._fail)
        store.starting(True)
        if config.in_cluster:
            await refuse_empty_store(store, config.log_dirs, config.get_str("zookeeper.connect"))
        cluster_id = await prepare_store(store)
        refuse_other_clusters(config.log_dirs, cluster_id)
        if config.in_cluster:
            await self._guard(store)
        return FoundCluster(cluster_id, store)

    async def _meet_brokers(
        self,
        parts: BrokerParts,
        store: MetadataStore | None,
        scan: asyncio.Future[list[LocalPartition]],
        login: Mapping[str, str],
    ) -> None:
        """Accept other brokers, and take part in the election of the controller."""
        assert self._native is not None
        assert parts.following is not None
        parts.following.start(login)
        # The controller must authenticate before it can send ACLs. The stored ACLs may be old, because a broker that
        # was down has missed changes.
        if store is not None:
            await apply_stored(store, parts.security)
        # The controller sends the broker its state as soon as the broker is registered.
        self._native.listeners.start_accepting_brokers()
        if self._quorum is not None and parts.quorum is not None:
            parts.quorum.start(parts.lives)
            self._quorum.log.listen(self._quorum.loader)
        await self._take_leadership(parts, scan)
        assert parts.peers is not None
        parts.peers.start()
        parts.isr.start(lambda: self._config.get_int("replica.lag.time.max.ms"))

    @staticmethod
    def _start_periodic_work(services: Services) -> None:
        services.tokens.start()
        services.disk_room.start()

    async def _guard(self, store: MetadataStore) -> StoreGuard:
        """Return the guard that detects a store that was set back. Raises StartError if the store was wiped or restored
        from a backup."""
        guard = self._store_guard = StoreGuard(store, Path(self._config.log_dirs[0]))
        try:
            await guard.check()
        except (FatalError, StoreError, DamagedNodeError) as problem:
            raise StartError(str(problem)) from None
        guard.start()
        return guard

    async def _take_leadership(self, parts: BrokerParts, scan: asyncio.Future[list[LocalPartition]]) -> None:
        """Make a single broker the controller while other threads read the disks; in a cluster, join the election.
        Raises StartError.
        """
        config, broker_id = self._config, self._config.broker_id
        try:
            await parts.election.start(
                lambda: _local_ids(scan),
                # During an upgrade, brokers of either version may become controller. If one of them has shown topic
                # ids, they stay visible.
                lambda stored, shown: (
                    with_stored(config, broker_id, stored).topic_ids or (config.in_cluster and shown())
                ),
            )
        except DamagedNodeError as problem:
            raise StartError(f"the metadata store is damaged: {problem}") from None
        except LoweredError as problem:
            raise _lowered(problem) from None

    def _open_listeners(self, native: NativeBroker, oauth: OAuthListeners | None) -> None:
        config = self._config
        between = config.between_brokers
        wanted = [
            ListenerConfig(listener.name, listener.host, listener.port, listener.protocol, listener.name == between)
            for listener in config.listeners
        ]
        try:
            self._keystores = Keystores(native.listeners, config, self._loop)
            self._keystores.start()
            if oauth is not None:
                oauth.start()
            bound = native.listeners.open(wanted)
            CLIENT_LINES.admit = native.control_queue.admit_line_about_client
        except ListenerError as problem:
            raise StartError(problem.message) from None
        except InvalidValue as problem:
            raise StartError(str(problem)) from None
        self.endpoints = config.advertised_listeners(
            (listener.listener, listener.host, listener.port) for listener in bound
        )

    async def _open_quorum(self, cluster: FoundCluster, login: Mapping[str, str]) -> QuorumMember:
        """Open this broker's node of the metadata quorum. Raises StartError."""
        from pybroker.broker.lifecycle.startup.quorum_opening import open_quorum

        assert self._native is not None
        quorum = self._quorum = await open_quorum(
            self._config,
            cluster.cluster_id,
            login,
            self._fail,
            metadata=self._native.metadata,
            founds=cluster.founds,
        )
        return QuorumMember(
            quorum.log,
            quorum.loader,
            Uuid.random(),
            quorum.reports,
            quorum.voters.address_of,
            quorum.log.status,
            lambda: quorum.log.full_refusals,
            quorum.log.commits,
            quorum.seen.accepted_ms,
            quorum.directory_id,
            quorum.addresses,
            quorum.log.node,
        )

    async def _catch_up(self, parts: BrokerParts) -> None:
        """Wait until this broker's metadata contains all earlier decisions, even if there is no controller for a long
        time."""
        while not self.failed.done():
            try:
                await parts.controller.catch_up(CATCH_UP_MS)
            except KafkaError as problem:
                log.info("waiting for the controller of the metadata quorum: %s", problem)
                continue
            if self._quorum is not None:
                self._quorum.seen.caught_up()
            if not self.failed.done():
                return
        await self.failed

    async def _join(self, parts: BrokerParts, store: MetadataStore | None) -> None:
        """Register this broker; the controller answers with all partitions that it hosts."""
        if store is None:
            await self._catch_up(parts)
        await parts.staging.load()
        endpoints = tuple(
            Endpoint(endpoint.name, endpoint.host, endpoint.port, endpoint.protocol) for endpoint in self.endpoints
        )
        rack = self._config["broker.rack"] or None
        directory_ids = tuple(directory_id_of(directory) for directory in self._config.log_dirs)
        stored = (
            parts.services.view.image.broker_configs
            if store is None
            else broker_configs(await store.subtree(znodes.BROKER_CONFIGS))
        )
        topic_ids = with_stored(self._config, self._config.broker_id, stored).topic_ids
        try:
            epoch = await parts.membership.register(endpoints, rack, directory_ids, topic_ids=topic_ids)
        except LoweredError as problem:
            raise _lowered(problem) from None
        if isinstance(parts.membership, BrokerRegistration):
            parts.lives(epoch)
        parts.membership.stay(endpoints, rack, directory_ids[0], parts.lives)
        await self._unless_failed(parts.receiver.introduced(epoch))
        parts.roles.start()
        await parts.membership.judged()
        await parts.staging.start(self._config["delete.topic.delay.ms"])
        await parts.services.ingests.start()

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work, but raise the failure if the broker fails in the meantime. Otherwise the work might never finish.
        """
        task = asyncio.ensure_future(work)
        await asyncio.wait([task, self.failed], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await self.failed
        await task

    async def _hand_over(self, parts: BrokerParts) -> None:
        """Move leadership to other brokers as far as possible (`controlled.shutdown.*`)."""
        config = self._config
        if not (config.in_cluster and config["controlled.shutdown.enable"]):
            return
        event = ShutDownBroker(config.broker_id, parts.fence.broker_epoch)
        pause_s = config.get_int("controlled.shutdown.retry.backoff.ms") / 1000
        give_up = self._loop.time() + HAND_OVER_S_MAX
        for left in reversed(range(config.get_int("controlled.shutdown.max.retries") + 1)):
            try:
                outcome = ShutDownOutcome(more=True)
                while outcome.more and self._loop.time() < give_up:
                    outcome = (await parts.controller.submit(event, HAND_OVER_MS)).reply
            except KafkaError as error:
                if not parts.services.cluster_state.session.connected:
                    store = "the metadata quorum" if config.in_quorum else "ZooKeeper"
                    log.warning(
                        "%s is unreachable; leadership of this broker's partitions moves only after its session "
                        "expires",
                        store,
                    )
                    return
                log.warning("cannot hand over leadership, retrying: %s", error)
                if not left or self._loop.time() + pause_s + HAND_OVER_MS / 1000 > give_up:
                    return
                await asyncio.sleep(pause_s)
                continue
            if outcome.more:
                log.warning("not all leadership was handed over within %.0f s", HAND_OVER_S_MAX)
            if outcome.remaining:
                lost = len(outcome.remaining)
                log.info("partitions have no leader now, because no other replica is in sync partitions=%d", lost)
            # This broker has left every ISR. If it continued to fetch, leaders would add it again.
            if parts.quorum is not None:
                # Without fetchers, later orders can no longer make this broker a follower.
                await parts.quorum.publisher.stop()
            assert parts.following is not None
            await self._loop.run_in_executor(None, parts.following.stop)
            return

    async def _can_hand_over(self) -> bool:
        """Return whether a majority of the voters, including this broker, responds and can elect new leaders now. Set
        `_leaves` to whether the other voters are a majority without this broker. Only the other voters can record the
        stop, because by then this broker's node no longer votes."""
        if self._quorum is None:
            return True
        from pybroker.broker.interbroker.quorum_transport import majority_of

        quorum, here = self._quorum, self._config.broker_id
        status = quorum.log.status()
        others = await quorum.transport.answering_voters(status)
        votes = any(voter.node_id == here for voter in status.voters)
        self._only_voter = votes and len(status.voters) == 1
        self._leaves = self._only_voter or others >= majority_of(status)
        if not self._leaves:
            log.warning(
                "no majority of the other voters answers: the metadata does not record this stop, and the next start "
                "treats it as a crash answering=%d voters=%d",
                others,
                len(status.voters),
            )
        return others + votes >= majority_of(status)

    def metrics_text(self) -> str:
        """Return the text of /metrics; empty during the start."""
        from pybroker.broker.observability.broker_metrics import metrics_text

        return metrics_text(self.services) if self.services is not None else ""

    async def collect_metrics(self) -> MetricFamilies:
        """Return all metrics; none during the start. The work runs in steps and on another thread, so that neither the
        loop nor a data thread has to wait.
        """
        if self.services is None:
            return MetricFamilies()
        from pybroker.broker.observability.broker_metrics import collect_metrics

        return await collect_metrics(self.services)

    async def scrape(self) -> str:
        """Return the text of /metrics."""
        return await asyncio.to_thread((await self.collect_metrics()).text)

    async def metadata(self) -> Mapping[str, Node]:
        """Return the nodes of the metadata store for a report; empty before the store is open. Raises StoreError."""
        from pybroker.broker.observability.diagnosis.node_documents import read

        return await read(self._store) if self._store is not None else {}

    async def quorum_document(self) -> dict[str, Any] | None:
        """Return this broker's view of the metadata quorum, for a report; None with a metadata store."""
        if self._quorum is None:
            return None
        from pybroker.broker.observability.diagnosis.quorum_document import image_document, quorum_document

        return {
            "quorum": quorum_document(self._quorum.log.status()),
            "metadata": image_document(self._quorum.loader.image),
        }

    def _fail(self, problem: FatalError) -> None:
        if not self.failed.done():
            self.failed.set_exception(problem)

    async def stop(self) -> None:
        """Stop accepting, answer or fail parked requests, and flush everything to disk within `shutdown.timeout.ms`."""
        await self._close(clean=not self.failed.done())

    async def _close(self, *, clean: bool) -> None:
        self._reporters.close()
        native, parts, dispatcher = self._native, self.parts, self._dispatcher
        self._native = self._dispatcher = None
        if clean and parts is not None and dispatcher is not None and await self._can_hand_over():
            await self._hand_over(parts)
        if parts is not None:
            parts.membership.stop_staying()
        if self._keystores is not None:
            self._keystores.stop()
        if parts is not None and parts.services.sasl.oauth is not None:
            parts.services.sasl.oauth.stop()
        if native is not None:
            native.listeners.stop_accepting()
        if parts is not None and dispatcher is not None:
            # Groups answer their parked requests themselves. All other requests get some time to finish, then an error.
            await parts.services.transactions.coordinator.stop()
            await parts.services.transactions.owed.stop()
            parts.services.shares.stop()
            await parts.services.groups.stop()
            await parts.services.shares.states.stop()
            await dispatcher.cancel_parked(PARKED_GRACE_S)
        if parts is not None:
            parts.services.tokens.stop()
            await parts.services.disk_room.stop()
            await parts.services.ingests.stop()
            await asyncio.gather(parts.late_offsets.stop(), parts.returned_offsets.stop())
            await parts.isr.stop()
            if parts.failed is not None:
                await parts.failed.stop()
            await parts.roles.stop()
            await parts.replicas.stop()
            await parts.staging.stop()
            if parts.peers is not None:
                await parts.peers.stop()
            await self._disconnect(parts)
        if dispatcher is not None:
            dispatcher.stop()
        if native is not None:
            await self._loop.run_in_executor(None, native.shutdown, self._config["shutdown.timeout.ms"])
        if parts is not None:
            parts.appends.fail_all(STOPPING)
        store, self._store = self._store, None
        if self._store_guard is not None:
            await self._store_guard.stop()
        if store is not None:
            if clean and parts is not None:
                await self._leave(parts)
            await store.close()
        if self._quorum is not None:
            await self._close_quorum(self._quorum, parts, clean=clean)

    async def _disconnect(self, parts: BrokerParts) -> None:
        services = parts.services
        if not self._only_voter:
            await parts.election.stop()
        # A broker of a quorum unregisters from its controller later.
        controller = parts.disconnect if self._quorum is None else None
        for disconnect in (controller, services.transactions.disconnect, services.shares.disconnect):
            if disconnect is not None:
                disconnect()
        if parts.quorum is not None:
            # Changes that arrive during the stop need the native core, which shuts down next.
            await parts.quorum.publisher.stop()

    async def _close_quorum(self, quorum: OpenQuorum, parts: BrokerParts | None, *, clean: bool) -> None:
        self._quorum = None
        await quorum.seen.close()
        if parts is not None:
            if clean and self._leaves:
                await self._leave(parts)
            if self._only_voter:
                await parts.election.stop()
            assert parts.quorum is not None
            await parts.quorum.stop()
            if parts.disconnect is not None:
                parts.disconnect()
        quorum.transport.close()
        await quorum.log.close()

    def _broker_routes(self, parts: BrokerParts) -> dict[int, Handler]:
        # Import modules of clusters only in a cluster.
        from pybroker.broker.api.broker_routes import broker_routes

        assert parts.peers is not None
        quorum = None if self._quorum is None else self._quorum.log
        return broker_routes(
            parts.services,
            parts.receiver,
            parts.local_controller,
            parts.election,
            probe=parts.peers.probe,
            quorum=quorum,
            applied_offsets=None if self._quorum is None else self._quorum.reports.offsets,
        )

    async def _leave(self, parts: BrokerParts) -> None:
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await parts.membership.leave(complete=not _waited_for(parts, self._config.broker_id))
        except (StoreError, KafkaError, TimeoutError):
            log.warning("cannot record this stop in the metadata store; the next start treats it as a crash")


def _waited_for(parts: BrokerParts, broker_id: int) -> bool:
    """Return whether partitions have no leader because this broker was their only in-sync replica."""
    topics = parts.services.view.image.topics.values()
    return any(
        partition.leader < 0 and partition.isr == (broker_id,) for topic in topics for partition in topic.partitions
    )


async def _login(config: BrokerConfig) -> Mapping[str, str]:
    """Return the login settings for other brokers; empty on a single broker."""
    if not config.in_cluster:
        return {}
    from pybroker.broker.interbroker.connector import client_settings

    return await client_settings(config)


async def _both(start: Coroutine[Any, Any, None], scan: asyncio.Future[list[LocalPartition]]) -> None:
    """Run both coroutines. Return only when both have ended, even if one has failed: before that, the caller must not
    close anything that the other still uses."""
    election = asyncio.ensure_future(start)
    await asyncio.gather(election, scan, return_exceptions=True)
    if scan.exception() is not None:
        # Raise the error of the scan first. An election that waits for the scan fails with the same error.
        election.exception()
        return
    await election


def _found(scan: asyncio.Future[list[LocalPartition]]) -> list[LocalPartition]:
    try:
        return scan.result()
    except LogDirError as problem:
        raise StartError(problem.message) from None


async def _local_ids(scan: asyncio.Future[list[LocalPartition]]) -> LocalIds:
    """Return topic ids by name from the `partition.metadata` files on this broker."""
    ids: dict[str, set[Uuid]] = {}
    for directory in await scan:
        if directory.topic is not None and directory.topic_id is not None and directory.problem is None:
            ids.setdefault(directory.topic, set()).add(directory.topic_id)
    return ids


def _lowered(problem: LoweredError) -> StartError:
    return StartError(f"{PROTOCOL_VERSION} is below 2.8, but {problem}")
