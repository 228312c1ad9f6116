"""Writes to one partition of the offsets topic: what one turn of the loop produces goes out as one batch.

A burst of commits (one drain of the native queue) thus costs one append and one flush. Order is kept: batches are
appended in the order of `write`, and the log's order is the truth that a later load sees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from pybroker.clock import Clock
from pybroker.coordinators.group.ports import Appends, Record
from pybroker.errors import KafkaError
from pybroker.native import Completion, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

BATCH_BYTES_MAX = 256 * 1024
"""A batch is closed above this, so that one large generation cannot push small commits over max.message.bytes."""

Written = Callable[[ErrorCode, int], None]
"""Called with NONE and the offset of the first record of the write, or with the code to answer and −1."""

_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Trouble of the partition → what a group's client can act on (the mapping of Kafka's coordinator)."""

TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Passed on as they are: what they mean depends on what was written."""


class ShardLog:
    """The write side of one offsets partition."""

    def __init__(
        self,
        appends: Appends,
        topic_id: Uuid,
        partition: int,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._appends = appends
        self._topic_id = topic_id
        self._partition = partition
        self._clock = clock
        self._loop = loop
        self._records: list[Record] = []
        self._bytes = 0
        self._waiting: list[tuple[int, Written]] = []
        self._flush_due = False
        self._closed = False
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def write(self, records: Sequence[Record], written: Written) -> None:
        """Appends `records` with this turn of the loop; `written` is called once, later, when they are on disk or
        failed.
        """
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
            self._loop.call_soon(self._flush_now)

    def close(self) -> None:
        """The partition is not ours any more: later writes fail, earlier ones still complete."""
        self._closed = True

    async def drained(self) -> None:
        """Waits until every write has completed."""
        await self._idle.wait()

    def _flush_now(self) -> None:
        self._flush_due = False
        self._flush()
        self._note_idle()

    def _flush(self) -> None:
        records, waiting = self._records, self._waiting
        if not records:
            return
        self._records, self._waiting, self._bytes = [], [], 0
        self._in_flight += 1
        try:
            future = self._appends.append(self._topic_id, self._partition, records, self._clock.wall_ms())
        except KafkaError as error:
            self._loop.call_soon(self._finish, waiting, _answer(error.code), -1)
            return
        future.add_done_callback(partial(self._done, waiting))

    def _done(self, waiting: list[tuple[int, Written]], future: asyncio.Future[Completion]) -> None:
        if future.cancelled():
            self._finish(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            return
        problem = future.exception()
        if problem is None:
            self._finish(waiting, ErrorCode.NONE, future.result().base_offset)
        elif isinstance(problem, KafkaError):
            self._finish(waiting, _answer(problem.code), -1)
        else:
            log.error("append to the offsets topic failed: this is a bug in pybroker", exc_info=problem)
            self._finish(waiting, ErrorCode.UNKNOWN_SERVER_ERROR, -1)

    def _finish(self, waiting: list[tuple[int, Written]], error: ErrorCode, base_offset: int) -> None:
        self._in_flight -= 1
        for position, written in waiting:
            try:
                written(error, base_offset + position if error is ErrorCode.NONE else -1)
            except Exception:
                log.exception("a commit's continuation failed: this is a bug in pybroker")
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._in_flight and not self._flush_due:
            self._idle.set()


def _answer(code: int) -> ErrorCode:
    error = ErrorCode(code)
    return _ANSWERS.get(error, error)
