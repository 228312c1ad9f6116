"""Staged replicas of deleted topics on this broker's disks and, on request, on the disks of the other brokers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.errors import KafkaError
from pybroker.native import NativeBroker, Uuid
from pybroker.protocol import interbroker as wire

log = logging.getLogger(__name__)

OTHERS_WAIT_S = 2.0
"""Seconds that the response waits for other brokers. It omits a broker that does not respond in this time, for example
because it is paused."""


class StagedReplica(msgspec.Struct, frozen=True):
    """The data of one partition in a broker's directory `deleting`."""

    topic_id: Uuid
    partition: int
    log_dir: str
    size_bytes: int
    remaining_ms: int
    """Time until the removal; -1 if the removal waits for the operator."""
    removing: bool


ReplicasByPartition = Mapping[tuple[Uuid, int], StagedReplica]
"""Staged replicas of one broker, by topic id and partition."""


class Waiting(Protocol):
    """The pending removals on this broker (`replicas.staging.Staging`)."""

    def remaining_ms(self, topic_id: Uuid) -> int | None:
        """Return the time until the removal; None if this broker has no staged replica of the topic."""
        ...

    def is_removing(self, topic_id: Uuid) -> bool:
        """Return whether the removal has begun."""
        ...


class PeerBrokers(Protocol):
    """Connections to the other brokers (`interbroker.connection_pool.ConnectionPool`)."""

    async def ask(self, broker_id: int, request: Any) -> Any:
        """Send a request and return the response. Raises KafkaError."""
        ...


class StagedReplicas:
    """Reads staged replicas of all brokers. `others` is None on a single broker."""

    def __init__(
        self, broker_id: int, view: ClusterView, native: NativeBroker, waiting: Waiting, others: PeerBrokers | None
    ) -> None:
        self._broker_id = broker_id
        self._view = view
        self._native = native
        self._waiting = waiting
        self._others = others

    async def here(self, topics: Collection[Uuid]) -> ReplicasByPartition:
        """Return the staged replicas on this broker's disks."""
        requested = frozenset(topics)
        found = await asyncio.get_running_loop().run_in_executor(None, self._on_disk, requested)
        held = {}
        for topic_id, partition, log_dir, size, purging in found:
            remaining = self._waiting.remaining_ms(topic_id)
            removing = purging or self._waiting.is_removing(topic_id)
            held[topic_id, partition] = StagedReplica(
                topic_id, partition, log_dir, size, -1 if remaining is None else remaining, removing
            )
        return held

    def _on_disk(self, requested: frozenset[Uuid]) -> list[tuple[Uuid, int, str, int, bool]]:
        return [
            (
                directory.topic_id,
                directory.partition,
                directory.log_dir,
                directory_bytes(directory.path),
                directory.purging,
            )
            for directory in self._native.log_dirs.staged()
            if directory.topic_id in requested
        ]

    async def everywhere(self, holders: Mapping[int, Sequence[Uuid]]) -> dict[int, ReplicasByPartition]:
        """Return the staged replicas of each broker that responds in time. `holders`: broker → topics of which it may
        have staged replicas.
        """
        live = self._view.image.brokers
        asked = [broker for broker in holders if broker == self._broker_id or broker in live]
        answers = await asyncio.gather(*(self._of(broker, holders[broker]) for broker in asked))
        return {broker: held for broker, held in zip(asked, answers, strict=True) if held is not None}

    async def _of(self, broker: int, topics: Sequence[Uuid]) -> ReplicasByPartition | None:
        if broker == self._broker_id:
            return await self.here(topics)
        if self._others is None:
            return None
        try:
            async with asyncio.timeout(OTHERS_WAIT_S):
                answer = await self._others.ask(broker, wire.StagedReplicasRequest(topic_ids=list(topics)))
        except (KafkaError, TimeoutError) as problem:
            log.debug("cannot read the staged replicas of a broker broker=%d: %s", broker, problem)
            return None
        if answer.error_code:
            return None
        return {
            (replica.topic_id, replica.partition_index): StagedReplica(
                replica.topic_id,
                replica.partition_index,
                replica.log_dir,
                replica.size_bytes,
                replica.remaining_ms,
                replica.removing,
            )
            for replica in answer.replicas
        }


def directory_bytes(path: str) -> int:
    """Return the bytes of the files in a directory; ignore files that disappear during the call."""
    try:
        with os.scandir(path) as entries:
            return sum(_bytes(entry) for entry in entries)
    except OSError:
        return 0


def _bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
