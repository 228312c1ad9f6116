"""The transaction coordinator of this broker: producers' requests and timeouts.

`coordinators.shards` determines which transactional ids this broker coordinates. Pure functions in `transaction` decide
how a request changes the stored state. This module writes the change to the log, and then responds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.broker.coordinators.shards.shard import ShardState
from pybroker.broker.coordinators.shards.shards import Shards
from pybroker.broker.coordinators.shards.timers import WheelDriver
from pybroker.broker.coordinators.transaction import transaction as decisions
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.interfaces import (
    TRANSACTIONS_TOPIC,
    ProducerIdSource,
    TransactionSettings,
)
from pybroker.broker.coordinators.transaction.shard import TransactionEntry, TransactionShard, entry_bytes
from pybroker.broker.coordinators.transaction.transaction import (
    VERSION_1,
    CoordinatedTransaction,
    TransactionPartition,
    TransactionProducer,
    TransactionState,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

ID_BYTES_MAX = 0x7FFF
"""The stored key has 16 bits for the length of the id."""

PATIENCE_S = 0.1
"""Seconds that AddPartitionsToTxn of version 1 waits for the end of the previous transaction, or for a pending write of
the same id. Equal to the clients' retry backoff."""

IDS_A_TURN = 1_000
"""Transactional ids checked in one step of the event loop; a longer step would delay heartbeats."""


CodeCallback = Callable[[ErrorCode], None]
"""Called once, with NONE or the error code for the client."""

Check = Callable[[TransactionShard, TransactionEntry], None]
"""A periodic check of one transactional id."""


class NamedTransaction(NamedTuple):
    """A transaction with its transactional id, for listings."""

    transactional_id: str
    transaction: CoordinatedTransaction


