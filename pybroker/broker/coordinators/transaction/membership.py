"""Verifies that a partition is part of a transaction before its leader appends the transaction's first record
(KIP-890).

A producer of version 1 first adds the partition (AddPartitionsToTxn). A producer of version 2 only sends the Produce
request, which adds the partition to its transaction. Another broker may be the coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from pybroker.broker.coordinators.shards.hashing import partition_for
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.interfaces import TRANSACTIONS_TOPIC
from pybroker.broker.coordinators.transaction.transaction import VERSION_2, TransactionPartition, TransactionProducer
from pybroker.errors import KafkaError
from pybroker.native import TransactionQuestion
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

TRY_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Temporary errors of the coordinator. The producer gets NOT_ENOUGH_REPLICAS instead, which every client retries."""

SETTLES_S = 5.0
"""Seconds that the first write of a transaction waits for the markers of the previous transaction before the client has
to retry. A producer of version 2 gets its next epoch before these markers are written."""
ASKED_AGAIN_S, ASKED_AGAIN_S_MAX = 0.001, 0.1
"""First and longest delay, in seconds, between queries to the coordinator during this wait, if it is another broker.
That broker must answer each query at once: responses on a connection are in order, and a delayed response would delay
queries about other transactions."""


class TransactionPeers(Protocol):
    """Transaction coordinators on other brokers."""

    async def verify(
        self,
        broker_id: int,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        *,
        adds: bool,
    ) -> list[ErrorCode]:
        """Call `TransactionMembership.judge` on that broker. Raise KafkaError if the broker is unreachable."""
        ...


class TransactionMembership:
    """Verifies partitions with their transaction coordinator. `peers`: None on a broker without peers."""

    def __init__(
        self, broker_id: int, coordinator: TransactionCoordinator, topics: Topics, peers: TransactionPeers | None
    ) -> None:
        self._broker_id = broker_id
        self._coordinator = coordinator
        self._topics = topics
        self._peers = peers

    async def verify(
        self,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        *,
        adds: bool,
        abortable: bool,
    ) -> list[ErrorCode]:
        """Return a code for each partition, mapped to a code that the client's version knows. `adds`: whether to add
        missing partitions to the transaction."""
        return _as_known(await self._settled(transactional_id, who, parts, adds=adds), abortable=abortable)

    async def _settled(
        self, transactional_id: str, who: TransactionProducer, parts: Sequence[TransactionPartition], *, adds: bool
    ) -> list[ErrorCode]:
        give_up = asyncio.get_running_loop().time() + SETTLES_S
        wait_s = ASKED_AGAIN_S
        while True:
            try:
                codes = await self._ask(transactional_id, who, parts, adds=adds)
            except KafkaError as error:
                codes = [ErrorCode(error.code)] * len(parts)
            left_s = give_up - asyncio.get_running_loop().time()
            if not adds or ErrorCode.CONCURRENT_TRANSACTIONS not in codes or left_s < wait_s:
                return codes
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, ASKED_AGAIN_S_MAX)

    async def _ask(
        self, transactional_id: str, who: TransactionProducer, parts: Sequence[TransactionPartition], *, adds: bool
    ) -> list[ErrorCode]:
        leader = self._leader(transactional_id)
        if leader == self._broker_id:
            return await self.judge(transactional_id, who, parts, adds=adds, patience_s=SETTLES_S)
        if leader < 0 or self._peers is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await self._peers.verify(leader, transactional_id, who, parts, adds=adds)

    def _leader(self, transactional_id: str) -> int:
        topic_id = self._topics.topic_id(TRANSACTIONS_TOPIC)
        if topic_id is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        partitions = self._topics.partition_count(topic_id)
        return self._topics.leader(topic_id, partition_for(transactional_id, partitions))[0]

    async def judge(
        self,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        *,
        adds: bool,
        patience_s: float = 0,
    ) -> list[ErrorCode]:
        """As the coordinator, verify partitions. A partition that is not part of the transaction gets
        TRANSACTION_ABORTABLE. Raise KafkaError.

        `patience_s`: see `TransactionCoordinator.add_then`.
        """
        if adds:
            await self._coordinator.add(transactional_id, who, parts, VERSION_2, patience_s=patience_s)
            return [ErrorCode.NONE] * len(parts)
        return self._held(transactional_id, who, parts)

    def _held(
        self, transactional_id: str, who: TransactionProducer, parts: Sequence[TransactionPartition]
    ) -> list[ErrorCode]:
        held = self._coordinator.holds(transactional_id, who, parts)
        self._coordinator.statistics.refused += held.count(False)
        return [ErrorCode.NONE if is_held else ErrorCode.TRANSACTION_ABORTABLE for is_held in held]

    def answer_here(self, question: TransactionQuestion) -> bool:
        """Answer a query of a partition leader on this broker, without creating a task. The query is about a Produce
        that starts a transaction in the partition.

        Return False if another broker coordinates the transaction. The caller then uses `answer`.
        """
        try:
            if self._leader(question.transactional_id) != self._broker_id:
                return False
        except KafkaError:
            return False
        who, parts = TransactionProducer(question.producer_id, question.producer_epoch), self._parts(question)
        if question.adds:
            self._coordinator.add_then(
                question.transactional_id,
                who,
                parts,
                lambda code: _answer(question, [code] * len(parts)),
                VERSION_2,
                patience_s=SETTLES_S,
            )
            return True
        try:
            codes = self._held(question.transactional_id, who, parts)
        except KafkaError as error:
            codes = [ErrorCode(error.code)] * len(parts)
        _answer(question, codes)
        return True

    def _parts(self, question: TransactionQuestion) -> list[TransactionPartition]:
        return [
            TransactionPartition(self._topics.topic_name(topic_id) or "", topic_id, partition)
            for topic_id, partition in question.partitions
        ]

    async def answer(self, question: TransactionQuestion) -> None:
        """Answer a query of a partition leader on this broker. The coordinator may be any broker."""
        codes: list[ErrorCode] = []
        try:
            codes = await self._settled(
                question.transactional_id,
                TransactionProducer(question.producer_id, question.producer_epoch),
                self._parts(question),
                adds=question.adds,
            )
        except Exception:  # Answer in every case, because a data thread waits.
            log.exception("cannot verify a transaction: this is a bug in pybroker")
            codes = [ErrorCode.UNKNOWN_SERVER_ERROR] * len(question.partitions)
        finally:
            _answer(question, codes)


def _answer(question: TransactionQuestion, codes: list[ErrorCode]) -> None:
    known_codes = _as_known(codes, abortable=question.abortable)
    question.answer([_for_produce(code, knows_ending=question.adds) for code in known_codes])


def _as_known(codes: list[ErrorCode], *, abortable: bool) -> list[ErrorCode]:
    """Map the codes to codes that the client's version knows."""
    if abortable:
        return codes
    return [ErrorCode.INVALID_TXN_STATE if code is ErrorCode.TRANSACTION_ABORTABLE else code for code in codes]


def _for_produce(code: ErrorCode, *, knows_ending: bool) -> ErrorCode:
    """Map a code for a Produce response. Clients of version 2 know CONCURRENT_TRANSACTIONS."""
    if code in TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not knows_ending):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    # In a Produce response, all versions use INVALID_PRODUCER_EPOCH for a producer that has been replaced.
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
