"""A transactional producer's dealings with its coordinator (KIP-98): who it is, what belongs to the open transaction,
how it ends. By version 1 of the protocol, which every broker from 0.11 on speaks, what is written to is named first;
by version 2 (KIP-890, feature `transaction.version`) it belongs to the transaction by being written to, and each end
raises the producer's epoch.

    NEW ──init──► READY ──begin──► OPEN ──commit, abort──► READY
                                     │ a record or a request fails for good
                                     ▼
                                 FAILED ──abort──► READY          any ──another producer has taken the id──► FENCED

COMMITTING: it was asked for, and the answer is not known: it can only be asked for again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Protocol

from pybroker.client.cluster import TopicPartition, by_topic
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import LOST, CoordinatorKind, Network
from pybroker.client.consumer.group.membership import GroupMetadata
from pybroker.client.errors import (
    CommitFailedError,
    KafkaError,
    ProducerFencedError,
    TransactionFailedError,
    broker_error,
    is_retriable,
)
from pybroker.client.offsets import OffsetAndMetadata
from pybroker.native import crc32c
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 3, 3, 4, 4
"""The newest versions of these requests that belong to version 1 of the protocol."""
END_2, COMMIT_OFFSETS_2 = 5, 5
"""Those of version 2; newer ones name topics by id."""
FEATURE = "transaction.version"
SETTLES_S = 0.01
"""The markers of the transaction before are being written: that takes moments."""

_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_TIMED_OUT = TransactionFailedError(
    "its coordinator has aborted it: it was open for longer than transaction.timeout.ms"
)
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
    """A record batch, marked as part of its producer's transaction (bit 4 of the attributes, KIP-98)."""
    marked = bytearray(batch)
    marked[_ATTRIBUTES_AT + 1] |= _TRANSACTIONAL
    struct.pack_into(">I", marked, _CRC_AT, crc32c(bytes(memoryview(marked)[_ATTRIBUTES_AT:])))
    return bytes(marked)


class Phase(Enum):
    """See the module."""

    NEW = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    FAILED = auto()
    FENCED = auto()


