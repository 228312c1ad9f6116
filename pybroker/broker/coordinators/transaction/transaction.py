"""One transactional id: its producer, its state, what belongs to its transaction. Pure data and decisions: no IO, no
clock, no timers. A decision gives the state that is to be stored, or raises KafkaError with what the client is told.

    Empty ──first partition──► Ongoing ──EndTxn──► PrepareCommit ──all markers written──► CompleteCommit
      ▲                           │                                                            │
      │                           └─EndTxn, time-out, a new producer─► PrepareAbort ─► CompleteAbort
      └──────────────────────── InitProducerId ◄───────────────────────────────────────────────┘

From Complete… on, the next transaction begins with its first partition. Version 2 of the protocol (KIP-890) raises the
producer's epoch at each end, so that nothing of one transaction can be taken for the next.
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
"""The last epoch that a producer gets: the one above fences it, and then it has a new id."""

VERSION_1, VERSION_2 = 1, 2
"""Versions of the protocol between producers and brokers (`transaction.version`)."""


class State(IntEnum):
    """As it is stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """As DescribeTransactions and ListTransactions show it."""
        return "".join(word.title() for word in self.name.split("_"))


LEGAL_MOVES: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
}
"""State → states that may be stored after it. PrepareAbort without a transaction is an abort of version 2 that only
raises the epoch."""

ENDING = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
"""Decided, markers are being written."""

OVER = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""All markers are written."""

AT_REST = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""No transaction is open."""


class Part(NamedTuple):
    """A partition of a transaction. Its id says which; the name is what the stored form and clients have."""

    topic: str
    topic_id: Uuid
    partition: int


class Producer(NamedTuple):
    """Who speaks for a transactional id."""

    producer_id: int
    epoch: int


