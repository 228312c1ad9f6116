"""`RoleReconciler` compares two things about this broker's own partitions: the metadata that the broker shows, and
their roles in native code. It repairs differences.

The controller's messages arrive in order, and the broker answers a partition's LeaderAndIsr before it applies the
partition's UpdateMetadata. Therefore, when clients see a leader epoch, the local replica already has this epoch, and a
leader accepts records. If this is not so, an order was lost or refused, or a fence was not lifted. The broker then
builds the order again from its own view, and executes it like an order from the controller.

The work is limited: `TURN_PARTITIONS` at a time, and at most 1/`REST_FACTOR` of the loop's time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import Event, LogEndsTold, ReplicasOffline
from pybroker.broker.metadata.control_messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    LeaderAndIsrType,
    partition_state,
)
from pybroker.broker.metadata.image import PartitionImage, TopicImage
from pybroker.broker.metadata.metadata_cache import MetadataCache
from pybroker.broker.metadata.znodes import MISSING_LOG
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.errors import KafkaError
from pybroker.native import NativeError, PartitionRole, Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

PAUSE_S = 2.0
"""Minimum number of seconds between two passes. A difference is repaired when two consecutive passes have found it."""
REST_FACTOR = 200
TURN_PARTITIONS = 1_000
TIMEOUT_MS = 10_000
RETRY_S = 60.0
RETRY_MAX_S = 3_600.0
"""Longest pause, in seconds, after the order for a partition was executed again. The pause doubles each time."""


class Roles(Protocol):
    """Local partitions (`NativePartitions`)."""

    def roles(self, topic_id: Uuid) -> list[PartitionRole]:
        """Return the roles of a topic's local partitions."""
        ...


class Mismatch(NamedTuple):
    """A partition whose role differs from its metadata. If two passes find equal mismatches, the difference has
    persisted.
    """

    topic: str
    topic_id: Uuid
    partition: int
    leader_epoch: int
    found: str

    def __str__(self) -> str:
        return (
            f"topic={self.topic} partition={self.partition} id={self.topic_id} "
            f"leader_epoch={self.leader_epoch} found={self.found!r}"
        )


FENCED = "refuses appends although no deletion is in progress"


def wrong_role(shown: PartitionImage, role: PartitionRole | None, broker_id: int, settled_epoch: int) -> str | None:
    """Return the fault in the role of a local replica, or None. The result is also None if the controller already knows
    the problem: a log directory has failed, or a follower is not open because an order up to `settled_epoch` was
    refused.
    """
    leads = shown.leader == broker_id
    wanted = "lead" if leads else f"follow {shown.leader}"
    if role is None:
        return f"should {wanted} but is not open" if leads or shown.leader_epoch > settled_epoch else None
    if role.offline or role.leader_epoch > shown.leader_epoch:
        return None
    if role.leader == shown.leader and role.leader_epoch == shown.leader_epoch:
        return None
    does = "leads" if role.leader == broker_id else f"follows {role.leader}"
    return f"{does} in epoch {role.leader_epoch} but should {wanted}"


