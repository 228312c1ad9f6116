"""One shard of the transaction coordinator: the transactional ids that hash to one partition of `__transaction_state`.

A change counts when it is stored. Until then it is the entry's `coming`, and whoever asks for another one meanwhile
waits, or is told CONCURRENT_TRANSACTIONS. But what follows the end of a transaction need not wait until that is stored:
it lies behind it in the same log, and is only ever there together with it. A value is the whole of what is known of its
id, so that nothing is missing either if the end could not be stored and what follows it could.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from pybroker.broker.coordinators.shards.log import TOO_LARGE, ShardLog
from pybroker.broker.coordinators.shards.ports import Topics
from pybroker.broker.coordinators.shards.shard import Shard
from pybroker.broker.coordinators.transaction.loading import Loaded
from pybroker.broker.coordinators.transaction.records import encode_key, encode_value
from pybroker.broker.coordinators.transaction.transaction import ENDING, OVER, Part, State, Transaction
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

Stored = Callable[[ErrorCode], None]
"""Called once: NONE when the change is on disk and counts, else what the client is told, and nothing has changed."""


class Entry(msgspec.Struct, eq=False):
    """One transactional id."""

    transactional_id: str
    current: Transaction
    """As it is stored."""
    coming: Transaction | None = None
    """The last that is being stored."""
    writes: int = 0
    """How many changes were given to the log."""
    stored: int = 0
    """The number of the write that `current` is from."""
    waiting: list[Callable[[], None]] = []
    """Who is to look again when something has become of `coming`."""
    key: bytes = b""
    """Under which it is stored: made of the id."""

    def __post_init__(self) -> None:
        self.key = encode_key(self.transactional_id)

    @property
    def base(self) -> Transaction | None:
        """What the next change is made of; None: what is being stored has to be waited for."""
        if self.coming is None:
            return self.current
        return self.coming if self.coming.state in OVER else None

    def wake(self) -> None:
        """Something has become of `coming`."""
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for look in waiting:
                look()


class TransactionShard(Shard[Loaded]):
    """finish: told of each transaction that is decided, its markers are to be written. abandon: told of each that was
    loaded open and has a partition of a topic that nobody can name any more."""

    def __init__(
        self,
        shard_log: ShardLog,
        topics: Topics,
        finish: Callable[[TransactionShard, Entry], None],
        abandon: Callable[[TransactionShard, Entry], None],
    ) -> None:
        super().__init__(shard_log)
        self.entries: dict[str, Entry] = {}
        self.is_over = False
        """It moved away, or the broker stops."""
        self._topics = topics
        self._finish = finish
        self._abandon = abandon
        self._finishing: set[asyncio.Task[None]] = set()

    # --- what `Shards` asks -------------------------------------------------------------------------------------------

    def replay(self) -> Loaded:
        """Takes the records of the partition."""
        return Loaded()

    def install(self, loaded: Loaded) -> None:
        """Takes over what is stored; what was decided is finished."""
        for transactional_id, stored in loaded.transactions.items():
            parts = [self._named(part, stored.update_ms) for part in stored.partitions]
            current = replace(stored, partitions=frozenset(part for part in parts if part is not None))
            entry = self.entries[transactional_id] = Entry(transactional_id, current)
            if current.state in ENDING:
                self.keep(self._soon(self._finish, entry))
            elif current.state is State.ONGOING and None in parts:
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
        """The shard moves away or the broker stops. Who waits for a write hears of it from the log."""
        self.is_over = True
        for task in self._finishing:
            task.cancel()
        entries = list(self.entries.values())
        self.entries.clear()
        for entry in entries:
            entry.wake()

    def _named(self, part: Part, update_ms: int) -> Part | None:
        """Values that Kafka wrote name topics only: what had the name when they were written is meant, if anything."""
        if part.topic_id != Uuid.ZERO:
            return part
        topic_id = self._topics.topic_id_at(part.topic, update_ms)
        return None if topic_id is None else part._replace(topic_id=topic_id)

    # --- transactions -------------------------------------------------------------------------------------------------

    def entry(self, transactional_id: str) -> Entry | None:
        """What is known of an id."""
        return self.entries.get(transactional_id)

    def store(self, entry: Entry, change: Transaction, stored: Stored) -> None:
        """Makes a change of `entry.base` durable, then valid. Who waits may go on at once behind the end of a
        transaction, else when this is stored or has failed."""
        assert entry.base is not None
        entry.coming = change
        entry.writes += 1
        number = entry.writes

        def written(error: ErrorCode, _: int) -> None:
            # Of two that are on their way the later one may be heard of first.
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
        """Goes on with the end of a transaction, as long as the shard is here."""
        task = asyncio.get_running_loop().create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _soon(self, act: Callable[[TransactionShard, Entry], None], entry: Entry) -> None:
        act(self, entry)

    def forget(self, entry: Entry, done: Stored) -> None:
        """Buries an id that nobody uses any more."""
        if self.entries.pop(entry.transactional_id, None) is not None:
            self.log.write([(entry.key, None)], lambda error, _: done(error))