class TransactionCoordinator:
    """The transaction coordinator of one broker.

    `composition` creates it, and calls `start` once `MetadataCache` is filled and local partitions are applied.
    """

    def __init__(
        self,
        dependencies: CoordinatorDependencies,
        settings: TransactionSettings,
        producer_ids: ProducerIdSource,
        finishing: Finishing,
    ) -> None:
        self._dependencies = dependencies
        self._settings = settings
        self._clock = dependencies.clock
        self._loop = dependencies.loop
        self._producer_ids = producer_ids
        self._driver = WheelDriver(dependencies.clock, dependencies.loop)
        self.statistics = finishing.statistics
        self._finishing = finishing
        self.shards = Shards(
            TRANSACTIONS_TOPIC, dependencies, self._driver.wheel, self._new_shard, lambda: settings.load_buffer_bytes
        )
        self._stopped = False

    def _new_shard(self, shard_log: ShardLog) -> TransactionShard:
        return TransactionShard(
            shard_log,
            self._dependencies.topics,
            self._finishing.finish,
            self._abandon,
        )

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load all shards that this broker leads, and start the periodic checks."""
        self.shards.start()
        self._watch("time-outs", lambda: self._settings.abort_interval_ms, self._abort_timed_out)
        self._watch("expiration", lambda: self._settings.expiration_interval_ms, self._forget_expired)

    async def loaded(self) -> None:
        """Wait until no shard is loading."""
        await self.shards.loaded()

    async def stop(self) -> None:
        """Stop, and wait until pending writes have ended. After the next start, the coordinator completes decided
        transactions."""
        self._stopped = True
        self._driver.stop()
        await self.shards.stop()

    async def find(self, transactional_id: str, listener: str) -> tuple[int, str, int]:
        """Return (broker id, host, port) of the id's coordinator. See `Shards.find`."""
        return await self.shards.find(transactional_id, listener)

    def _shard(self, transactional_id: str) -> TransactionShard:
        """Return the shard of an id.

        Raise KafkaError INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not transactional_id or len(transactional_id.encode()) > ID_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id is invalid.")
        return self.shards.of(transactional_id)

    @property
    def id_bytes(self) -> int:
        return sum(shard.id_bytes for shard in self.shards)

    def _require_room(self, transactional_id: str) -> None:
        """Raise KafkaError POLICY_VIOLATION if a new id exceeds the limit. There is a limit because any client can use
        any number of ids."""
        most = self._settings.id_bytes_max
        if self.id_bytes + entry_bytes(transactional_id) > most:
            self.statistics.ids_refused += 1
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"All transactional ids would exceed transactional.id.max.bytes.total={most}.",
            )

    def _known(self, transactional_id: str) -> tuple[TransactionShard, TransactionEntry]:
        shard = self._shard(transactional_id)
        entry = shard.entry(transactional_id)
        if entry is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return shard, entry

    # --- requests of producers ----------------------------------------------------------------------------------------

    async def initialize(
        self, transactional_id: str, timeout_ms: int, claimed: TransactionProducer | None
    ) -> TransactionProducer:
        """Handle an InitProducerId. Return the client's new producer id and epoch. Raise KafkaError.

        If the id has an open transaction, abort it first. Until the abort is complete, the client gets
        CONCURRENT_TRANSACTIONS and retries.
        """
        shard = self._shard(transactional_id)
        if not 0 < timeout_ms <= self._settings.timeout_ms_max:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        entry = shard.entry(transactional_id)
        new_id = None
        if entry is None or decisions.needs_new_id(entry.current, claimed):
            new_id = await self._producer_ids.next_id()
            # Look up the shard again: it may have changed during the await.
            shard = self._shard(transactional_id)
            entry = shard.entry(transactional_id)
        if entry is None:
            assert new_id is not None
            entry = TransactionEntry(transactional_id, CoordinatedTransaction(new_id, update_ms=self._clock.wall_ms()))
            self._require_room(transactional_id)
            shard.add(entry)
        current = self._base(entry)
        now_ms = self._clock.wall_ms()
        if current.state is TransactionState.ONGOING:
            decisions.check_claimed(current, claimed)
            await self._store(shard, entry, decisions.fence(current, now_ms))
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if new_id is None and decisions.needs_new_id(current, claimed):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        change = decisions.initialize(current, claimed, timeout_ms, now_ms, new_id=new_id)
        await self._store(shard, entry, change)
        return TransactionProducer(change.producer_id, change.producer_epoch)

    async def add(
        self,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        version: int = VERSION_1,
        *,
        patience_s: float = 0,
    ) -> None:
        """Call `add_then` and wait for its result. Raise KafkaError."""
        await _heard(
            lambda callback: self.add_then(transactional_id, who, parts, callback, version, patience_s=patience_s)
        )

    def add_then(
        self,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        callback: CodeCallback,
        version: int = VERSION_1,
        *,
        patience_s: float = 0,
    ) -> None:
        """Handle an AddPartitionsToTxn or AddOffsetsToTxn. Call `callback` once with NONE when the change is stored,
        possibly before this method returns.

        `patience_s`: how long to wait for a pending write, or for the end of the id's previous transaction.
        """
        give_up = self._loop.time() + patience_s

        def attempt() -> None:
            entry = None
            try:
                shard, entry = self._known(transactional_id)
                base = self._base(entry)
                change = decisions.add(base, who, parts, self._clock.wall_ms(), version)
            except KafkaError as error:
                left_s = give_up - self._loop.time()
                if entry is not None and error.code == ErrorCode.CONCURRENT_TRANSACTIONS and left_s > 0:
                    self._look_again(entry, attempt, left_s)
                else:
                    callback(ErrorCode(error.code))
                return
            if change is base:
                callback(ErrorCode.NONE)
            else:
                shard.store(entry, change, callback)

        attempt()

    def _look_again(self, entry: TransactionEntry, look: Callable[[], None], within_s: float) -> None:
        """Call `look` once: when the pending write has completed, or after `within_s`."""

        def woken() -> None:
            timer.cancel()
            look()

        def late() -> None:
            entry.waiting.remove(woken)
            look()

        entry.waiting.append(woken)
        timer = self._loop.call_later(within_s, late)

    def holds(
        self, transactional_id: str, who: TransactionProducer, parts: Sequence[TransactionPartition]
    ) -> list[bool]:
        """Return for each partition whether it is part of the producer's open transaction. Raise KafkaError."""
        _, entry = self._known(transactional_id)
        return decisions.holds(entry.current, who, parts)

    def end_then(
        self, transactional_id: str, who: TransactionProducer, callback: CodeCallback, *, commit: bool
    ) -> None:
        """Handle an EndTxn of version 1. Call `callback` once with NONE when the decision is stored, possibly before
        this method returns.

        If the method raises KafkaError, it does not call `callback`.
        """
        shard, entry = self._known(transactional_id)
        base = self._base(entry)
        change = decisions.end(base, who, commit, self._clock.wall_ms())
        if change is base:
            callback(ErrorCode.NONE)
        else:
            shard.store(entry, change, callback)

    def end_and_bump_then(
        self,
        transactional_id: str,
        who: TransactionProducer,
        callback: Callable[[ErrorCode, TransactionProducer], None],
        *,
        commit: bool,
    ) -> bool:
        """Handle an EndTxn of version 2, whose result includes the client's new producer id and epoch.

        Return False without calling `callback` if a new producer id has to be allocated first (by `end_and_bump`).
        Raise KafkaError.
        """
        shard, entry = self._known(transactional_id)
        base = self._base(entry)
        if base.is_exhausted and base.producer_epoch == who.epoch:
            return False
        self._end_and_bump(shard, entry, who, callback, commit=commit, new_id=None)
        return True

    async def end_and_bump(
        self, transactional_id: str, who: TransactionProducer, *, commit: bool
    ) -> TransactionProducer:
        """Handle an EndTxn of version 2; allocate a new producer id if needed. Raise KafkaError."""
        self._base(self._known(transactional_id)[1])
        fresh_id = await self._producer_ids.next_id()
        # Look up the entry again: it may have changed during the await.
        shard, entry = self._known(transactional_id)
        base = self._base(entry)
        new_id = fresh_id if base.is_exhausted and base.producer_epoch == who.epoch else None
        successor: TransactionProducer | None = None

        def start(callback: CodeCallback) -> None:
            def ended(code: ErrorCode, who_then: TransactionProducer) -> None:
                nonlocal successor
                successor = who_then
                callback(code)

            self._end_and_bump(shard, entry, who, ended, commit=commit, new_id=new_id)

        await _heard(start)
        assert successor is not None
        return successor

    def _end_and_bump(
        self,
        shard: TransactionShard,
        entry: TransactionEntry,
        who: TransactionProducer,
        callback: Callable[[ErrorCode, TransactionProducer], None],
        *,
        commit: bool,
        new_id: int | None,
    ) -> None:
        base = self._base(entry)
        change = decisions.end_and_bump(base, who, commit, self._clock.wall_ms(), new_id=new_id)
        successor = change.successor
        if change is base:
            callback(ErrorCode.NONE, successor)
        else:
            shard.store(entry, change, lambda code: callback(code, successor))

    def _base(self, entry: TransactionEntry) -> CoordinatedTransaction:
        """Return the state on which the next change is based. Raise KafkaError CONCURRENT_TRANSACTIONS while a write is
        pending."""
        base = entry.base
        if base is None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return base

    async def _store(self, shard: TransactionShard, entry: TransactionEntry, change: CoordinatedTransaction) -> None:
        await _heard(lambda callback: shard.store(entry, change, callback))

    # --- administration -----------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> CoordinatedTransaction:
        """Return the state of an id. Raise KafkaError TRANSACTIONAL_ID_NOT_FOUND, or the errors of `_shard`."""
        entry = self._shard(transactional_id).entry(transactional_id)
        if entry is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"There is no transactional id {transactional_id}.")
        return entry.current

    def list_transactions(self) -> tuple[list[NamedTransaction], bool]:
        """Return all transactional ids of this broker, and whether shards are still loading."""
        found = [
            NamedTransaction(entry.transactional_id, entry.current)
            for shard in self.shards
            if shard.state is ShardState.ACTIVE
            for entry in shard.entries.values()
        ]
        return found, any(shard.state is ShardState.LOADING for shard in self.shards)

    # --- periodic checks ----------------------------------------------------------------------------------------------

    def _watch(self, name: str, interval_ms: Callable[[], int], check: Check) -> None:
        def look() -> None:
            self._driver.wheel.schedule(name, interval_ms(), look)
            self._in_turns(
                [
                    (shard, entry)
                    for shard in self.shards
                    if shard.state is ShardState.ACTIVE
                    for entry in shard.entries.values()
                ],
                check,
            )

        self._driver.wheel.schedule(name, interval_ms(), look)

    def _in_turns(self, todo: list[tuple[TransactionShard, TransactionEntry]], check: Check) -> None:
        if self._stopped:
            return
        for shard, entry in todo[:IDS_A_TURN]:
            if not shard.is_over and entry.coming is None:
                check(shard, entry)
        if len(todo) > IDS_A_TURN:
            self._loop.call_soon(self._in_turns, todo[IDS_A_TURN:], check)

    def _abort_timed_out(self, shard: TransactionShard, entry: TransactionEntry) -> None:
        now_ms = self._clock.wall_ms()
        if not decisions.is_timed_out(entry.current, now_ms):
            return
        log.info(
            "aborting the transaction of %s, which was open for longer than its timeout of %d ms",
            entry.transactional_id,
            entry.current.timeout_ms,
        )

        def counted() -> None:
            self.statistics.timeouts += 1

        self._abort(shard, entry, counted)

    def _abandon(self, shard: TransactionShard, entry: TransactionEntry) -> None:
        # The producer may have ended the transaction in the meantime.
        if entry.coming is None and entry.current.state is TransactionState.ONGOING:
            log.warning(
                "aborting the transaction of %s: one of its topics was deleted, and its topic id was not stored",
                entry.transactional_id,
            )
            self._abort(shard, entry)

    def _abort(self, shard: TransactionShard, entry: TransactionEntry, done: Callable[[], None] = lambda: None) -> None:
        """Abort a transaction and fence its producer. If the write fails, the next timeout check aborts the
        transaction."""

        def stored(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                done()
            else:
                log.warning("cannot store the abort of the transaction of %s: %s", entry.transactional_id, code.name)

        shard.store(entry, decisions.fence(entry.current, self._clock.wall_ms()), stored)

    def _forget_expired(self, shard: TransactionShard, entry: TransactionEntry) -> None:
        if decisions.is_expired(entry.current, self._clock.wall_ms(), self._settings.expiration_ms):
            self.statistics.expirations += 1
            shard.forget(entry, lambda _: None)


async def _heard(start: Callable[[CodeCallback], None]) -> None:
    """Call `start` and wait for the code that it reports. Raise KafkaError for any code except NONE."""
    heard: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    start(lambda code: None if heard.done() else heard.set_result(code))
    code = await heard
    if code is not ErrorCode.NONE:
        raise KafkaError(code)
