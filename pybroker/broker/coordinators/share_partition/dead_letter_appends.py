"""Appends to dead letter queues, sent to the leader of the queue's partition."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pybroker.broker.coordinators.shards.interfaces import BrokerConnections
from pybroker.errors import KafkaError
from pybroker.native import Completion, Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode


class DeadLetterLog(Protocol):
    """Appends to partitions of this broker (`NativeAppends`)."""

    def append_batch(self, topic_id: Uuid, partition: int, batch: bytes) -> asyncio.Future[Completion]:
        """Append a batch; the future completes when it is committed. Raise KafkaError."""
        ...


class DeadLetterAppends:
    """Implements `dead_letters.Leaders`. `others`: connections to other brokers; None on a broker without peers."""

    def __init__(self, broker_id: int, here: DeadLetterLog, others: BrokerConnections | None) -> None:
        self._broker_id = broker_id
        self._here = here
        self._others = others

    async def append(self, broker_id: int, topic_id: Uuid, partition: int, batch: bytes) -> None:
        """See `Leaders.append`."""
        if broker_id == self._broker_id:
            await self.append_here(topic_id, partition, batch)
            return
        if self._others is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not registered")
        answer = await self._others.ask(broker_id, wire.AppendDeadLettersRequest(topic_id, partition, batch))
        if answer.error_code:
            raise KafkaError(answer.error_code, f"broker {broker_id} refused")

    async def append_here(self, topic_id: Uuid, partition: int, batch: bytes) -> None:
        """Append to a partition that this broker leads. Raise KafkaError."""
        await self._here.append_batch(topic_id, partition, batch)
