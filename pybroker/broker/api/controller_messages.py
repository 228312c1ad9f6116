"""The controller's messages to this broker. They are objects from a controller in this process, and wire messages from
another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pybroker.broker.api import k04_leader_and_isr, k05_stop_replica, k06_update_metadata
from pybroker.broker.metadata.control_messages import (
    CloseTopics,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrType,
    ReopenTopics,
    RestoreReplicasRequest,
    StopReplicaRequest,
    UpdateCluster,
    UpdateMetadataRequest,
    refusal,
)
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.replicas.controller_fence import ControllerFence
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.metadata_updates import MetadataUpdates
from pybroker.broker.replicas.replica_manager import ReplicaManager


class ControlReceiver:
    """Receives messages from the current controller and passes each to its handler."""

    def __init__(
        self,
        *,
        fence: ControllerFence,
        cluster: KnownCluster,
        replicas: ReplicaManager,
        metadata: MetadataUpdates,
        closing: TopicClosing,
        on_led: Callable[[LeaderAndIsrRequest], None],
    ) -> None:
        """`on_led` is called when a LeaderAndIsr has been executed, before clients see its partitions."""
        self._fence = fence
        self._cluster = cluster
        self._replicas = replicas
        self._metadata = metadata
        self._closing = closing
        self._on_led = on_led
        self._hosts = -1
        """The latest broker epoch for which the controller has sent a FULL LeaderAndIsr, which lists the hosted
        replicas.
        """
        self._informed_epoch = -1
        """The latest broker epoch for which the controller has sent its complete state."""
        self._heard = asyncio.Event()

    async def introduced(self, broker_epoch: int) -> None:
        """Wait until the controller has sent its complete state to this broker epoch. By then the hosted replicas are
        open, and new clients see the cluster.
        """
        while self._informed_epoch < broker_epoch:
            self._heard.clear()
            await self._heard.wait()

    async def handle(self, request: ControlRequest, *, by_name: bool = False) -> ControlResponse:
        """Handle one message. Orders are executed one after another; CloseTopics may run beside them. `by_name` is true
        if the request's version has names but no topic ids.
        """
        refused = await self._fence.admit(request.controller_epoch, request.broker_epoch)
        if refused:
            return refusal(request, refused)
        return await self.execute(request, by_name=by_name)

    async def execute(self, request: ControlRequest, *, by_name: bool = False) -> ControlResponse:
        """Execute a message that needs no admission: this broker has derived it from the metadata log."""
        view = self._cluster
        match request:
            case UpdateCluster():
                updated = await self._cluster.update(request)
                if isinstance(request.change, ClusterImage) and not updated.error_code:
                    await self._closing.expire(request.controller_epoch, request.broker_epoch)
                return updated
            case LeaderAndIsrRequest():
                if by_name:
                    applied = await k04_leader_and_isr.handle_by_name(self._replicas, view, request)
                else:
                    applied = await k04_leader_and_isr.handle(self._replicas, request)
                self._on_led(request)
                # A LeaderAndIsr without a type comes from an old version. The first LeaderAndIsr to this broker epoch
                # lists all replicas that the broker hosts.
                if by_name or request.type == LeaderAndIsrType.FULL:
                    self._hosts = max(self._hosts, request.broker_epoch)
                return applied
            case StopReplicaRequest():
                if by_name:
                    return await k05_stop_replica.handle_by_name(self._replicas, view, request)
                return await k05_stop_replica.handle(self._replicas, request)
            case UpdateMetadataRequest():
                if by_name:
                    response = k06_update_metadata.handle_by_name(self._metadata, view, request)
                else:
                    response = k06_update_metadata.handle(self._metadata, request)
                if self._informed_epoch < request.broker_epoch <= self._hosts and self._metadata.shows(
                    self._cluster.image
                ):
                    # This is the last of a controller's first messages to a broker.
                    self._informed_epoch = request.broker_epoch
                    self._heard.set()
                return response
            case RestoreReplicasRequest():
                return await self._replicas.restore_replicas(request)
            case CloseTopics():
                return await self._closing.close(request)
            case ReopenTopics():
                return await self._closing.reopen(request)
