"""What brokers still hold of deleted topics: this broker's own disks, and the disks of the others, by asking them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.cluster.view import ClusterView
from pybroker.errors import KafkaError
from pybroker.native import NativeBroker, Uuid
from pybroker.protocol import interbroker as wire

log = logging.getLogger(__name__)

OTHERS_WAIT_S = 2.0
"""A broker that does not answer within this time is left out: a paused one must not hold up the answer."""


class StagedReplica(msgspec.Struct, frozen=True):
    """The data of one partition in a broker's directory `deleting`."""

    topic_id: Uuid
    partition: int
    log_dir: str
    size_bytes: int
    remaining_ms: int
    """Until the removal; -1: it waits for an operator."""
    removing: bool


Held = Mapping[tuple[Uuid, int], StagedReplica]
"""What one broker holds."""


class Waiting(Protocol):
    """What waits for removal on this broker (`replicas.staging.Staging`)."""

    def remaining_ms(self, topic_id: Uuid) -> int | None:
        """Time until the removal; None if nothing of the topic waits here."""
        ...

    def is_removing(self, topic_id: Uuid) -> bool:
        """Whether the removal has begun."""
        ...


class Brokers(Protocol):
    """The other brokers (`interbroker.lines.Lines`)."""

    async def ask(self, broker_id: int, request: Any) -> Any:
        """The answer. Raises KafkaError."""
        ...


class StagedReplicas:
    """Of all brokers. `others`: None of a broker that is alone."""

    def __init__(
        self, broker_id: int, view: ClusterView, native: NativeBroker, waiting: Waiting, others: Brokers | None
    ) -> None:
        self._broker_id = broker_id
        self._view = view
        self._native = native
        self._waiting = waiting
        self._others = others

    async def here(self, topics: Collection[Uuid]) -> Held:
        """On this broker's disks."""
        wanted = frozenset(topics)
        found = await asyncio.get_running_loop().run_in_executor(None, self._on_disk, wanted)
        held = {}
        for topic_id, partition, log_dir, size, purging in found:
            remaining = self._waiting.remaining_ms(topic_id)
            removing = purging or self._waiting.is_removing(topic_id)
            held[topic_id, partition] = StagedReplica(
                topic_id, partition, log_dir, size, -1 if remaining is None else remaining, removing
            )
        return held

    def _on_disk(self, wanted: frozenset[Uuid]) -> list[tuple[Uuid, int, str, int, bool]]:
        return [
            (one.topic_id, one.partition, one.log_dir, directory_bytes(one.path), one.purging)
            for one in self._native.log_dirs.staged()
            if one.topic_id in wanted
        ]

    async def everywhere(self, holders: Mapping[int, Sequence[Uuid]]) -> dict[int, Held]:
        """By broker, of those that answer in time. `holders`: the topics to ask each broker about."""
        live = self._view.image.brokers
        asked = [broker for broker in holders if broker == self._broker_id or broker in live]
        answers = await asyncio.gather(*(self._of(broker, holders[broker]) for broker in asked))
        return {broker: held for broker, held in zip(asked, answers, strict=True) if held is not None}

    async def _of(self, broker: int, topics: Sequence[Uuid]) -> Held | None:
        if broker == self._broker_id:
            return await self.here(topics)
        if self._others is None:
            return None
        try:
            async with asyncio.timeout(OTHERS_WAIT_S):
                answer = await self._others.ask(broker, wire.StagedReplicasRequest(topic_ids=list(topics)))
        except (KafkaError, TimeoutError) as problem:
            log.debug("broker %d does not say what it holds of deleted topics: %s", broker, problem)
            return None
        if answer.error_code:
            return None
        return {
            (one.topic_id, one.partition_index): StagedReplica(
                one.topic_id, one.partition_index, one.log_dir, one.size_bytes, one.remaining_ms, one.removing
            )
            for one in answer.replicas
        }


def directory_bytes(path: str) -> int:
    """Bytes of the files in a directory; what goes away meanwhile counts nothing."""
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
