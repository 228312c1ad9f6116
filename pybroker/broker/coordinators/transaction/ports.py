"""What the transaction coordinator needs beyond `shards.ports`. `composition` binds it; tests fake it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.coordinators.transaction.transaction import Part
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

TRANSACTIONS_TOPIC = "__transaction_state"


class Marker(msgspec.Struct, frozen=True):
    """What ends a transaction in a partition (KIP-98)."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int
    """Of the transaction."""


CodesTold = Callable[[list[ErrorCode]], None]
"""Called once, with an error code for each partition."""


class MarkerWriter(Protocol):
    """Writes markers to partitions."""

    def write_then(self, broker_id: int, marker: Marker, parts: Sequence[Part], told: CodesTold) -> None:
        """Tells an error code for each partition, which that broker should lead; NONE once its marker is committed.
        That may be before this returns."""
        ...


class ProducerIds(Protocol):
    """Hands out ids of producers (`coordinators.producer_ids`)."""

    async def next_id(self) -> int:
        """An id that nobody else has. KafkaError while there is none."""
        ...


class Knowledge(Protocol):
    """What this broker knows of the cluster."""

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """Returns when this broker knows all that the controller had decided before. KafkaError if that takes too long.
        """
        ...


class DeadTopics(Protocol):
    """What becomes of partitions whose topic is deleted (`dead_topics`)."""

    async def keep(self, marker: Marker, parts: Sequence[Part]) -> frozenset[Uuid]:
        """Has it kept how a transaction ended that had written to these. The topics that live after all: their
        partitions need the marker. KafkaError."""
        ...


class Settings:
    """The broker settings that the coordinator obeys, read at each use because some are dynamic."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    @property
    def timeout_ms_max(self) -> int:
        """transaction.max.timeout.ms"""
        return int(self._config["transaction.max.timeout.ms"])

    @property
    def expiration_ms(self) -> int:
        """transactional.id.expiration.ms"""
        return int(self._config["transactional.id.expiration.ms"])

    @property
    def abort_interval_ms(self) -> int:
        """transaction.abort.timed.out.transaction.cleanup.interval.ms"""
        return int(self._config["transaction.abort.timed.out.transaction.cleanup.interval.ms"])

    @property
    def expiration_interval_ms(self) -> int:
        """transaction.remove.expired.transaction.cleanup.interval.ms"""
        return int(self._config["transaction.remove.expired.transaction.cleanup.interval.ms"])

    @property
    def load_buffer_bytes(self) -> int:
        """transaction.state.log.load.buffer.size"""
        return int(self._config["transaction.state.log.load.buffer.size"])
