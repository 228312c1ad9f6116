"""One transactional id: its producer, its state, its partitions. Data and pure functions: no IO, no clock, no timers.

A decision returns the state to store, or raises KafkaError for the client.

    Empty ──first partition──► Ongoing ──EndTxn──► PrepareCommit ──all markers written──► CompleteCommit
      ▲                           │                                                            │
      │                           └─EndTxn, timeout, a new producer──► PrepareAbort ─► CompleteAbort
      └──────────────────────── InitProducerId ◄───────────────────────────────────────────────┘

From CompleteCommit or CompleteAbort, the next transaction begins when its first partition is added. Version 2 of the
protocol (KIP-890) raises the producer's epoch at the end of each transaction, so that no record of a transaction can
become part of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

NO_PRODUCER_ID = -1
NO_EPOCH = -1
EPOCH_LAST = 32_766
"""The last usable epoch of a producer id. One more epoch is reserved to fence the producer. The producer then gets a
new id.
"""

VERSION_1, VERSION_2 = 1, 2
"""Versions of the protocol between producers and brokers (`transaction.version`)."""


class TransactionState(IntEnum):
    """The states, numbered as stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return "".join(word.title() for word in self.name.split("_"))


LEGAL_MOVES: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.COMPLETE_ABORT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
    ),
}
"""State → states that may follow it in the log. In version 2, PrepareAbort may follow even without an open transaction,
for an abort that only raises the epoch."""

ENDING = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""States in which the outcome is decided and markers are being written."""

OVER = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""States in which all markers have been written."""

AT_REST = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
"""States without an open transaction."""


class TransactionPartition(NamedTuple):
    """A partition of a transaction. The topic id identifies the topic; requests and stored values contain the name."""

    topic: str
    topic_id: Uuid
    partition: int


class TransactionProducer(NamedTuple):
    """The producer of a transactional id."""

    producer_id: int
    epoch: int


class CoordinatedTransaction(msgspec.Struct, frozen=True):
    """The state of a transactional id. Immutable: decisions return a new object."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    """−1: no producer has received an epoch yet."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TransactionPartition] = frozenset()
    start_ms: int = -1
    """Start of the transaction, in wall time."""
    update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id of the previous state, as in Kafka. If it differs from the current id, its epochs are exhausted.
    """
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that the client gets at the end of this transaction."""
    last_epoch: int = NO_EPOCH
    """The previous epoch; a retried request may still carry it. Not stored."""
    version: int = VERSION_1

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no usable epoch left."""
        return self.producer_epoch >= EPOCH_LAST

    @property
    def commits(self) -> bool:
        """Whether an ending transaction is a commit."""
        return self.state is TransactionState.PREPARE_COMMIT

    @property
    def successor(self) -> TransactionProducer:
        """Return the client's next producer id and epoch after a transaction of version 2 that is ending or has ended.
        """
        if self.next_producer_id != NO_PRODUCER_ID:
            return TransactionProducer(self.next_producer_id, 0)
        return TransactionProducer(self.producer_id, self.producer_epoch)

    def moved(self, state: TransactionState, now_ms: int, **changes: Any) -> CoordinatedTransaction:
        """Return the transaction in another state, with other changes. Raise ValueError on an illegal transition, which
        is a bug."""
        if state not in LEGAL_MOVES[self.state]:
            raise ValueError(f"producer {self.producer_id}: {self.state.name} → {state.name}")
        return replace(self, state=state, update_ms=now_ms, previous_producer_id=self.producer_id, **changes)


# --- decisions --------------------------------------------------------------------------------------------------------


def needs_new_id(now: CoordinatedTransaction, claimed: TransactionProducer | None) -> bool:
    """Return whether an InitProducerId without an open transaction needs a new producer id."""
    return now.is_exhausted and (claimed is None or claimed.epoch == now.producer_epoch)


def initialize(
    now: CoordinatedTransaction,
    claimed: TransactionProducer | None,
    timeout_ms: int,
    now_ms: int,
    *,
    new_id: int | None = None,
) -> CoordinatedTransaction:
    """Handle an InitProducerId without an open transaction. Return the state with the next epoch, or with `new_id`.

    `claimed`: the client's current producer id and epoch (KIP-360); a retry gets the same result. Raise KafkaError
    PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    check_claimed(now, claimed)
    if now.state not in AT_REST:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    epoch = now.producer_epoch
    base = now.moved(
        TransactionState.EMPTY,
        now_ms,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=-1,
        next_producer_id=NO_PRODUCER_ID,
    )
    if needs_new_id(now, claimed):
        assert new_id is not None
        return replace(
            base,
            producer_id=new_id,
            producer_epoch=0,
            last_epoch=NO_EPOCH if claimed is None else epoch,
        )
    if claimed is None or epoch == NO_EPOCH:
        return replace(base, producer_epoch=epoch + 1, last_epoch=NO_EPOCH)
    if claimed.producer_id == now.producer_id and claimed.epoch == epoch:
        return replace(base, producer_epoch=epoch + 1, last_epoch=epoch)
    if claimed.epoch == now.last_epoch:
        return replace(base, producer_epoch=epoch, last_epoch=now.last_epoch)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def check_claimed(now: CoordinatedTransaction, claimed: TransactionProducer | None) -> None:
    """Check the producer id and epoch in an InitProducerId. Raise KafkaError PRODUCER_FENCED."""
    if claimed is None or now.producer_epoch == NO_EPOCH or (now.state in ENDING and claimed == now.successor):
        return
    rotated = claimed.producer_id == now.previous_producer_id and claimed.epoch >= EPOCH_LAST
    known = claimed.producer_id == now.producer_id and claimed.epoch in (now.producer_epoch, now.last_epoch)
    if not (known or rotated):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def check_producer(now: CoordinatedTransaction, who: TransactionProducer) -> None:
    """Check that a request comes from the current producer. Raise KafkaError."""
    if now.state in ENDING and who == now.successor:
        # Check this before the producer id: the stored id may still be the previous id, whose epochs are exhausted.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if who.producer_id != now.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if who.epoch != now.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def add(
    now: CoordinatedTransaction,
    who: TransactionProducer,
    parts: Iterable[TransactionPartition],
    now_ms: int,
    version: int = VERSION_1,
) -> CoordinatedTransaction:
    """Add partitions to the transaction, or begin a transaction. Return the same object if it already contains the
    partitions. Raise KafkaError."""
    check_producer(now, who)
    requested = frozenset(parts)
    if now.state is TransactionState.ONGOING and requested <= now.partitions:
        return now
    return now.moved(
        TransactionState.ONGOING,
        now_ms,
        partitions=now.partitions | requested if now.state is TransactionState.ONGOING else requested,
        start_ms=now.start_ms if now.state is TransactionState.ONGOING else now_ms,
        last_epoch=NO_EPOCH if version == VERSION_1 else now.last_epoch,
        version=version,
    )