class RoleReconciler:
    """The role reconciliation of one broker; used on the loop's thread."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        partitions: Roles,
        view: ClusterView,
        cache: MetadataCache,
        closing: TopicClosing,
        replicas: ReplicaManager,
        on_led: Callable[[LeaderAndIsrRequest], None],
        controller: ControllerClient,
    ) -> None:
        """`on_led` is called when a LeaderAndIsr has been executed."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._view = view
        self._cache = cache
        self._closing = closing
        self._replicas = replicas
        self._on_led = on_led
        self._controller = controller
        self._before: frozenset[Mismatch] = frozenset()
        """The differences in the last pass."""
        self._controller_epoch = -1
        """The controller epoch in the last pass."""
        self.wrong: tuple[Mismatch, ...] = ()
        """Differences that two passes have found and that the last pass did not repair."""
        self._tried: dict[Mismatch, tuple[float, float]] = {}
        """Difference → the time from which on its order may be executed again, and the pause after that."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start. Call this when the broker has received the complete state from the controller."""
        self._task = asyncio.create_task(self._run(), name="role-reconciliation")

    async def stop(self) -> None:
        """Stop repairing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        rest = PAUSE_S
        while True:
            await asyncio.sleep(rest)
            try:
                worked = await self.reconcile()
            except NativeError as problem:
                # The broker is stopping, or has lost its last log directory.
                log.debug("cannot read the roles of partitions: %s", problem)
                worked = 0.0
            rest = max(PAUSE_S, worked * REST_FACTOR)
            now = loop.time()
            self._tried = {place: tried for place, tried in self._tried.items() if tried[0] + RETRY_MAX_S > now}

    async def reconcile(self) -> float:
        """Run one pass. Repair the differences that the previous pass has also found. Return the duration of the
        comparison in seconds."""
        loop = asyncio.get_running_loop()
        # Use the controller epoch of the previous pass. The receiver of the image itself ends the fences for the
        # current epoch, perhaps at this moment.
        left = await self._closing.expire(self._controller_epoch)
        self._controller_epoch = self._view.image.controller_epoch
        if left:
            log.warning("write fences reconciled: removed fences that their controller did not remove fences=%d", left)
        found: list[Mismatch] = []
        worked, began, looked_at = 0.0, loop.time(), 0
        for topic in tuple(self._view.image.topics.values()):
            found += self._mismatches(topic)
            looked_at += len(topic.partitions)
            if looked_at >= TURN_PARTITIONS:
                worked, looked_at = worked + loop.time() - began, 0
                await asyncio.sleep(0)
                began = loop.time()
        worked += loop.time() - began
        again = [mismatch for mismatch in found if mismatch in self._before]
        self._before = frozenset(found)
        for mismatch in again:
            await self._mend(mismatch)
        self.wrong = tuple(mismatch for mismatch in again if self._is_still(mismatch))
        return worked

    def _mismatches(self, topic: TopicImage) -> list[Mismatch]:
        roles: dict[int, PartitionRole] | None = None
        found: list[Mismatch] = []
        shown = self._cache.topic_by_id(topic.topic_id)
        if shown is None:
            return found
        for index, partition in enumerate(topic.partitions):
            if self._broker_id not in partition.replicas or index >= len(shown.partitions):
                continue
            seen = shown.partitions[index]
            if (seen.leader, seen.leader_epoch) != (partition.leader, partition.leader_epoch):
                # The controller's own order will arrive.
                continue
            if roles is None:
                roles = {role.partition: role for role in self._partitions.roles(topic.topic_id)}
            role = roles.get(index)
            settled_epoch = self._replicas.settled_epoch(topic.topic_id, index)
            wrong = wrong_role(partition, role, self._broker_id, settled_epoch)
            if wrong is None and role is not None and role.fenced and self._is_left_closed(topic.topic_id):
                wrong = FENCED
            if wrong is not None:
                found.append(Mismatch(topic.name, topic.topic_id, index, partition.leader_epoch, wrong))
        return found

    def _is_still(self, mismatch: Mismatch) -> bool:
        topic = self._view.image.topic_by_id(mismatch.topic_id)
        return topic is not None and mismatch in self._mismatches(topic)

    def _is_left_closed(self, topic_id: Uuid) -> bool:
        return not self._closing.busy and not self._closing.is_closed(topic_id)

    async def _mend(self, mismatch: Mismatch) -> None:
        now = asyncio.get_running_loop().time()
        again_at, pause = self._tried.get(mismatch, (now, RETRY_S))
        # Compare again, because other partitions were repaired in the meantime, and the controller has made other
        # changes.
        if now < again_at or not self._is_still(mismatch):
            return
        if mismatch.found == FENCED:
            await self._closing.open_left(mismatch.topic_id)
            log.warning("partition reconciled: %s done='accepts appends again'", mismatch)
            return
        topic = self._view.image.topics[mismatch.topic]
        request = self._order_for(topic, mismatch.partition)
        response = await self._replicas.apply_again(request, lambda: self._is_still(mismatch))
        if response is None:
            return
        self._tried[mismatch] = now + pause, min(2 * pause, RETRY_MAX_S)
        self._on_led(request)
        code = next((error.error_code for topic in response.topics for error in topic.partition_errors), 0)
        if code == ErrorCode.NONE:
            log.warning("partition reconciled: %s done='LeaderAndIsr applied again'", mismatch)
        else:
            log.warning("partition not reconciled: %s error=%s", mismatch, error_name(code))
            await self._report(mismatch, code)

    def _order_for(self, topic: TopicImage, index: int) -> LeaderAndIsrRequest:
        partition = topic.partitions[index]
        state = partition_state(index, partition, False, topic.lineage.start_offset(index))
        return LeaderAndIsrRequest(
            self._cache.controller_id,
            self._view.image.controller_epoch,
            self._broker_epoch(),
            int(LeaderAndIsrType.INCREMENTAL),
            [LeaderAndIsrTopicState(topic.name, topic.topic_id, [state])],
            [],
        )

    async def _report(self, mismatch: Mismatch, code: int) -> None:
        """Report the error to the controller like the answer to its own order, so that another replica becomes leader.
        """
        partition = mismatch.topic_id, mismatch.partition
        event: Event[None]
        if code == ErrorCode.LOG_DIR_NOT_FOUND:
            event = LogEndsTold(self._broker_id, self._broker_epoch(), ((*partition, -1, MISSING_LOG),))
        elif code == ErrorCode.STALE_CONTROLLER_EPOCH:
            # The local partition has a later leader epoch.
            return
        else:
            event = ReplicasOffline(self._broker_id, (partition,), self._broker_epoch())
        try:
            await self._controller.submit(event, TIMEOUT_MS)
        except KafkaError as error:
            log.warning("cannot report a partition with a wrong role to the controller %s: %s", mismatch, error)