class Background(Protocol):
    """The sender's loop."""

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Starts a task that ends with the loop."""
        ...

    def wake(self) -> None:
        """Something may be sent now that could not before."""
        ...


class Transaction:
    """See the module. To the sender it is the producer's id."""

    def __init__(self, network: Network, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.NEW
        self.current: tuple[int, int] | None = None
        """(id, epoch) that batches are numbered under."""
        self.failure: Exception | None = None
        """Why nothing more is taken for this transaction, or by this producer."""
        self._network = network
        self._timeout_ms = timeout_ms
        self._background: Background | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._coordinated = False
        """The coordinator has heard of this transaction."""
        self.version_2 = False
        """Which version of the protocol; chosen by `initialize`."""
        self._level = 0
        """Of the feature, as the coordinator has told."""
        self.needs_epoch = False
        """Sequences have a gap: they start anew under the next epoch (KIP-360)."""

    def serve(self, background: Background) -> None:
        """Before the first record."""
        self._background = background

    # --- what the sender asks -----------------------------------------------------------------------------------------

    def takes(self, where: TopicPartition) -> bool:
        """Whether records for a partition may be sent: it is part of the transaction. If not, it is made so."""
        if self.phase is not Phase.OPEN:
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
        """There is a gap: what is left of this transaction cannot be written."""
        self.needs_epoch = True
        self.failed(TransactionFailedError("records of the transaction were lost on their way"))

    async def obtain(self) -> None:
        """Never: `initialize` is what gets an id."""
        raise TransactionFailedError("the producer is not initialized")

    def failed(self, error: Exception) -> None:
        """A record, or a request, has failed for good."""
        if isinstance(error, KafkaError) and error.code in _FENCED:
            self.phase, self.failure = Phase.FENCED, _fenced(self.transactional_id, error)
        elif self.phase is Phase.OPEN:
            self.phase, self.failure = Phase.FAILED, error
        if self._background is not None:
            self._background.wake()

    def refusal(self, error: KafkaError) -> KafkaError:
        """What a broker's refusal of a batch means to the caller: leaders say INVALID_PRODUCER_EPOCH of a producer that
        was fenced."""
        return _fenced(self.transactional_id, error) if error.code in _FENCED else error

    async def _add(self) -> None:
        """Tells the coordinator what is written to, before it is."""
        while self._wanted and self.phase is Phase.OPEN:
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

    # --- what the producer does ---------------------------------------------------------------------------------------

    def require(self, *phases: Phase) -> None:
        """Raises what is wrong: the failure of the transaction or of the producer, RuntimeError for a wrong order."""
        if self.phase in phases:
            return
        if self.failure is not None:
            if self.phase is Phase.FENCED:
                raise self.failure
            raise TransactionFailedError(f"the transaction has failed and can only be aborted: {self.failure}")
        raise RuntimeError(
            {
                Phase.NEW: "the producer is not initialized: call init() first",
                Phase.READY: "no transaction is open: call begin() first",
                Phase.OPEN: "a transaction is open already",
                Phase.COMMITTING: "the transaction is being committed, and may be already: call commit() again",
            }[self.phase]
        )

    async def initialize(self) -> None:
        """Shuts out who had the transactional id before, and ends what it left open. Raises KafkaError."""
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
        if self.phase is Phase.NEW:
            self.phase = Phase.READY

    def begin(self) -> None:
        """Opens a transaction; the coordinator hears of it with the first record."""
        self.require(Phase.READY)
        self.phase = Phase.OPEN

    async def end(self, *, commit: bool) -> None:
        """When everything is written, or given up. The outcome is stored when this returns. Raises KafkaError."""
        self.require(*((Phase.OPEN, Phase.COMMITTING) if commit else (Phase.OPEN, Phase.FAILED)))
        if self._adding is not None and not self._adding.done():
            await asyncio.wait([self._adding])
        if self._coordinated:
            if commit:
                self.phase = Phase.COMMITTING
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
                # Of an abort: the coordinator has not heard of it, so there is nothing to end.
                if commit or error.code != ErrorCode.INVALID_TXN_STATE:
                    if self.phase is Phase.COMMITTING:
                        self.phase = Phase.OPEN
                    self.failed(_TIMED_OUT if error.code == ErrorCode.INVALID_TXN_STATE else error)
                    self.require()
        if self.needs_epoch:
            await self.initialize()
        self._added.clear()
        self._wanted.clear()
        self._coordinated = False
        self.failure = None
        self.phase = Phase.READY

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Positions of a group that count if the transaction is committed. Raises KafkaError."""
        self.require(Phase.OPEN)
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
                error = CommitFailedError(error.code, f"the group {group.group_id} has moved on: {error.message}")
            self.failed(error)
            if self.phase is Phase.FENCED and self.failure is not None:
                raise self.failure from None
            raise error from None

    @property
    def _me(self) -> tuple[int, int]:
        assert self.current is not None, "initialized"
        return self.current

    async def _ask(
        self, request: Any, newest: int, codes: Callable[[Any], list[int]], group: str | None = None
    ) -> Any:
        """The answer of the coordinator, of `group` or of this id, once no code in it is one that passes."""

        async def ask(connection: BrokerConnection) -> Any:
            if group is None:
                self._level = connection.features.get(FEATURE, 0)
            while True:
                answer = await connection.request(request, min(newest, connection.highest(type(request))))
                wrong = [code for code in codes(answer) if code]
                if ErrorCode.CONCURRENT_TRANSACTIONS not in wrong:
                    break
                await asyncio.sleep(SETTLES_S)
            # One that passes is worth another attempt only if no other one ends it.
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
        f"another producer has the transactional id {transactional_id}, or its transaction took longer than "
        f"transaction.timeout.ms: this producer is to be closed",
    )


def _code(answer: Any) -> list[int]:
    return [answer.error_code]


def _partition_codes(answer: m.AddPartitionsToTxnResponse) -> list[int]:
    codes = [
        row.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    ]
    # What was refused because of another one is not what is wrong.
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


