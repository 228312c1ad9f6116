"""Interfaces of the transaction coordinator, in addition to `shards.interfaces`. `composition` implements them; tests
use fakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.coordinators.transaction.transaction import TransactionPartition
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

TRANSACTIONS_TOPIC = "__transaction_state"


class Marker(msgspec.Struct, frozen=True):
    """The control record that ends a transaction in a partition (KIP-98)."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    version: int
    """Version of the transaction protocol (`transaction.version`)."""


CodesCallback = Callable[[list[ErrorCode]], None]
"""Called once, with an error code for each partition."""


class MarkerWriter(Protocol):
    """Writes markers to partitions."""

    def write_then(
        self, broker_id: int, marker: Marker, parts: Sequence[TransactionPartition], callback: CodesCallback
    ) -> None:
        """Write markers to partitions that the given broker should lead. Call `callback` once with a code for each
        partition, possibly before this method returns.

        NONE: the marker is committed.
        """
        ...


class ProducerIdSource(Protocol):
    """Allocates producer ids (`coordinators.producer_ids`)."""

    async def next_id(self) -> int:
        """Return an id that no other producer has. Raise KafkaError if no id is available at the moment."""
        ...


class Knowledge(Protocol):
    """This broker's metadata image."""

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """Wait until this broker has applied all decisions that the controller made before this call. Raise KafkaError
        on timeout."""
        ...


class DeadTopics(Protocol):
    """Stores outcomes of transactions for deleted topics (`dead_topics`)."""

    async def keep(self, marker: Marker, parts: Sequence[TransactionPartition]) -> frozenset[Uuid]:
        """Record the outcome of a transaction for partitions of deleted topics. Raise KafkaError.

        Return the topics that exist after all. The caller writes markers to their partitions.
        """
        ...


class TransactionSettings:
    """The coordinator's settings. Some are dynamic, so each use reads them again."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    @property
    def timeout_ms_max(self) -> int:
        """transaction.max.timeout.ms"""
        return int(self._config["transaction.max.timeout.ms"])

    @property
    def id_bytes_max(self) -> int:
        """transactional.id.max.bytes.total"""
        return int(self._config["transactional.id.max.bytes.total"])

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
