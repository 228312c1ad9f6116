"""One shard of the transaction coordinator: the transactional ids that hash to one partition of `__transaction_state`.

A change takes effect when it is stored. Until then it is the entry's `coming`, and further changes wait or get
CONCURRENT_TRANSACTIONS. There is one exception: the change after the end of a transaction does not wait until the end
is stored. It follows the end in the same log, so a replay reads the end first. If the write of the end fails and the
next write succeeds, nothing is lost, because each value contains the whole state of its id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.shards.log import TOO_LARGE, ShardLog
from pybroker.broker.coordinators.shards.shard import Shard
from pybroker.broker.coordinators.transaction.records import decode_key, decode_value, encode_key, encode_value
from pybroker.broker.coordinators.transaction.transaction import (
    ENDING,
    OVER,
    CoordinatedTransaction,
    TransactionPartition,
    TransactionState,
)
from pybroker.native import CodecError, StoredRecord, Uuid
from pybroker.protocol.error_codes import ErrorCode


class LoadedTransactions(msgspec.Struct):
    """The last value of every transactional id in one partition of `__transaction_state`, replayed in a worker thread.
    Implements the shards' `Replay`.
    """

    transactions: dict[str, CoordinatedTransaction] = {}
    records: int = 0
    damaged: int = 0
    """Undecodable records, which are skipped."""

    def take(self, record: StoredRecord) -> None:
        """Apply one record; a tombstone removes its key."""
        self.records += 1
        try:
            transactional_id = None if record.key is None else decode_key(record.key)
            if transactional_id is None:
                self.damaged += 1
            elif record.value is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = decode_value(record.value)
        except CodecError as problem:
            self.damaged += 1
            log.warning("skipped an unreadable record of the transactions topic offset=%d: %s", record.offset, problem)


log = logging.getLogger(__name__)

Stored = Callable[[ErrorCode], None]
"""Called once: with NONE when the change is durable and in effect, or with the client's error code."""


ENTRY_BYTES = 500
"""Approximate memory of a transactional id without its name."""


def entry_bytes(transactional_id: str) -> int:
    """Return the approximate memory of a transactional id. Its name is in memory twice: as text, and as the key of
    records."""
    return ENTRY_BYTES + 2 * len(transactional_id.encode())


class TransactionEntry(msgspec.Struct, eq=False):
    """The state of one transactional id, with the change that is being written."""

    transactional_id: str
    current: CoordinatedTransaction
    """The state as it is in the log."""
    coming: CoordinatedTransaction | None = None
    """The last change that is being stored."""
    writes: int = 0
    """Number of changes written to the log."""
    stored: int = 0
    """Number of the write that led to `current`."""
    waiting: list[Callable[[], None]] = []
    """Callbacks to call when the write of `coming` has completed."""
    key: bytes = b""
    """The key of the id's records."""

    def __post_init__(self) -> None:
        self.key = encode_key(self.transactional_id)

    @property
    def base(self) -> CoordinatedTransaction | None:
        """Return the state on which the next change is based; None if it has to wait for the pending write."""
        if self.coming is None:
            return self.current
        return self.coming if self.coming.state in OVER else None

    def wake(self) -> None:
        """Call the waiting callbacks."""
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for look in waiting:
                look()


