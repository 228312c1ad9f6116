"""A producer's transactions at the coordinator (KIP-98): identity, partitions of the open transaction, its end.

Version 1 of the protocol (brokers from 0.11) adds partitions with a request before writing to them. In version 2
(KIP-890, feature `transaction.version`) the write itself adds them, and each end of a transaction increments the
producer's epoch.

    NEW ──init──► READY ──begin──► OPEN ──commit, abort──► READY
                                     │ a record or a request fails permanently
                                     ▼
                                 FAILED ──abort──► READY       any ──another producer uses the id──► FENCED

COMMITTING: the client has requested the commit, but has lost the response. Only another commit is then possible.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Protocol

from pybroker.client.client_errors import (
    CommitFailedError,
    KafkaError,
    ProducerFencedError,
    TransactionFailedError,
    broker_error,
    is_retriable,
)
from pybroker.client.cluster_metadata import TopicPartition, by_topic
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import LOST, CoordinatorKind, Network
from pybroker.client.consumer.group.group_membership import GroupMetadata
from pybroker.client.offset_types import OffsetAndMetadata
from pybroker.native import crc32c
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 3, 3, 4, 4
"""With version 1 of transactions: the newest versions of these requests that may be used."""
END_2, COMMIT_OFFSETS_2 = 5, 5
"""With version 2 of transactions: the versions of these requests. Newer versions name topics by id."""
FEATURE = "transaction.version"
SETTLES_S = 0.01
"""Pause in seconds before a retry while the coordinator is still writing the markers of the previous transaction."""

_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_TIMED_OUT = TransactionFailedError("the coordinator aborted it: it was open for longer than transaction.timeout.ms")
_OUT_OF_THE_GROUP = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


_CRC_AT, _ATTRIBUTES_AT = 17, 21
_TRANSACTIONAL = 0x10


def in_transaction(batch: bytes) -> bytes:
    """Return a record batch marked as part of its producer's transaction (bit 4 of the attributes, KIP-98)."""
    marked = bytearray(batch)
    marked[_ATTRIBUTES_AT + 1] |= _TRANSACTIONAL
    struct.pack_into(">I", marked, _CRC_AT, crc32c(bytes(memoryview(marked)[_ATTRIBUTES_AT:])))
    return bytes(marked)


class TransactionPhase(Enum):
    """The states in the module's diagram."""

    NEW = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    FAILED = auto()
    FENCED = auto()


