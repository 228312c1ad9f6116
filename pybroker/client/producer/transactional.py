"""`TransactionalProducer`: records into several partitions, and the positions they come from, all of them or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pybroker.client.cluster import TopicPartition
from pybroker.client.config import TRANSACTIONAL
from pybroker.client.connection.network import Network
from pybroker.client.connection.patience import Patience
from pybroker.client.consumer.group.membership import GroupMetadata
from pybroker.client.errors import ClientConfigError, TransactionFailedError
from pybroker.client.offsets import OffsetAndMetadata, with_metadata
from pybroker.client.producer.accumulator import Batch
from pybroker.client.producer.appender import Appender, Placed
from pybroker.client.producer.delivery import Delivery
from pybroker.client.producer.producer import Producer
from pybroker.client.producer.transaction import Phase, Transaction
from pybroker.client.times import Moment


class TransactionalProducer(Producer):
    """A `Producer` whose records count together or not at all (KIP-98); `pybroker.client.blocking` has it without
    asyncio.

        settings = {"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "copy"}
        async with TransactionalProducer(settings) as producer:
            async with producer.transaction():
                await producer.enqueue("words", "hello")
                await producer.send_offsets({TopicPartition("lines", 0): 7}, consumer.group_metadata())

    The block commits at its end and aborts if it is left by an exception. Consumers with
    `isolation.level=read_committed` see what was committed. Of all producers with a `transactional.id` the one that
    was initialized last writes; the others get ProducerFencedError, as does one whose transaction is open for longer
    than `transaction.timeout.ms`.

    config: as of `Producer`, `transactional.id` and `transaction.timeout.ms`.
    """

    _kind = "producer"
    _settings = TRANSACTIONAL

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        if "transactional.id" not in self._config:
            raise ClientConfigError("transactional.id is not set: a TransactionalProducer needs one")
        if not self._config["enable.idempotence"] or self._config["acks"] != -1:
            raise ClientConfigError("transactional.id needs enable.idempotence=true and acks=all")
        self._own: Transaction | None = None
        self._turn = asyncio.Lock()
        """One of init, commit, abort and send_offsets at a time."""

    # Transactions -------------------------------------------------------------------------------------------

    async def init(self) -> None:
        """Shuts out who had the `transactional.id` before and has what it left open aborted; `begin` does it, too,
        the first time. Raises KafkaError.
        """
        await self._start()
        own = self._transaction
        async with self._turn:
            if own.phase is Phase.NEW or (own.phase is Phase.READY and own.needs_epoch):
                await own.initialize()

    async def begin(self) -> None:
        """Opens a transaction. Raises ProducerFencedError, RuntimeError if one is open."""
        await self.init()
        self._transaction.begin()

    async def commit(self) -> None:
        """Has everything written, then counts it. Whatever fails before leaves a transaction that can only be
        aborted: raises TransactionFailedError, ProducerFencedError. After a connection that fails in the middle
        (KafkaTimeoutError) it is not known whether it is committed; `commit` may be called again.
        """
        own = self._transaction
        own.require(Phase.OPEN, Phase.COMMITTING)
        async with self._turn:
            try:
                await self.flush()
            except Exception as error:
                own.failed(error)
            await own.end(commit=True)

    async def abort(self) -> None:
        """Gives up what was sent since `begin`. Raises ProducerFencedError."""
        own, sender = self._transaction, self._sender
        own.require(Phase.OPEN, Phase.FAILED)
        assert sender is not None, "a transaction is open"
        async with self._turn:
            own.failed(TransactionFailedError("the transaction was aborted"))
            await self._given_up()
            await sender.give_up(own.failure or TransactionFailedError("the transaction was aborted"))
            sender.outcomes.forget_unseen()
            await own.end(commit=False)

    async def _given_up(self) -> None:
        """Before what is in batches is given up: what is on its way there."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`begin`, then `commit`, or `abort` if the block is left by an exception or the commit fails."""
        await self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            if self.can_abort:
                await self.abort()
            raise

    @property
    def can_abort(self) -> bool:
        """Whether a transaction is open that is not being committed."""
        return self._own is not None and self._own.phase in (Phase.OPEN, Phase.FAILED)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Positions of a group that count if the transaction is committed: the next offsets to read.

        group: what `Consumer.group_metadata()` gives, so that a member that was replaced cannot commit (KIP-447), or
        a group's id. Raises CommitFailedError if the group has moved on, ProducerFencedError, KafkaError.
        """
        if isinstance(group, str):
            group = GroupMetadata(group, -1, "", None)
        own = self._transaction
        own.require(Phase.OPEN)
        async with self._turn:
            await own.send_offsets(with_metadata(offsets), group)

    # Records ------------------------------------------------------------------------------------------------

    async def _started(self) -> Appender:
        appender = await super()._started()
        self._transaction.require(Phase.OPEN)
        return appender

    def takes(self, topic: str, size: int, ahead: int = 0) -> bool:
        """As of `Producer`; False, too, if no transaction is open."""
        return self._own is not None and self._own.phase is Phase.OPEN and super().takes(topic, size, ahead)

    def place(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        *,
        timestamp_ms: Moment | None,
        size: int,
        room_is_sure: bool = False,
    ) -> Delivery | None:
        """As of `Producer`; None, too, if no transaction is open."""
        if self._own is None or self._own.phase is not Phase.OPEN:
            return None
        return super().place(
            topic, value, key, partition, timestamp_ms=timestamp_ms, size=size, room_is_sure=room_is_sure
        )

    def place_values(self, topic: str, values: list[bytes | None]) -> Iterator[Placed]:
        """As of `Producer`; nothing if no transaction is open."""
        if self._own is not None and self._own.phase is Phase.OPEN:
            yield from super().place_values(topic, values)

    def _batch_done(self, batch: Batch, error: Exception | None) -> None:
        if error is not None and self._own is not None:
            self._own.failed(error)
        super()._batch_done(batch, error)

    # Life ---------------------------------------------------------------------------------------------------

    @property
    def _transaction(self) -> Transaction:
        if self._own is None:
            raise RuntimeError("the producer is not initialized: call init() first")
        return self._own

    def _transaction_on(self, network: Network) -> Transaction | None:
        self._own = Transaction(
            network, self._config["transactional.id"], self._config["transaction.timeout.ms"]
        )
        return self._own

    async def _finish(self, patience: Patience) -> None:
        """What is open is aborted: nobody can commit it any more."""
        if self.can_abort:
            await patience.wait_for(self.abort())
        await super()._finish(patience)
