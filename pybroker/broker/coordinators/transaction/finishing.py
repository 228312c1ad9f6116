"""Completion of decided transactions: writes a marker to every partition, then stores the completion.

A marker goes to the partition leader and names the topic id. If there is no leader, or the broker no longer leads the
partition, the coordinator retries as long as the topic exists. A deleted topic gets no marker, nor does a new topic
with the same name. Instead the deletion record stores the outcome, in case the topic is undeleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.transaction import transaction as decisions
from pybroker.broker.coordinators.transaction.interfaces import DeadTopics, Knowledge, Marker, MarkerWriter
from pybroker.broker.coordinators.transaction.shard import TransactionEntry, TransactionShard
from pybroker.broker.coordinators.transaction.transaction import (
    CoordinatedTransaction,
    TransactionPartition,
    TransactionState,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class TransactionStatistics(msgspec.Struct):
    """Updated by the coordinator on the event loop's thread. The first two are gauges; the others are counters."""

    without_leader: Counter[str] = msgspec.field(default_factory=Counter)
    """Transactional id → partitions whose markers wait because the partition has no leader."""
    completing: int = 0
    """Transactions whose markers are all written, but whose completion is not stored yet."""
    commits: int = 0
    aborts: int = 0
    """Aborted transactions that are complete."""
    timeouts: int = 0
    """Transactions aborted because of their timeout; `aborts` includes them."""
    expirations: int = 0
    """Transactional ids that were removed because they were unused."""
    ids_refused: int = 0
    """Transactional ids refused because all ids together would take too much memory."""
    refused: int = 0
    """Partitions that refused a record because they were not part of its transaction (KIP-890)."""


log = logging.getLogger(__name__)

CATCH_UP_MS = 10_000

RETRY_S = 0.02
RETRY_S_MAX = 1.0
"""Longest delay between attempts, in seconds. Each delay is twice the previous delay."""

