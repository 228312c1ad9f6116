"""Writes to one partition of an internal topic: the records of one step of the event loop form one batch.

A burst of commits (one drain of the native queue) thus costs one append and one flush. Writes that wait for neither a
flush nor replicas complete in the same step. Batches are appended in the order of `write` calls, and a load replays
them in this order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies, Record
from pybroker.errors import KafkaError
from pybroker.native import NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 256 * 1024
"""Maximum size of a batch in bytes, unless it contains a single write. Otherwise one large write could make a batch
with small writes larger than max.message.bytes."""

Written = Callable[[ErrorCode, int], None]
"""Called with NONE and the offset of the write's first record, or with the error code for clients and −1."""

_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Error of the partition → error that clients can act on (the mapping of Kafka's coordinators)."""

TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Errors that are passed on unchanged, because their meaning depends on the written records."""


class ShardLog:
    """The write side of one partition in one leader epoch.

    `short_of_replicas` is called when a write is refused because too few replicas are in sync.
    """

    def __init__(
        self,
        dependencies: CoordinatorDependencies,
        topic: str,
        topic_id: Uuid,
        partition: int,
        leader_epoch: int,
        *,
        short_of_replicas: Callable[[], None] = lambda: None,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.leader_epoch = leader_epoch
        self._name = f"{topic}-{partition}"
        self._short_of_replicas = short_of_replicas
        self._appends = dependencies.appends
        self._clock = dependencies.clock
        self._loop = dependencies.loop
        self._end_of_batch = dependencies.end_of_batch
        self._records: list[Record] = []
        self._bytes = 0
        self._waiting: list[tuple[int, Written]] = []
        self._flush_due = False
        self._closed = False
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_still(self) -> bool:
        """Whether every write has been appended or refused, and none waits for the end of the event loop's step."""
        return not self._records

    def write(self, records: Sequence[Record], written: Written) -> None:
        """Append `records` in this step of the event loop. Call `written` once, later, when they are durable or have
        failed."""
        if self._closed:
            self._loop.call_soon(written, ErrorCode.NOT_COORDINATOR, -1)
            return
        size = sum(len(key or b"") + len(value or b"") for key, value in records)
        if self._records and self._bytes + size > BATCH_BYTES_MAX:
            self._flush()
        self._waiting.append((len(self._records), written))
        self._records.extend(records)
        self._bytes += size
        if not self._flush_due:
            self._flush_due = True
            self._idle.clear()
            self._end_of_batch(self._flush_now)

    def write_in_transaction(self, producer: tuple[int, int], records: Sequence[Record], written: Written) -> None:
        """Append `records` at once, as part of the transaction of this producer (id, epoch).

        `written` works as for `write`. Records of earlier `write` calls are appended first.
        """
        if self._closed:
            self._loop.call_soon(written, ErrorCode.NOT_COORDINATOR, -1)
            return
        self._flush()
        self._append(records, [(0, written)], producer)

    def close(self) -> None:
        """Refuse later writes with NOT_COORDINATOR. Earlier writes still complete."""
        self._closed = True

    async def drained(self) -> None:
        """Wait until every write has completed."""
        await self._idle.wait()

    def _flush_now(self) -> None:
        self._flush_due = False
        self._flush(at_once=True)
        self._note_idle()

    def _flush(self, *, at_once: bool = False) -> None:
        records, waiting = self._records, self._waiting
        if not records:
            return
        self._records, self._waiting, self._bytes = [], [], 0
        self._append(records, waiting, at_once=at_once)

    def _append(
        self,
        records: Sequence[Record],
        waiting: list[tuple[int, Written]],
        producer: tuple[int, int] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Append records. `at_once`: callbacks may run before this method returns, because the caller has no unfinished
        change."""
        self._in_flight += 1
        self._idle.clear()
        done = partial(self._done, waiting)
        try:
            ended = self._appends.append(
                self.topic_id,
                self.partition,
                self.leader_epoch,
                records,
                self._clock.wall_ms(),
                callback=done,
                producer=producer,
            )
        except (KafkaError, NativeError) as error:
            ended = error.code, -1
        if ended is None:
            return
        if at_once:
            done(*ended)
        else:
            self._end_of_batch(partial(done, *ended))

    def _done(self, waiting: list[tuple[int, Written]], code: int, base_offset: int) -> None:
        if code == ErrorCode.NOT_ENOUGH_REPLICAS:
            self._short_of_replicas()
        self._finish(waiting, _answer(code), base_offset)

    def _finish(self, waiting: list[tuple[int, Written]], error: ErrorCode, base_offset: int) -> None:
        self._in_flight -= 1
        for position, written in waiting:
            try:
                written(error, base_offset + position if error is ErrorCode.NONE else -1)
            except Exception:
                log.exception("the completion of a write failed topic=%s: this is a bug in pybroker", self._name)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._in_flight and not self._flush_due:
            self._idle.set()


def _answer(code: int) -> ErrorCode:
    error = ErrorCode(code)
    return _ANSWERS.get(error, error)
