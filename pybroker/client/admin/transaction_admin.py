"""AdminClient's calls about transactions (KIP-664): list and describe transactions and their producers, and abort
hanging transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.client_errors import broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicPartition, by_topic
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import CoordinatorKind
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.wall_clock import wall_ms

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""States of a transactional id in which partitions still wait for a marker."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id. state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its transaction. start_ms: start of the transaction, milliseconds since 1970; None if no
    transaction is open. partitions: the partitions to which it has written; if it has committed offsets, also the
    partitions of `__consumer_offsets`.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer in a leader's producer state. transaction_start: first offset of its open transaction in this
    partition; None if no transaction is open. coordinator_epoch: -1 until its first transaction has ended.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, as the producer state of the partition's leader shows it."""

    partition: TopicPartition
    producer: ProducerState


class TransactionsAdmin(AdminBase):
    """Calls about transactions and producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers. open_for_ms: only ids with a transaction that has been open for
        longer than this. pattern: a regular expression (RE2) that the whole id must match.
        """
        cluster = await self._network.refresh(())
        request = m.ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if open_for_ms is None else open_for_ms,
            transactional_id_pattern=pattern,
        )
        needed = 2 if pattern is not None else 1 if open_for_ms is not None else 0
        found: dict[str, TransactionListing] = {}
        for node in cluster.nodes:

            async def ask(connection: BrokerConnection) -> Any:
                self._at_least(connection, m.ListTransactionsRequest, needed, "filter transactions by these criteria")
                answer = await connection.request(request)
                if answer.error_code:
                    raise broker_error(answer.error_code, about="list of transactions")
                return answer

            for row in (await self._network.attempt(node.id, ask, about="list of transactions")).transaction_states:
                found[row.transactional_id] = TransactionListing(
                    row.transactional_id, row.producer_id, row.transaction_state, node.id
                )
        return list(found.values())

    def describe_transactions(self, transactional_ids: Iterable[str]) -> KeyedResult[str, TransactionDescription]:
        """Describe transactional ids; an unknown id fails with TRANSACTIONAL_ID_NOT_FOUND."""
        requested = list(transactional_ids)

        async def work(futures: Futures[str, TransactionDescription]) -> None:
            for transactional_id in requested:
                about = f"transactional id {transactional_id}"

                async def ask(connection: BrokerConnection, one: str = transactional_id, about: str = about) -> Any:
                    request = m.DescribeTransactionsRequest(transactional_ids=[one])
                    row = (await connection.request(request)).transaction_states[0]
                    if is_retriable(row.error_code):
                        raise broker_error(row.error_code, about=about)
                    return row

                row = await self._transaction_coordinator(transactional_id, ask)
                node = await self._network.coordinator(transactional_id, CoordinatorKind.TRANSACTION)
                settle(futures[transactional_id], row.error_code, None, _description(row, node), about)

        return KeyedResult(start(requested, work))

    async def _transaction_coordinator(
        self, transactional_id: str, ask: Callable[[BrokerConnection], Awaitable[Any]]
    ) -> Any:
        return await self._network.attempt(
            lambda: self._network.coordinator(transactional_id, CoordinatorKind.TRANSACTION),
            ask,
            about=f"transactional id {transactional_id}",
        )

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> KeyedResult[TopicPartition, tuple[ProducerState, ...]]:
        """Return partition → the producers in the leader's producer state."""
        requested = list(partitions)

        async def work(futures: Futures[TopicPartition, tuple[ProducerState, ...]]) -> None:
            async def one_round(_: BrokerConnection) -> None:
                left = [each for each in futures if not futures[each].done()]
                for leader, those in (await self._leaders(left)).items():
                    await self._describe_producers(leader, those, futures)
                if not all(future.done() for future in futures.values()):
                    raise broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, about="producers")

            await self._network.attempt("any", one_round, about="producers")

        return KeyedResult(start(requested, work))

    async def _describe_producers(
        self,
        leader: int,
        partitions: Sequence[TopicPartition],
        futures: Futures[TopicPartition, tuple[ProducerState, ...]],
    ) -> None:
        request = m.DescribeProducersRequest(
            topics=[
                m.DescribeProducersRequest_TopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(partitions).items()
            ]
        )
        connection = await self._network.connection(leader)
        for topic in (await connection.request(request)).topics:
            for row in topic.partitions:
                if not is_retriable(row.error_code):
                    where = TopicPartition(topic.name, row.partition_index)
                    states = tuple(map(_producer, row.active_producers))
                    settle(futures[where], row.error_code, row.error_message, states, str(where))

    async def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Write an abort marker into one partition without asking the transaction's coordinator. Only for hanging
        transactions.

        Raises KafkaError INVALID_PRODUCER_EPOCH if the producer has written with a newer epoch since.
        """
        where, producer = transaction.partition, transaction.producer
        request = m.WriteTxnMarkersRequest(
            markers=[
                m.WriteTxnMarkersRequest_WritableTxnMarker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transaction_result=False,
                    coordinator_epoch=max(producer.coordinator_epoch, 0),
                    topics=[
                        m.WriteTxnMarkersRequest_WritableTxnMarkerTopic(
                            name=where.topic, partition_indexes=[where.partition]
                        )
                    ],
                )
            ]
        )

        async def once(_: BrokerConnection) -> None:
            (leader,) = await self._leaders([where])
            connection = await self._network.connection(leader)
            (marker,) = (await connection.request(request)).markers
            code = marker.topics[0].partitions[0].error_code
            if code:
                raise broker_error(code, about=f"the transaction of producer {producer.producer_id} in {where}")

        await self._network.attempt("any", once, about=f"markers for {where}")

    async def terminate_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id and fence its producer (PRODUCER_FENCED)."""
        request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(request)
            if answer.error_code:
                raise broker_error(answer.error_code, about=f"transactional id {transactional_id}")

        # InitProducerId would create a transactional id that does not exist. Raise an error for such an id first.
        await self.describe_transactions([transactional_id])
        await self._transaction_coordinator(transactional_id, ask)

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, idle_ms: int = 900_000
    ) -> list[OpenTransaction]:
        """Return the transactions that are open in these partitions but that no coordinator knows. Only
        `abort_transaction` can end them.

        idle_ms: skip a producer that has written to the partition within this time. The default is the longest
        transaction timeout that brokers allow (`transaction.max.timeout.ms`).
        """
        requested = list(partitions)
        known, now_ms = await self.describe_producers(requested), wall_ms()
        candidates = [
            OpenTransaction(where, producer)
            for where, producers in known.items()
            for producer in producers
            if producer.transaction_start is not None and now_ms - producer.last_timestamp_ms >= idle_ms
        ]
        if not candidates:
            return []
        producer_ids = sorted({candidate.producer.producer_id for candidate in candidates})
        listed = await self.list_transactions(producer_ids=producer_ids)
        described = self.describe_transactions([listing.transactional_id for listing in listed])
        held: set[tuple[int, TopicPartition]] = set()
        for description in await asyncio.gather(*described.futures(), return_exceptions=True):
            if isinstance(description, TransactionDescription):
                if description.state in OPEN_STATES:
                    held.update((description.producer_id, where) for where in description.partitions)
            elif getattr(description, "code", None) != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise description
        unheld = [
            candidate for candidate in candidates if (candidate.producer.producer_id, candidate.partition) not in held
        ]
        # Drop transactions that have ended while this method queried the coordinators.
        now = await self.describe_producers({transaction.partition for transaction in unheld})
        return [transaction for transaction in unheld if _is_open(now[transaction.partition], transaction.producer)]


def _is_open(producers: Sequence[ProducerState], producer: ProducerState) -> bool:
    begun = {producer.producer_id: producer.transaction_start for producer in producers}
    return begun.get(producer.producer_id) == producer.transaction_start


def _description(row: Any, coordinator: int) -> TransactionDescription:
    return TransactionDescription(
        row.transactional_id,
        coordinator,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        tuple(TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions),
    )


def _producer(row: Any) -> ProducerState:
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.coordinator_epoch,
        row.current_txn_start_offset if row.current_txn_start_offset >= 0 else None,
    )