OVER = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Codes of a partition that needs no marker any more. Either it has the marker, or it has a newer producer epoch, which
proves that another coordinator has ended the transaction."""


class Finishing:
    """Completes transactions. One per coordinator."""

    def __init__(
        self, topics: Topics, writer: MarkerWriter, knowledge: Knowledge, dead: DeadTopics, clock: Clock
    ) -> None:
        self.statistics = TransactionStatistics()
        self._topics = topics
        self._writer = writer
        self._knowledge = knowledge
        self._dead = dead
        self._clock = clock

    def finish(self, shard: TransactionShard, entry: TransactionEntry) -> None:
        """Complete a decided transaction, unless another coordinator takes it over.

        If all partitions have leaders and no write fails, each step runs in the callback of the previous one.
        """
        decided = entry.current
        marker = Marker(
            decided.producer_id,
            decided.producer_epoch,
            decided.commits,
            shard.log.leader_epoch,
            decided.version,
        )
        parts = decided.partitions
        led = self._by_leader(part for part in parts if self._topics.topic_name(part.topic_id) is not None)

        def tried(over: set[TransactionPartition] | None) -> None:
            if over is None:
                self._note_fenced(entry, marker)
            elif len(over) == len(parts):
                self._complete(shard, entry, decided)
            elif not shard.is_over:
                shard.keep(self._write_rest(shard, entry, marker, set(parts) - over))

        self._try_then(marker, led, tried)

    async def _write_rest(
        self, shard: TransactionShard, entry: TransactionEntry, marker: Marker, left: set[TransactionPartition]
    ) -> None:
        """Write the markers of the remaining partitions: their topic was deleted, they have no leader, or they refused
        the marker."""
        decided = entry.current
        try:
            if not await self._write_all(shard, entry.transactional_id, marker, left):
                self._note_fenced(entry, marker)
                return
        finally:
            del self.statistics.without_leader[entry.transactional_id]
        self._complete(shard, entry, decided)

    def _note_fenced(self, entry: TransactionEntry, marker: Marker) -> None:
        log.warning(
            "another coordinator ends the transaction of %s: markers of epoch %d are refused",
            entry.transactional_id,
            marker.coordinator_epoch,
        )

    async def _write_all(
        self, shard: TransactionShard, transactional_id: str, marker: Marker, left: set[TransactionPartition]
    ) -> bool:
        """Write markers until every partition has a marker. Return False if another coordinator has taken over."""
        wait_s = RETRY_S
        while left and not shard.is_over:
            await self._leave_out_gone(marker, left)
            led = self._by_leader(left)
            self.statistics.without_leader[transactional_id] = len(left) - sum(map(len, led.values()))
            over = await self._try(marker, led)
            if over is None:
                return False
            left -= over
            if left:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S_MAX)
        return True

    async def _leave_out_gone(self, marker: Marker, left: set[TransactionPartition]) -> None:
        def unknown() -> set[TransactionPartition]:
            return {part for part in left if self._topics.topic_name(part.topic_id) is None}

        if unknown():
            # This broker's metadata image may be out of date.
            try:
                await self._knowledge.catch_up(CATCH_UP_MS)
                gone = unknown()
                live = await self._dead.keep(marker, sorted(gone)) if gone else frozenset()
            except KafkaError as error:
                # Keep the partitions. The transaction must not end without their markers only because the coordinator
                # cannot read the metadata.
                log.info("cannot read now whether the topics of a transaction exist, retrying: %s", error)
                return
            left -= {part for part in gone if part.topic_id not in live}

    def _by_leader(self, parts: Iterable[TransactionPartition]) -> dict[int, list[TransactionPartition]]:
        """Return the partitions that have a leader, by leader."""
        by_leader: dict[int, list[TransactionPartition]] = {}
        for part in parts:
            leader, _ = self._topics.leader(part.topic_id, part.partition)
            if leader >= 0:
                by_leader.setdefault(leader, []).append(part)
        return by_leader

    async def _try(
        self, marker: Marker, by_leader: dict[int, list[TransactionPartition]]
    ) -> set[TransactionPartition] | None:
        future: asyncio.Future[set[TransactionPartition] | None] = asyncio.get_running_loop().create_future()
        self._try_then(marker, by_leader, lambda over: None if future.done() else future.set_result(over))
        return await future

    def _try_then(
        self,
        marker: Marker,
        by_leader: dict[int, list[TransactionPartition]],
        callback: Callable[[set[TransactionPartition] | None], None],
    ) -> None:
        """Call `callback` with the partitions that have their marker now, or with None if another coordinator has taken
        over.
        """
        over: set[TransactionPartition] = set()
        is_fenced = False
        left = len(by_leader)

        def ended(parts: list[TransactionPartition], codes: list[ErrorCode]) -> None:
            nonlocal left, is_fenced
            left -= 1
            is_fenced = is_fenced or ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes
            over.update(part for part, code in zip(parts, codes, strict=True) if code in OVER)
            if not left:
                callback(None if is_fenced else over)

        if not by_leader:
            callback(over)
        for leader, parts in by_leader.items():
            self._writer.write_then(leader, marker, parts, partial(ended, parts))

    def _complete(self, shard: TransactionShard, entry: TransactionEntry, decided: CoordinatedTransaction) -> None:
        """Store the completion when all markers are durable. If the write fails, a later record of the transactional id
        replaces it."""
        if shard.is_over:
            return
        change = decisions.complete(decided, self._clock.wall_ms())

        def stored(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self._count(change)
            elif code is not ErrorCode.NOT_COORDINATOR and not shard.is_over:
                shard.keep(self._complete_later(shard, entry, decided))

        shard.store(entry, change, stored)

    async def _complete_later(
        self, shard: TransactionShard, entry: TransactionEntry, decided: CoordinatedTransaction
    ) -> None:
        """Retry until the completion, or a later record of the transactional id, is stored."""
        wait_s = RETRY_S
        self.statistics.completing += 1
        try:
            while True:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S_MAX)
                change = decisions.complete(decided, self._clock.wall_ms())
                if entry.current is not decided:
                    self._count(change)
                    return
                if entry.coming is not None:
                    continue
                stored: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
                # The write continues even if the task is cancelled because the shard moves to another broker.
                shard.store(
                    entry, change, lambda code, stored=stored: None if stored.done() else stored.set_result(code),  # type: ignore[misc]
                )
                code = await stored
                if code is ErrorCode.NONE:
                    self._count(change)
                if code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
                    return
        finally:
            self.statistics.completing -= 1

    def _count(self, over: CoordinatedTransaction) -> None:
        if over.state is TransactionState.COMPLETE_COMMIT:
            self.statistics.commits += 1
        else:
            self.statistics.aborts += 1
