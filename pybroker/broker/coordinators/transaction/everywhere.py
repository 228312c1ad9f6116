"""Transactions over several brokers: sends markers to partition leaders, and queries to transaction coordinators.

A broker without peers does not import this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from pybroker.broker.coordinators.shards.interfaces import BrokerConnections
from pybroker.broker.coordinators.transaction.interfaces import CodesCallback, Marker
from pybroker.broker.coordinators.transaction.markers import LocalMarkers
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition, TransactionProducer
from pybroker.errors import KafkaError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Everywhere:
    """Implements `transaction.interfaces.MarkerWriter` and `transaction.membership.TransactionPeers` for a broker in a
    cluster."""

    def __init__(
        self, broker_id: int, local: LocalMarkers, markers: BrokerConnections, questions: BrokerConnections
    ) -> None:
        """Markers wait for replicas, and must not delay queries. Therefore each of the two has its own connections."""
        self._broker_id = broker_id
        self._local = local
        self._markers = markers
        self._questions = questions
        self._asking: set[asyncio.Task[None]] = set()

    def write_then(
        self, broker_id: int, marker: Marker, parts: Sequence[TransactionPartition], callback: CodesCallback
    ) -> None:
        """See `ports.MarkerWriter.write_then`."""
        if broker_id == self._broker_id:
            self._local.begin_then(marker, parts, callback)
            return

        async def ask() -> None:
            callback(await self._write(broker_id, marker, parts))

        task = asyncio.get_running_loop().create_task(ask())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _write(self, broker_id: int, marker: Marker, parts: Sequence[TransactionPartition]) -> list[ErrorCode]:
        request = wire.EndTransactionRequest(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.version,
            partitions=[wire.EndTransactionRequest_TransactionPartition(*part) for part in parts],
        )
        try:
            return _codes(await self._markers.ask(broker_id, request), parts)
        except KafkaError as error:
            log.info("retrying to write transaction markers: %s", error)
            return [ErrorCode.REQUEST_TIMED_OUT] * len(parts)

    async def verify(
        self,
        broker_id: int,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        *,
        adds: bool,
    ) -> list[ErrorCode]:
        """See `TransactionPeers.verify`."""
        request = wire.VerifyTransactionRequest(
            transactional_id=transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            adds=adds,
            partitions=[wire.VerifyTransactionRequest_TransactionPartition(*part) for part in parts],
        )
        return _codes(await self._questions.ask(broker_id, request), parts)

    def close(self) -> None:
        """Close all connections."""
        self._markers.close()
        self._questions.close()


def _codes(answer: Any, parts: Sequence[TransactionPartition]) -> list[ErrorCode]:
    if answer.error_code:
        return [ErrorCode(answer.error_code)] * len(parts)
    return [ErrorCode(code) for code in answer.partition_errors]