class Transaction(msgspec.Struct, frozen=True):
    """What is known of a transactional id. Never changed, only replaced by what a decision gives."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    """−1: no producer has been given it yet."""
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[Part] = frozenset()
    start_ms: int = -1
    """When the transaction began (wall time)."""
    update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this one, whose epochs were used up."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id after this one, from the end of this transaction on."""
    last_epoch: int = NO_EPOCH
    """The epoch before this one, of a producer that asked for its successor: the request may come again. Not stored."""
    version: int = VERSION_1

    @property
    def is_exhausted(self) -> bool:
        """The producer's id has no epoch left."""
        return self.producer_epoch >= EPOCH_LAST

    @property
    def commits(self) -> bool:
        """Of one that is ending: how."""
        return self.state is State.PREPARE_COMMIT

    @property
    def successor(self) -> Producer:
        """Of one that is ending by version 2, or has ended: who the client is from now on."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, 0)
        return Producer(self.producer_id, self.producer_epoch)

    def moved(self, state: State, now_ms: int, **changes: Any) -> Transaction:
        """In `state`, with these other changes; an illegal move is a bug and raises ValueError."""
        if state not in LEGAL_MOVES[self.state]:
            raise ValueError(f"producer {self.producer_id}: {self.state.name} → {state.name}")
        return replace(self, state=state, update_ms=now_ms, **changes)


# --- decisions --------------------------------------------------------------------------------------------------------


def needs_new_id(now: Transaction, given: Producer | None) -> bool:
    """Whether an InitProducerId at rest ends with another producer id."""
    return now.is_exhausted and (given is None or given.epoch == now.producer_epoch)


def initialize(
    now: Transaction, given: Producer | None, timeout_ms: int, now_ms: int, *, new_id: int | None = None
) -> Transaction:
    """InitProducerId at rest: the next epoch, or `new_id`. `given`: who the client says that it is (KIP-360); one that
    asks a second time gets the same answer. KafkaError PRODUCER_FENCED, CONCURRENT_TRANSACTIONS."""
    check_given(now, given)
    if now.state not in AT_REST:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    epoch = now.producer_epoch
    base = now.moved(
        State.EMPTY,
        now_ms,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=-1,
        next_producer_id=NO_PRODUCER_ID,
    )
    if needs_new_id(now, given):
        assert new_id is not None
        return replace(
            base,
            producer_id=new_id,
            producer_epoch=0,
            previous_producer_id=now.producer_id,
            last_epoch=NO_EPOCH if given is None else epoch,
        )
    if given is None or epoch == NO_EPOCH:
        return replace(base, producer_epoch=epoch + 1, last_epoch=NO_EPOCH)
    if given.producer_id == now.producer_id and given.epoch == epoch:
        return replace(base, producer_epoch=epoch + 1, last_epoch=epoch)
    if given.epoch == now.last_epoch:
        return replace(base, producer_epoch=epoch, last_epoch=now.last_epoch)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def check_given(now: Transaction, given: Producer | None) -> None:
    """Whether a client may be who it says that it is. KafkaError PRODUCER_FENCED."""
    if given is None or now.producer_epoch == NO_EPOCH or (now.state in ENDING and given == now.successor):
        return
    rotated = given.producer_id == now.previous_producer_id and given.epoch >= EPOCH_LAST
    known = given.producer_id == now.producer_id and given.epoch in (now.producer_epoch, now.last_epoch)
    if not (known or rotated):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def check_producer(now: Transaction, who: Producer) -> None:
    """Whether a request comes from the present producer. KafkaError."""
    if now.state in ENDING and who == now.successor:
        # Its id may still be the one before (its epochs are used up).
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if who.producer_id != now.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if who.epoch != now.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def add(now: Transaction, who: Producer, parts: Iterable[Part], now_ms: int, version: int = VERSION_1) -> Transaction:
    """Partitions join the transaction, or begin one. The same object if they are part of it. KafkaError."""
    check_producer(now, who)
    wanted = frozenset(parts)
    if now.state is State.ONGOING and wanted <= now.partitions:
        return now
    return now.moved(
        State.ONGOING,
        now_ms,
        partitions=now.partitions | wanted if now.state is State.ONGOING else wanted,
        start_ms=now.start_ms if now.state is State.ONGOING else now_ms,
        last_epoch=NO_EPOCH if version == VERSION_1 else now.last_epoch,
        version=version,
    )


def holds(now: Transaction, who: Producer, parts: Iterable[Part]) -> list[bool]:
    """Whether each partition is part of the open transaction of this producer. KafkaError."""
    check_producer(now, who)
    return [now.state is State.ONGOING and part in now.partitions for part in parts]


def end(now: Transaction, who: Producer, commit: bool, now_ms: int) -> Transaction:
    """EndTxn of version 1. The same object if it has ended so already. KafkaError."""
    if who.producer_id != now.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if who.epoch != now.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state is State.ONGOING:
        # Whatever version began it: a marker without another epoch is one of version 1.
        return now.moved(State.PREPARE_COMMIT if commit else State.PREPARE_ABORT, now_ms, version=VERSION_1)
    return _ended(now, commit)


def end_and_bump(
    now: Transaction, who: Producer, commit: bool, now_ms: int, *, new_id: int | None = None
) -> Transaction:
    """EndTxn of version 2: the producer goes on under the next epoch or as `new_id`, which is given when its epochs are
    used up. The same object if it has ended so already. An abort without a transaction raises the epoch, too: records
    may be on their way that never became part of one. KafkaError."""
    if now.state in ENDING and who == now.successor:
        # This epoch has not ended anything: what there is ends under the one before.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    rotated = who == Producer(now.previous_producer_id, EPOCH_LAST) and now.producer_epoch == 0
    if who.producer_id != now.producer_id and not rotated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if rotated or who.epoch == now.producer_epoch - 1:
        # It comes again, or its time was up, and it has been aborted meanwhile.
        if now.state in (State.ONGOING, State.EMPTY) or now.version < VERSION_2 or now.successor.epoch > EPOCH_LAST:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return _ended(now, commit)
    if who.epoch != now.producer_epoch or who.epoch > EPOCH_LAST:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if commit and now.state is not State.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    assert new_id is not None or not now.is_exhausted
    return now.moved(
        State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        now_ms,
        producer_epoch=now.producer_epoch + 1,
        last_epoch=now.producer_epoch,
        next_producer_id=NO_PRODUCER_ID if new_id is None else new_id,
        partitions=now.partitions if now.state is State.ONGOING else frozenset(),
        version=VERSION_2,
    )


def _ended(now: Transaction, commit: bool) -> Transaction:
    """An end that comes again."""
    if now.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        return now
    if now.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def fence(now: Transaction, now_ms: int) -> Transaction:
    """Aborts an open transaction whose producer is given up: the epoch above its own shuts it out."""
    epoch = min(now.producer_epoch + 1, EPOCH_LAST + 1)
    return now.moved(State.PREPARE_ABORT, now_ms, producer_epoch=epoch, last_epoch=NO_EPOCH)


def complete(now: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    state = State.COMPLETE_COMMIT if now.commits else State.COMPLETE_ABORT
    done = now.moved(state, now_ms, partitions=frozenset(), next_producer_id=NO_PRODUCER_ID)
    if now.next_producer_id == NO_PRODUCER_ID:
        return done
    return replace(
        done, producer_id=now.next_producer_id, producer_epoch=0, previous_producer_id=now.producer_id
    )


def is_timed_out(now: Transaction, now_ms: int) -> bool:
    """Its transaction has been open for longer than its producer wanted."""
    return now.state is State.ONGOING and now_ms - now.start_ms > now.timeout_ms


def is_expired(now: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Nobody has used it for so long that it can be forgotten."""
    return now.state in AT_REST and now_ms - now.update_ms >= expiration_ms