def holds(now: CoordinatedTransaction, who: TransactionProducer, parts: Iterable[TransactionPartition]) -> list[bool]:
    """Return for each partition whether it is part of the producer's open transaction. Raise KafkaError."""
    check_producer(now, who)
    return [now.state is TransactionState.ONGOING and part in now.partitions for part in parts]


def end(now: CoordinatedTransaction, who: TransactionProducer, commit: bool, now_ms: int) -> CoordinatedTransaction:
    """Handle an EndTxn of version 1. Return the same object if the transaction has already ended with the same outcome.
    Raise KafkaError."""
    if who.producer_id != now.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if who.epoch != now.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state is TransactionState.ONGOING:
        # The producer's current version does not matter, because a marker with an unchanged producer epoch is a marker
        # of version 1.
        return now.moved(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT, now_ms, version=VERSION_1
        )
    return _ended(now, commit)


def end_and_bump(
    now: CoordinatedTransaction, who: TransactionProducer, commit: bool, now_ms: int, *, new_id: int | None = None
) -> CoordinatedTransaction:
    """Handle an EndTxn of version 2: the producer continues with the next epoch, or with `new_id` if its epochs are
    exhausted.

    Return the same object if the transaction has already ended with the same outcome. An abort without a transaction
    raises the epoch too, because records that never became part of a transaction may still be in flight. Raise
    KafkaError.
    """
    if now.state in ENDING and who == now.successor:
        # The transaction that is ending belongs to the previous epoch. In its current epoch, the producer has not begun
        # a transaction.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    rotated = who == TransactionProducer(now.previous_producer_id, EPOCH_LAST) and now.producer_epoch == 0
    if who.producer_id != now.producer_id and not rotated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if rotated or who.epoch == now.producer_epoch - 1:
        # The request is a retry, or the transaction was aborted by its timeout before the request arrived.
        if (
            now.state in (TransactionState.ONGOING, TransactionState.EMPTY)
            or now.version < VERSION_2
            or now.successor.epoch > EPOCH_LAST
        ):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return _ended(now, commit)
    if who.epoch != now.producer_epoch or who.epoch > EPOCH_LAST:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if commit and now.state is not TransactionState.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    assert new_id is not None or not now.is_exhausted
    return now.moved(
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=now.producer_epoch + 1,
        last_epoch=now.producer_epoch,
        next_producer_id=NO_PRODUCER_ID if new_id is None else new_id,
        partitions=now.partitions if now.state is TransactionState.ONGOING else frozenset(),
        start_ms=now.start_ms if now.state is TransactionState.ONGOING else now_ms,
        version=VERSION_2,
    )


def _ended(now: CoordinatedTransaction, commit: bool) -> CoordinatedTransaction:
    """Handle an EndTxn for a transaction that has already ended."""
    if now.state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT):
        return now
    if now.state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def fence(now: CoordinatedTransaction, now_ms: int) -> CoordinatedTransaction:
    """Abort an open transaction, and raise the epoch to fence its producer.

    If the producer then sends an InitProducerId with its epoch, it gets the new epoch and continues, as in Kafka
    (KIP-360).
    """
    epoch = min(now.producer_epoch + 1, EPOCH_LAST + 1)
    return now.moved(TransactionState.PREPARE_ABORT, now_ms, producer_epoch=epoch, last_epoch=now.producer_epoch)


def complete(now: CoordinatedTransaction, now_ms: int) -> CoordinatedTransaction:
    """Return the state after all markers have been written."""
    state = TransactionState.COMPLETE_COMMIT if now.commits else TransactionState.COMPLETE_ABORT
    done = now.moved(state, now_ms, partitions=frozenset(), next_producer_id=NO_PRODUCER_ID)
    if now.next_producer_id == NO_PRODUCER_ID:
        return done
    return replace(done, producer_id=now.next_producer_id, producer_epoch=0)


def is_timed_out(now: CoordinatedTransaction, now_ms: int) -> bool:
    """Return whether the transaction has been open for longer than its timeout."""
    return now.state is TransactionState.ONGOING and now_ms - now.start_ms > now.timeout_ms


def is_expired(now: CoordinatedTransaction, now_ms: int, expiration_ms: int) -> bool:
    """Return whether the coordinator may remove the id, because it has been unused for long enough."""
    return now.state in AT_REST and now_ms - now.update_ms >= expiration_ms
