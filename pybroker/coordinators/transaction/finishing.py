"""The end of a transaction that is decided: its markers go to every partition, then it is complete.

A marker goes to whoever leads the partition of that topic id; where nobody does, or who did does not any more, it is
tried again, as long as the topic exists. A topic that is gone gets no marker: what had its name before is not what has
it now. Its deletion record keeps the outcome instead, for the case that it comes back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from pybroker.clock import Clock
from pybroker.coordinators.shards.ports import Topics
from pybroker.coordinators.transaction import transaction as decisions
from pybroker.coordinators.transaction.figures import TransactionFigures
from pybroker.coordinators.transaction.ports import DeadTopics, Knowledge, Marker, MarkerWriter
from pybroker.coordinators.transaction.shard import Entry, TransactionShard
from pybroker.coordinators.transaction.transaction import Part, State, Transaction
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

CATCH_UP_MS = 10_000

RETRY_S = 0.02
RETRY_S_MAX = 1.0
"""Waits between two tries, doubled each time."""

OVER = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
"""The partition has the marker. A newer epoch of the producer there says that another one ended the transaction."""


class Finishing:
    """Ends transactions. One for each coordinator."""

    def __init__(
        self, topics: Topics, writer: MarkerWriter, knowledge: Knowledge, dead: DeadTopics, clock: Clock
    ) -> None:
        self.figures = TransactionFigures()
        self._topics = topics
        self._writer = writer
        self._knowledge = knowledge
        self._dead = dead
        self._clock = clock

    async def finish(self, shard: TransactionShard, entry: Entry) -> None:
        """Returns when the transaction is complete, or another coordinator has taken it over."""
        decided = entry.current
        marker = Marker(
            decided.producer_id,
            decided.producer_epoch,
            decided.commits,
            shard.log.leader_epoch,
            decided.version,
        )
        try:
            if not await self._write_all(shard, entry.transactional_id, marker, set(decided.partitions)):
                log.warning(
                    "the transaction of %s is ended by another coordinator: markers of epoch %d are refused",
                    entry.transactional_id,
                    marker.coordinator_epoch,
                )
                return
        finally:
            del self.figures.without_leader[entry.transactional_id]
        await self._complete(shard, entry)

    async def _write_all(self, shard: TransactionShard, transactional_id: str, marker: Marker, left: set[Part]) -> bool:
        """Until every partition has its marker; False: another coordinator has taken over."""
        wait_s = RETRY_S
        while left and not shard.is_over:
            await self._leave_out_gone(marker, left)
            led = self._by_leader(left)
            self.figures.without_leader[transactional_id] = len(left) - sum(map(len, led.values()))
            over = await self._try(marker, led)
            if over is None:
                return False
            left -= over
            if left:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_S_MAX)
        return True

    async def _leave_out_gone(self, marker: Marker, left: set[Part]) -> None:
        def unknown() -> set[Part]:
            return {part for part in left if self._topics.topic_name(part.topic_id) is None}

        if unknown():
            # This broker may only not have heard of the topic yet.
            try:
                await self._knowledge.catch_up(CATCH_UP_MS)
                gone = unknown()
                live = await self._dead.keep(marker, sorted(gone)) if gone else frozenset()
            except KafkaError as error:
                # They stay: absence of information ends no transaction.
                log.info("whether topics of a transaction exist is not known now: %s", error)
                return
            left -= {part for part in gone if part.topic_id not in live}

    def _by_leader(self, parts: Iterable[Part]) -> dict[int, list[Part]]:
        """Those that somebody leads."""
        by_leader: dict[int, list[Part]] = {}
        for part in parts:
            leader, _ = self._topics.leader(part.topic_id, part.partition)
            if leader >= 0:
                by_leader.setdefault(leader, []).append(part)
        return by_leader

    async def _try(self, marker: Marker, by_leader: dict[int, list[Part]]) -> set[Part] | None:
        """The partitions that have the marker now; None: another coordinator has taken over."""
        answers = await asyncio.gather(
            *(self._writer.write(leader, marker, parts) for leader, parts in by_leader.items())
        )
        over: set[Part] = set()
        for parts, codes in zip(by_leader.values(), answers, strict=True):
            for part, code in zip(parts, codes, strict=True):
                if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                    return None
                if code in OVER:
                    over.add(part)
        return over

    async def _complete(self, shard: TransactionShard, entry: Entry) -> None:
        wait_s = RETRY_S
        while not shard.is_over:
            stored: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            # Whoever waits may be cancelled when the shard moves away; the write goes on.
            shard.store(
                entry,
                decisions.complete(entry.current, self._clock.wall_ms()),
                lambda code, stored=stored: None if stored.done() else stored.set_result(code),  # type: ignore[misc]
            )
            code = await stored
            if code is ErrorCode.NONE:
                self._count(entry.current)
            if code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
                return
            self.figures.completing += 1
            try:
                await asyncio.sleep(wait_s)
            finally:
                self.figures.completing -= 1
            wait_s = min(2 * wait_s, RETRY_S_MAX)

    def _count(self, over: Transaction) -> None:
        if over.state is State.COMPLETE_COMMIT:
            self.figures.commits += 1
        else:
            self.figures.aborts += 1
