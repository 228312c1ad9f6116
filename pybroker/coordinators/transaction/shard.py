"""One shard of the transaction coordinator: the transactional ids that hash to one partition of `__transaction_state`.

A change counts when it is stored. Until then it is the entry's `coming`, and whoever asks for another one meanwhile is
told CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from pybroker.coordinators.shards.log import TOO_LARGE, ShardLog
from pybroker.coordinators.shards.ports import Topics
from pybroker.coordinators.shards.shard import Shard
from pybroker.coordinators.transaction.loading import Loaded
from pybroker.coordinators.transaction.records import encode_key, encode_value
from pybroker.coordinators.transaction.transaction import ENDING, Part, Transaction
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

Stored = Callable[[ErrorCode], None]
"""Called once: NONE when the change is on disk and counts, else what the client is told, and nothing has changed."""


@dataclass(slots=True, eq=False)
class Entry:
    """One transactional id."""

    transactional_id: str
    current: Transaction
    """As it is stored."""
    coming: Transaction | None = None
    """What is being stored."""


class TransactionShard(Shard[Loaded]):
    """`finish`: told of each transaction that is decided, its markers are to be written."""

    def __init__(
        self, shard_log: ShardLog, topics: Topics, finish: Callable[[TransactionShard, Entry], asyncio.Task[None]]
    ) -> None:
        super().__init__(shard_log)
        self.entries: dict[str, Entry] = {}
        self.is_over = False
        """It moved away, or the broker stops."""
        self._topics = topics
        self._finish = finish
        self._finishing: set[asyncio.Task[None]] = set()

    # --- what `Shards` asks -------------------------------------------------------------------------------------------

    def replay(self) -> Loaded:
        """Takes the records of the partition."""
        return Loaded()

    def install(self, loaded: Loaded) -> None:
        """Takes over what is stored; what was decided is finished."""
        for transactional_id, stored in loaded.transactions.items():
            parts = (self._named(part) for part in stored.partitions)
            current = replace(stored, partitions=frozenset(part for part in parts if part is not None))
            entry = self.entries[transactional_id] = Entry(transactional_id, current)
            if current.state in ENDING:
                self.finish(entry)
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
        """The shard moves away or the broker stops. Who waits for a write hears of it from the log."""
        self.is_over = True
        for task in self._finishing:
            task.cancel()
        self.entries.clear()

    def _named(self, part: Part) -> Part | None:
        """Values that Kafka wrote name topics only: what has the name now is meant, if anything."""
        if part.topic_id != Uuid.ZERO:
            return part
        topic_id = self._topics.topic_id(part.topic)
        return None if topic_id is None else part._replace(topic_id=topic_id)

    # --- transactions -------------------------------------------------------------------------------------------------

    def entry(self, transactional_id: str) -> Entry | None:
        """What is known of an id."""
        return self.entries.get(transactional_id)

    def store(self, entry: Entry, change: Transaction, stored: Stored) -> None:
        """Makes a change durable, then valid. One at a time."""
        assert entry.coming is None
        entry.coming = change

        def written(error: ErrorCode, _: int) -> None:
            entry.coming = None
            if error is ErrorCode.NONE:
                entry.current = change
                if change.state in ENDING and not self.is_over:
                    self.finish(entry)
            stored(ErrorCode.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else error)

        self.log.write([(encode_key(entry.transactional_id), encode_value(change))], written)

    def finish(self, entry: Entry) -> None:
        """Has the markers of a decided transaction written."""
        task = self._finish(self, entry)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    def forget(self, entry: Entry, done: Stored) -> None:
        """Buries an id that nobody uses any more."""
        if self.entries.pop(entry.transactional_id, None) is not None:
            self.log.write([(encode_key(entry.transactional_id), None)], lambda error, _: done(error))
