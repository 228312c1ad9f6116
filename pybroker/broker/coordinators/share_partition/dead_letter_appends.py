"""Batches for dead letter queues, brought to whoever leads the partition of the queue."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pybroker.broker.coordinators.shards.ports import Brokers
from pybroker.errors import KafkaError
from pybroker.native import Completion, Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode


class Appends(Protocol):
    """Of this broker (`NativeAppends`)."""

    def append_batch(self, topic_id: Uuid, partition: int, batch: bytes) -> asyncio.Future[Completion]:
        """The future is done when the batch is committed. KafkaError."""
        ...


class DeadLetterAppends:
    """`dead_letters.Leaders`. `others`: None of a broker that is alone."""

    def __init__(self, broker_id: int, here: Appends, others: Brokers | None) -> None:
        self._broker_id = broker_id
        self._here = here
        self._others = others

    async def append(self, broker_id: int, topic_id: Uuid, partition: int, batch: bytes) -> None:
        """See `Leaders`."""
        if broker_id == self._broker_id:
            await self.append_here(topic_id, partition, batch)
            return
        if self._others is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not there")
        answer = await self._others.ask(broker_id, wire.AppendDeadLettersRequest(topic_id, partition, batch))
        if answer.error_code:
            raise KafkaError(answer.error_code, f"broker {broker_id} refused")

    async def append_here(self, topic_id: Uuid, partition: int, batch: bytes) -> None:
        """To a partition that this broker leads. KafkaError."""
        await self._here.append_batch(topic_id, partition, batch)