class Background(Protocol):
    """The sender's loop."""

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Start a task that ends with the loop."""
        ...

    def wake(self) -> None:
        """Look for batches that can be sent, because a condition has changed."""
        ...


class Transaction:
    """The transactions of one producer; the sender uses this object as the source of the producer's id."""

    def __init__(self, network: Network, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.phase = TransactionPhase.NEW
        self.current: tuple[int, int] | None = None
        """(id, epoch) for new batches."""
        self.failure: Exception | None = None
        """The reason why this transaction or this producer accepts no more records; None if it accepts records."""
        self._network = network
        self._timeout_ms = timeout_ms
        self._background: Background | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._coordinated = False
        """Whether the coordinator knows that this transaction is open."""
        self.version_2 = False
        """Whether version 2 of the protocol is used. `initialize` sets it."""
        self._level = 0
        """The coordinator's level of the feature."""
        self.needs_epoch = False
        """Whether sequences have a gap and begin at 0 again under the next epoch (KIP-360)."""

    def serve(self, background: Background) -> None:
        """Set the sender's loop. Call this before the first record."""
        self._background = background

    # For the sender ------------------------------------------------------------------------------------------

    def takes(self, where: TopicPartition) -> bool:
        """Return whether the partition is part of the transaction, so that its records can be sent. If it is not, start
        to add it."""
        if self.phase is not TransactionPhase.OPEN:
            return False
        if self.version_2:
            self._coordinated = True
            return True
        if where in self._added:
            return True
        self._wanted.add(where)
        if self._background is not None and (self._adding is None or self._adding.done()):
            self._adding = self._background.spawn(self._add())
        return False

    def next_epoch(self) -> None:
        """Fail the transaction. If the sequences have a gap, its remaining records cannot be written."""
        self.needs_epoch = True
        self.failed(TransactionFailedError("records of the transaction were lost"))

    async def obtain(self) -> None:
        """Raise an error: a transactional producer gets its id in `initialize`."""
        raise TransactionFailedError("the producer is not initialized")

    def failed(self, error: Exception) -> None:
        """Fail the transaction, because a record or request has failed permanently."""
        if isinstance(error, KafkaError) and error.code in _FENCED:
            self.phase, self.failure = TransactionPhase.FENCED, _fenced(self.transactional_id, error)
        elif self.phase is TransactionPhase.OPEN:
            self.phase, self.failure = TransactionPhase.FAILED, error
        if self._background is not None:
            self._background.wake()

    def refusal(self, error: KafkaError) -> KafkaError:
        """Return the caller's error for a refused batch. Leaders report a fenced producer as INVALID_PRODUCER_EPOCH."""
        return _fenced(self.transactional_id, error) if error.code in _FENCED else error

    async def _add(self) -> None:
        """Add partitions to the transaction at the coordinator, before records go to them."""
        while self._wanted and self.phase is TransactionPhase.OPEN:
            wanted = frozenset(self._wanted)
            producer_id, epoch = self._me
            request = m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(wanted).items()
                ],
            )
            self._coordinated = True
            try:
                await self._ask(request, ADD_PARTITIONS, _partition_codes)
            except (*LOST, KafkaError) as error:
                self.failed(error)
                return
            self._added |= wanted
            self._wanted -= wanted
            assert self._background is not None, "served"
            self._background.wake()

    # For the producer ----------------------------------------------------------------------------------------

    def require(self, *phases: TransactionPhase) -> None:
        """Raise an error unless the current phase is in `phases`. The error is the failure of the transaction or
        producer, or else RuntimeError.
        """
        if self.phase in phases:
            return
        if self.failure is not None:
            if self.phase is TransactionPhase.FENCED:
                raise self.failure
            raise TransactionFailedError(f"the transaction has failed; call abort(): {self.failure}")
        raise RuntimeError(
            {
                TransactionPhase.NEW: "the producer is not initialized; call init() first",
                TransactionPhase.READY: "no transaction is open; call begin() first",
                TransactionPhase.OPEN: "a transaction is already open",
                TransactionPhase.COMMITTING: "the transaction is committing or committed; call commit() again",
            }[self.phase]
        )

    async def initialize(self) -> None:
        """Fence earlier producers of the transactional id and end their open transaction. Raises KafkaError if the
        coordinator refuses.
        """
        producer_id, epoch = self.current or (-1, -1)
        request = m.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = await self._ask(request, 5, _code)
        self.current = (answer.producer_id, answer.producer_epoch)
        self.version_2 = self._level >= 2
        self.needs_epoch = False
        if self.phase is TransactionPhase.NEW:
            self.phase = TransactionPhase.READY

    def begin(self) -> None:
        """Open a transaction. The coordinator learns about it with the first record."""
        self.require(TransactionPhase.READY)
        self.phase = TransactionPhase.OPEN

    async def end(self, *, commit: bool) -> None:
        """End the transaction. Before this call, all records must be written or dropped. Return when the result is
        stored. Raises KafkaError if the coordinator refuses.
        """
        self.require(
            *(
                (TransactionPhase.OPEN, TransactionPhase.COMMITTING)
                if commit
                else (TransactionPhase.OPEN, TransactionPhase.FAILED)
            )
        )
        if self._adding is not None and not self._adding.done():
            await asyncio.wait([self._adding])
        if self._coordinated:
            if commit:
                self.phase = TransactionPhase.COMMITTING
            producer_id, epoch = self._me
            request = m.EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=commit,
            )
            try:
                answer = await self._ask(request, END_2 if self.version_2 else END, _code)
                if self.version_2:
                    self.current = (answer.producer_id, answer.producer_epoch)
                    self.needs_epoch = False
            except KafkaError as error:
                # This is an abort, and the coordinator does not know the transaction, so there is no transaction to
                # end.
                if commit or error.code != ErrorCode.INVALID_TXN_STATE:
                    if self.phase is TransactionPhase.COMMITTING:
                        self.phase = TransactionPhase.OPEN
                    self.failed(_TIMED_OUT if error.code == ErrorCode.INVALID_TXN_STATE else error)
                    self.require()
        if self.needs_epoch:
            await self.initialize()
        self._added.clear()
        self._wanted.clear()
        self._coordinated = False
        self.failure = None
        self.phase = TransactionPhase.READY

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Commit a group's offsets as part of the transaction. Raises KafkaError."""
        self.require(TransactionPhase.OPEN)
        producer_id, epoch = self._me
        self._coordinated = True
        added = m.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=group.group_id,
        )
        commit = m.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=group.generation,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_topics(offsets),
        )
        try:
            if not self.version_2:
                await self._ask(added, ADD_OFFSETS, _code)
            newest = COMMIT_OFFSETS_2 if self.version_2 else COMMIT_OFFSETS
            await self._ask(commit, newest, _offset_codes, group.group_id)
        except (*LOST, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code in _OUT_OF_THE_GROUP:
                error = CommitFailedError(error.code, f"group {group.group_id} has rebalanced: {error.message}")
            self.failed(error)
            if self.phase is TransactionPhase.FENCED and self.failure is not None:
                raise self.failure from None
            raise error from None

    @property
    def _me(self) -> tuple[int, int]:
        assert self.current is not None, "initialized"
        return self.current

    async def _ask(self, request: Any, newest: int, codes: Callable[[Any], list[int]], group: str | None = None) -> Any:
        """Send a request to the coordinator of `group`, or of this transactional id, and return the response. Retry if
        the code is retriable.
        """

        async def ask(connection: BrokerConnection) -> Any:
            if group is None:
                self._level = connection.features.get(FEATURE, 0)
            while True:
                answer = await connection.request(request, min(newest, connection.highest(type(request))))
                wrong = [code for code in codes(answer) if code]
                if ErrorCode.CONCURRENT_TRANSACTIONS not in wrong:
                    break
                await asyncio.sleep(SETTLES_S)
            # If there are several codes, raise a fatal code before a retriable code, because a retry could not succeed.
            for code in sorted(wrong, key=is_retriable):
                raise broker_error(code, about=f"transactional id {self.transactional_id}")
            return answer

        async def where() -> int:
            if group is not None:
                return await self._network.coordinator(group)
            return await self._network.coordinator(self.transactional_id, CoordinatorKind.TRANSACTION)

        try:
            return await self._network.attempt(where, ask, about=f"transactional id {self.transactional_id}")
        except KafkaError as error:
            if error.code in _FENCED:
                self.failed(error)
                raise _fenced(self.transactional_id, error) from None
            raise


def _fenced(transactional_id: str, error: KafkaError) -> ProducerFencedError:
    if isinstance(error, ProducerFencedError):
        return error
    return ProducerFencedError(
        error.code,
        (
            f"another producer uses transactional id {transactional_id}, or its transaction exceeded "
            "transaction.timeout.ms; close this producer"
        ),
    )


def _code(answer: Any) -> list[int]:
    return [answer.error_code]


def _partition_codes(answer: m.AddPartitionsToTxnResponse) -> list[int]:
    codes = [
        row.partition_error_code for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition
    ]
    # OPERATION_NOT_ATTEMPTED is only a consequence of another partition's error.
    return [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]


def _offset_codes(answer: m.TxnOffsetCommitResponse) -> list[int]:
    return [row.error_code for topic in answer.topics for row in topic.partitions]


def _topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic]:
    return [
        m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=(at := offsets[TopicPartition(name, index)]).offset,
                    committed_leader_epoch=at.leader_epoch,
                    committed_metadata=at.metadata,
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]