class TransactionShard(Shard[LoadedTransactions]):
    """The transactional ids of one shard.

    finish: called with each decided transaction, to write its markers. abandon: called for a loaded open transaction if
    one of its partitions belongs to a topic that can no longer be identified.
    """

    def __init__(
        self,
        shard_log: ShardLog,
        topics: Topics,
        finish: Callable[[TransactionShard, TransactionEntry], None],
        abandon: Callable[[TransactionShard, TransactionEntry], None],
    ) -> None:
        super().__init__(shard_log)
        self.entries: dict[str, TransactionEntry] = {}
        self.id_bytes = 0
        """Approximate memory of the transactional ids."""
        self.is_over = False
        """Whether the shard has moved to another broker or the broker is stopping."""
        self._topics = topics
        self._finish = finish
        self._abandon = abandon
        self._finishing: set[asyncio.Task[None]] = set()

    # --- interface for `Shards` ---------------------------------------------------------------------------------------

    def replay(self) -> LoadedTransactions:
        """Return an object that replays the partition's records."""
        return LoadedTransactions()

    def install(self, loaded: LoadedTransactions) -> None:
        """Install the loaded state, and complete the transactions that are decided."""
        for transactional_id, stored in loaded.transactions.items():
            parts = [self._named(part, stored.update_ms) for part in stored.partitions]
            current = replace(stored, partitions=frozenset(part for part in parts if part is not None))
            entry = TransactionEntry(transactional_id, current)
            self.add(entry)
            if current.state in ENDING:
                self.keep(self._soon(self._finish, entry))
            elif current.state is TransactionState.ONGOING and None in parts:
                self.keep(self._soon(self._abandon, entry))
        if loaded.records:
            log.info(
                "transactions partition %d: %d records, %d transactional ids, %d are ended now (%d damaged records)",
                self.partition,
                loaded.records,
                len(self.entries),
                len(self._finishing),
                loaded.damaged,
            )

    def give_up(self, error: ErrorCode) -> None:
        """End the shard because it moves to another broker or the broker stops. The log ends pending writes with an
        error."""
        self.is_over = True
        for task in self._finishing:
            task.cancel()
        entries = list(self.entries.values())
        self.entries.clear()
        self.id_bytes = 0
        for entry in entries:
            entry.wake()

    def _named(self, part: TransactionPartition, update_ms: int) -> TransactionPartition | None:
        """Add the topic id to a partition from a value that Kafka wrote: the id of the topic that had the name at the
        time of the write. Return None if no topic had the name."""
        if part.topic_id != Uuid.ZERO:
            return part
        topic_id = self._topics.topic_id_at(part.topic, update_ms)
        return None if topic_id is None else part._replace(topic_id=topic_id)

    # --- transactions -------------------------------------------------------------------------------------------------

    def add(self, entry: TransactionEntry) -> None:
        """Add a transactional id."""
        self.entries[entry.transactional_id] = entry
        self.id_bytes += entry_bytes(entry.transactional_id)

    def entry(self, transactional_id: str) -> TransactionEntry | None:
        return self.entries.get(transactional_id)

    def store(self, entry: TransactionEntry, change: CoordinatedTransaction, stored: Stored) -> None:
        """Store a change of `entry.base`. The change takes effect when it is durable.

        If the pending change is the end of a transaction, callers that wait for it may continue at once; otherwise they
        continue when this write completes.
        """
        assert entry.base is not None
        entry.coming = change
        entry.writes += 1
        number = entry.writes

        def written(error: ErrorCode, _: int) -> None:
            # The completions of two writes may arrive in another order than the writes.
            if error is ErrorCode.NONE and number > entry.stored:
                entry.current, entry.stored = change, number
            if number == entry.writes:
                entry.coming = None
            stored(ErrorCode.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else error)
            if error is ErrorCode.NONE and change.state in ENDING and not self.is_over:
                self._finish(self, entry)
            entry.wake()

        self.log.write([(entry.key, encode_value(change))], written)
        if change.state in OVER:
            entry.wake()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the completion of a transaction in a task. The task is cancelled when the shard leaves this broker."""
        task = asyncio.get_running_loop().create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _soon(self, act: Callable[[TransactionShard, TransactionEntry], None], entry: TransactionEntry) -> None:
        act(self, entry)

    def forget(self, entry: TransactionEntry, done: Stored) -> None:
        """Write a tombstone for an id that has been unused for a long time."""
        if self.entries.pop(entry.transactional_id, None) is not None:
            self.id_bytes -= entry_bytes(entry.transactional_id)
            self.log.write([(entry.key, None)], lambda error, _: done(error))
