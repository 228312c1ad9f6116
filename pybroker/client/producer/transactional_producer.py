"""`TransactionalProducer`: writes records and commits source offsets atomically."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pybroker.client.client_errors import ClientConfigError, TransactionFailedError
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import TRANSACTIONAL
from pybroker.client.connection.close_timeout import CloseTimeout
from pybroker.client.connection.network import Network
from pybroker.client.consumer.group.group_membership import GroupMetadata
from pybroker.client.offset_types import Moment, OffsetAndMetadata, with_metadata
from pybroker.client.producer.accumulator import Batch
from pybroker.client.producer.appender import AppendedValues, Appender
from pybroker.client.producer.async_producer import Producer
from pybroker.client.producer.delivery import Delivery
from pybroker.client.producer.producer_transaction import Transaction, TransactionPhase


class TransactionalProducer(Producer):
    """A `Producer` with transactions (KIP-98); `pybroker.client.blocking` has it without asyncio.

        settings = {"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "copy"}
        async with TransactionalProducer(settings) as producer:
            async with producer.transaction():
                await producer.enqueue("words", "hello")
                await producer.send_offsets({TopicPartition("lines", 0): 7}, consumer.group_metadata())

    At the end of the block, the transaction is committed; if the block raises, it is aborted. Consumers with
    `isolation.level=read_committed` see only committed records. Only the producer that initialized a `transactional.id`
    last can write; an older one gets ProducerFencedError. A producer also gets ProducerFencedError if its transaction
    has been open for longer than `transaction.timeout.ms`.

    config: as for `Producer`, and `transactional.id` and `transaction.timeout.ms`.
    """

    _kind = "producer"
    _settings = TRANSACTIONAL

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        if "transactional.id" not in self._config:
            raise ClientConfigError("transactional.id is not set; a TransactionalProducer requires it")
        if not self._config["enable.idempotence"] or self._config["acks"] != -1:
            raise ClientConfigError("transactional.id requires enable.idempotence=true and acks=all")
        self._own: Transaction | None = None
        self._turn = asyncio.Lock()
        """Lock under which init, commit, abort and send_offsets run one after another."""

    # Transactions -------------------------------------------------------------------------------------------

    async def init(self) -> None:
        """Fence earlier producers of the `transactional.id` and abort their open transaction. The first `begin` also
        does this. Raises KafkaError if the coordinator refuses.
        """
        await self._start()
        own = self._transaction
        async with self._turn:
            if own.phase is TransactionPhase.NEW or (own.phase is TransactionPhase.READY and own.needs_epoch):
                await own.initialize()

    async def begin(self) -> None:
        """Open a transaction. Raises ProducerFencedError if another producer has the id, RuntimeError if a transaction
        is open.
        """
        await self.init()
        self._transaction.begin()

    async def commit(self) -> None:
        """Write all buffered records, then commit.

        Raises TransactionFailedError if the transaction has failed; then only `abort` is possible. Raises
        ProducerFencedError if another producer has the id. If it raises KafkaTimeoutError, the result is unknown: call
        `commit` again.
        """
        own = self._transaction
        own.require(TransactionPhase.OPEN, TransactionPhase.COMMITTING)
        async with self._turn:
            try:
                await self.flush()
            except Exception as error:
                own.failed(error)
            await own.end(commit=True)

    async def abort(self) -> None:
        """Abort the transaction and drop its records. Raises ProducerFencedError if another producer has the id."""
        own, sender = self._transaction, self._sender
        own.require(TransactionPhase.OPEN, TransactionPhase.FAILED)
        assert sender is not None, "a transaction is open"
        async with self._turn:
            own.failed(TransactionFailedError("the transaction was aborted"))
            await self._given_up()
            await sender.give_up(own.failure or TransactionFailedError("the transaction was aborted"))
            sender.outcomes.forget_unseen()
            await own.end(commit=False)

    async def _given_up(self) -> None:
        """Wait until the records that callers are enqueuing are in batches, so that the abort drops them too."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Call `begin` before the block and `commit` after it; call `abort` if the block raises or the commit fails."""
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
        """Whether a transaction is open and not being committed."""
        return self._own is not None and self._own.phase in (TransactionPhase.OPEN, TransactionPhase.FAILED)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit offsets of a group (the next offsets to read) as part of the transaction.

        group: the value of `Consumer.group_metadata()`, or a group id. With the value of `group_metadata`, a member
        that was replaced cannot commit (KIP-447). Raises CommitFailedError if the group has rebalanced,
        ProducerFencedError if another producer has the transactional id, KafkaError if the coordinator refuses.
        """
        if isinstance(group, str):
            group = GroupMetadata(group, -1, "", None)
        own = self._transaction
        own.require(TransactionPhase.OPEN)
        async with self._turn:
            await own.send_offsets(with_metadata(offsets), group)

    # Records ------------------------------------------------------------------------------------------------

    async def _started(self) -> Appender:
        appender = await super()._started()
        self._transaction.require(TransactionPhase.OPEN)
        return appender

    def takes(self, topic: str, size: int, ahead: int = 0) -> bool:
        """Like `Producer.takes`, but return False if no transaction is open."""
        return self._own is not None and self._own.phase is TransactionPhase.OPEN and super().takes(topic, size, ahead)

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
        """Append like `Producer.place`, but return None if no transaction is open."""
        if self._own is None or self._own.phase is not TransactionPhase.OPEN:
            return None
        return super().place(
            topic, value, key, partition, timestamp_ms=timestamp_ms, size=size, room_is_sure=room_is_sure
        )

    def place_values(self, topic: str, values: list[bytes | None]) -> Iterator[AppendedValues]:
        """Append like `Producer.place_values`, but append nothing if no transaction is open."""
        if self._own is not None and self._own.phase is TransactionPhase.OPEN:
            yield from super().place_values(topic, values)

    def _batch_done(self, batch: Batch, error: Exception | None) -> None:
        if error is not None and self._own is not None:
            self._own.failed(error)
        super()._batch_done(batch, error)

    # Life ---------------------------------------------------------------------------------------------------

    @property
    def _transaction(self) -> Transaction:
        if self._own is None:
            raise RuntimeError("the producer is not initialized; call init() first")
        return self._own

    def _transaction_on(self, network: Network) -> Transaction | None:
        self._own = Transaction(network, self._config["transactional.id"], self._config["transaction.timeout.ms"])
        return self._own

    async def _finish(self, patience: CloseTimeout) -> None:
        """Abort the open transaction. After the close, it could not be committed any more."""
        if self.can_abort:
            await patience.wait_for(self.abort())
        await super()._finish(patience)
