"""The transaction coordinator of this broker: what producers ask of their transactions, and what time ends.

Which transactional ids live here: `coordinators.shards`. What a request means for a transaction is decided in
`transaction`, a pure function of what is stored; here it is made durable, then answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pybroker.coordinators.shards.log import ShardLog
from pybroker.coordinators.shards.ports import Ports
from pybroker.coordinators.shards.shard import ShardState
from pybroker.coordinators.shards.shards import Shards
from pybroker.coordinators.shards.timers import WheelDriver
from pybroker.coordinators.transaction import transaction as decisions
from pybroker.coordinators.transaction.finishing import Finishing
from pybroker.coordinators.transaction.ports import (
    TRANSACTIONS_TOPIC,
    ProducerIds,
    Settings,
)
from pybroker.coordinators.transaction.shard import Entry, TransactionShard
from pybroker.coordinators.transaction.transaction import (
    VERSION_1,
    Part,
    Producer,
    State,
    Transaction,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

ID_BYTES_MAX = 0x7FFF
"""The stored key has 16 bits for its length."""

IDS_A_TURN = 1_000
"""Transactional ids looked at in one turn of the loop, so that many do not hold up heartbeats."""


Check = Callable[[TransactionShard, Entry], None]
"""What is done with each transactional id now and then."""


class Named(NamedTuple):
    """A transaction and its id, for listings."""

    transactional_id: str
    transaction: Transaction


class TransactionCoordinator:
    """See the module. Built by `composition`; `start` once the metadata cache is filled and local partitions are
    applied."""

    def __init__(
        self, ports: Ports, settings: Settings, producer_ids: ProducerIds, finishing: Finishing
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._clock = ports.clock
        self._loop = ports.loop
        self._producer_ids = producer_ids
        self._driver = WheelDriver(ports.clock, ports.loop)
        self.figures = finishing.figures
        self._finishing = finishing
        self.shards = Shards(
            TRANSACTIONS_TOPIC, ports, self._driver.wheel, self._new_shard, lambda: settings.load_buffer_bytes
        )
        self._stopped = False

    def _new_shard(self, shard_log: ShardLog) -> TransactionShard:
        return TransactionShard(
            shard_log,
            self._ports.topics,
            lambda shard, entry: self._loop.create_task(self._finishing.finish(shard, entry)),
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Takes over all shards that this broker leads and begins to watch the time."""
        self.shards.start()
        self._watch("time-outs", lambda: self._settings.abort_interval_ms, self._abort_timed_out)
        self._watch("expiration", lambda: self._settings.expiration_interval_ms, self._forget_expired)

    async def loaded(self) -> None:
        """Waits until every shard that is being loaded has been."""
        await self.shards.loaded()

    async def stop(self) -> None:
        """Waits for writes that are on their way. What is decided and not finished, the next start finishes."""
        self._stopped = True
        self._driver.stop()
        await self.shards.stop()

    async def find(self, transactional_id: str, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of an id's coordinator. See `Shards.find`."""
        return await self.shards.find(transactional_id, listener)

    def _shard(self, transactional_id: str) -> TransactionShard:
        """KafkaError: INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_…"""
        if not transactional_id or len(transactional_id.encode()) > ID_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "That is no transactional id.")
        return self.shards.of(transactional_id)

    def _known(self, transactional_id: str) -> tuple[TransactionShard, Entry]:
        shard = self._shard(transactional_id)
        entry = shard.entry(transactional_id)
        if entry is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return shard, entry

    # --- requests of producers ----------------------------------------------------------------------------------------

    async def initialize(self, transactional_id: str, timeout_ms: int, given: Producer | None) -> Producer:
        """InitProducerId: who the client is from now on. An open transaction of the id is aborted first; the client
        asks again until that is done (CONCURRENT_TRANSACTIONS). KafkaError."""
        shard = self._shard(transactional_id)
        if not 0 < timeout_ms <= self._settings.timeout_ms_max:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        entry = shard.entry(transactional_id)
        new_id = None
        if entry is None or decisions.needs_new_id(entry.current, given):
            new_id = await self._producer_ids.next_id()
            # Everything may have changed meanwhile.
            shard = self._shard(transactional_id)
            entry = shard.entry(transactional_id)
        if entry is None:
            assert new_id is not None
            entry = Entry(transactional_id, Transaction(new_id, update_ms=self._clock.wall_ms()))
            shard.entries[transactional_id] = entry
        current = entry.current
        self._check_settled(entry)
        now_ms = self._clock.wall_ms()
        if current.state is State.ONGOING:
            decisions.check_given(current, given)
            await self._store(shard, entry, decisions.fence(current, now_ms))
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if new_id is None and decisions.needs_new_id(current, given):
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        change = decisions.initialize(current, given, timeout_ms, now_ms, new_id=new_id)
        await self._store(shard, entry, change)
        return Producer(change.producer_id, change.producer_epoch)

    async def add(self, transactional_id: str, who: Producer, parts: Iterable[Part], version: int = VERSION_1) -> None:
        """AddPartitionsToTxn, AddOffsetsToTxn. Returns when it is stored. KafkaError."""
        shard, entry = self._known(transactional_id)
        self._check_settled(entry)
        change = decisions.add(entry.current, who, parts, self._clock.wall_ms(), version)
        if change is not entry.current:
            await self._store(shard, entry, change)

    def holds(self, transactional_id: str, who: Producer, parts: Sequence[Part]) -> list[bool]:
        """Whether each partition is part of the open transaction of this producer. KafkaError."""
        _, entry = self._known(transactional_id)
        return decisions.holds(entry.current, who, parts)

    async def end(self, transactional_id: str, who: Producer, *, commit: bool) -> None:
        """EndTxn of version 1. Returns when the outcome is decided, that is stored. KafkaError."""
        shard, entry = self._known(transactional_id)
        self._check_settled(entry)
        change = decisions.end(entry.current, who, commit, self._clock.wall_ms())
        if change is not entry.current:
            await self._store(shard, entry, change)

    async def end_and_bump(self, transactional_id: str, who: Producer, *, commit: bool) -> Producer:
        """EndTxn of version 2: who the client is from now on. KafkaError."""
        shard, entry = self._known(transactional_id)
        self._check_settled(entry)
        new_id = None
        if entry.current.is_exhausted and entry.current.producer_epoch == who.epoch:
            new_id = await self._producer_ids.next_id()
            shard, entry = self._known(transactional_id)
            self._check_settled(entry)
        change = decisions.end_and_bump(entry.current, who, commit, self._clock.wall_ms(), new_id=new_id)
        if change is not entry.current:
            await self._store(shard, entry, change)
        return change.successor

    def _check_settled(self, entry: Entry) -> None:
        if entry.coming is not None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    async def _store(self, shard: TransactionShard, entry: Entry, change: Transaction) -> None:
        stored: asyncio.Future[ErrorCode] = self._loop.create_future()
        shard.store(entry, change, lambda code: None if stored.done() else stored.set_result(code))
        code = await stored
        if code is not ErrorCode.NONE:
            raise KafkaError(code, "The change could not be stored.")

    # --- administration -----------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction:
        """What is known of an id. KafkaError TRANSACTIONAL_ID_NOT_FOUND, and as for requests."""
        entry = self._shard(transactional_id).entry(transactional_id)
        if entry is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"Transactional id {transactional_id} is not known."
            )
        return entry.current

    def list_transactions(self) -> tuple[list[Named], bool]:
        """All transactional ids of this broker, and whether shards are still being loaded."""
        found = [
            Named(entry.transactional_id, entry.current)
            for shard in self.shards
            if shard.state is ShardState.ACTIVE
            for entry in shard.entries.values()
        ]
        return found, any(shard.state is ShardState.LOADING for shard in self.shards)

    # --- what time does -----------------------------------------------------------------------------------------------

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

    def _in_turns(self, todo: list[tuple[TransactionShard, Entry]], check: Check) -> None:
        if self._stopped:
            return
        for shard, entry in todo[:IDS_A_TURN]:
            if not shard.is_over and entry.coming is None:
                check(shard, entry)
        if len(todo) > IDS_A_TURN:
            self._loop.call_soon(self._in_turns, todo[IDS_A_TURN:], check)

    def _abort_timed_out(self, shard: TransactionShard, entry: Entry) -> None:
        now_ms = self._clock.wall_ms()
        if not decisions.is_timed_out(entry.current, now_ms):
            return
        log.info(
            "the transaction of %s is aborted: it has been open for more than its %d ms",
            entry.transactional_id,
            entry.current.timeout_ms,
        )

        def stored(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self.figures.timeouts += 1
            else:
                log.warning("the abort of %s could not be stored: %s", entry.transactional_id, code.name)

        shard.store(entry, decisions.fence(entry.current, now_ms), stored)

    def _forget_expired(self, shard: TransactionShard, entry: Entry) -> None:
        if decisions.is_expired(entry.current, self._clock.wall_ms(), self._settings.expiration_ms):
            self.figures.expirations += 1
            shard.forget(entry, lambda _: None)
