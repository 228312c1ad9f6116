"""Batch completion: decides whether a batch is complete, is sent again, is split or has failed, and notifies the
callers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.client.client_errors import KafkaTimeoutError, is_retriable
from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.plugins.client_metrics import ClientMetrics
from pybroker.client.producer.accumulator import Batch, PartitionQueue
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

_UNSEEN_MAX = 16
"""Limit of failed batches whose error is stored for the next `flush`."""

_LOOK_AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
_SEQUENCE = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class BatchCompletion:
    """Completes batches of the sender's queues. buffered: approximate bytes of records that are not completed.

    The other arguments are functions. on_done: called with each completed batch. settled: called after on_done.
    new_epoch: called when the sequence of a partition has a gap. look_again: requests new metadata. overdue: creates a
    timeout error from its text and cause.
    """

    def __init__(
        self,
        config: ClientConfig,
        metrics: ClientMetrics,
        on_done: Callable[[Batch, Exception | None], None],
        *,
        idempotent: bool,
        backoff: Backoff,
        settled: Callable[[], None],
        new_epoch: Callable[[PartitionQueue], None],
        look_again: Callable[[], None],
        overdue: Callable[[str, Exception | None], KafkaTimeoutError],
    ) -> None:
        self.buffered = 0
        self._loop = asyncio.get_running_loop()
        self._metrics = metrics
        self._on_done = on_done
        self._idempotent = idempotent
        self._backoff = backoff
        self._settled = settled
        self._new_epoch = new_epoch
        self._look_again = look_again
        self._overdue = overdue
        self._retries_max: int = config["retries"]
        self._limit = f"delivery.timeout.ms={config['delivery.timeout.ms']}"
        self._unseen: list[tuple[Batch, BaseException]] = []
        self._ended = asyncio.Event()

    async def next_end(self) -> None:
        """Wait until another batch completes."""
        self._ended.clear()
        await self._ended.wait()

    def raise_unseen(self) -> None:
        """Raise the first failure that no caller has read."""
        unseen, self._unseen = [error for batch, error in self._unseen if not batch.is_observed], []
        if unseen:
            raise unseen[0]

    def forget_unseen(self) -> None:
        """Forget the unread failures of batches that the caller has abandoned on purpose."""
        self._unseen.clear()

    def written(self, where: PartitionQueue, batch: Batch, base_offset: int, append_time: int) -> None:
        """Complete a batch that the broker has written; -1 means that a value is unknown."""
        where.in_flight.remove(batch)
        where.known_as = batch.producer
        self._backoff.reset()
        self._metrics.add("record-send-total", len(batch))
        self._metrics.add("byte-total", len(batch.wire or b""))
        self._settle(batch, (base_offset, append_time), None)

    def failed(self, where: PartitionQueue, batch: Batch, code: int, error: Exception) -> None:
        """Handle a batch that was lost or that the broker refused: retry, split or fail it."""
        now = self._loop.time()
        batch.attempts += 1
        batch.trouble = error
        if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch) > 1:
            where.in_flight.remove(batch)
            self._split(where, batch)
            return
        if code in _SEQUENCE and self._idempotent:
            # An earlier batch is not acknowledged yet and may have caused this error. Wait for the outcome of the
            # earlier batch.
            if all(each.sequence >= batch.sequence for each in (*where.in_flight, *where.retries)):
                self._new_epoch(where)
            self._look_again()
        elif code in _LOOK_AGAIN:
            self._look_again()
        elif not is_retriable(code):
            self.fail(where, batch, error)
            return
        if batch.attempts > self._retries_max:
            self.fail(where, batch, error)
            return
        if now >= batch.deadline:
            self._fail_late(where, batch)
            return
        log.debug("%s: %s, retrying", where.where, error_name(code))
        self._metrics.add("record-retry-total", len(batch))
        where.retry(batch)
        where.not_before = now + self._backoff.next()

    def fail(self, where: PartitionQueue, batch: Batch, error: Exception) -> None:
        """Fail a batch permanently."""
        if batch in where.in_flight:
            where.in_flight.remove(batch)
        elif batch in where.retries:
            where.retries.remove(batch)
        elif batch in where.queue:
            where.queue.remove(batch)
        batch.closed = True
        if batch.sequence >= 0 and self._idempotent and not batch.done.done():
            self._new_epoch(where)
        self._metrics.add("record-error-total", len(batch))
        self._settle(batch, None, error)

    def fail_unsent(self, where: PartitionQueue, error: Exception) -> None:
        """Fail all batches that are not in flight."""
        for batch in where.unsent():
            self.fail(where, batch, error)

    def expire(self, where: PartitionQueue, now: float) -> float:
        """Fail overdue batches, including those in flight. Return the next deadline."""
        for batch in (*where.in_flight, *where.unsent()):
            if now < batch.deadline:
                return batch.deadline
            self._fail_late(where, batch)
        return now + 3600.0

    def _fail_late(self, where: PartitionQueue, batch: Batch) -> None:
        text = f"a record for {where.where} was not written within {self._limit}"
        self.fail(where, batch, self._overdue(text, batch.trouble))

    def _settle(self, batch: Batch, result: tuple[int, int] | None, error: Exception | None) -> None:
        if batch.done.done():
            return
        if error is None and result is not None:
            batch.done.set_result(result)
        else:
            batch.done.set_exception(error or RuntimeError("no result"))
            # Mark the exception as retrieved. Callers that wait get it; otherwise `flush` raises it.
            batch.done.exception()
            if not batch.is_observed and error is not None:
                # A caller may still read the failure before the next flush.
                self._unseen = [each for each in self._unseen if not each[0].is_observed]
                if len(self._unseen) < _UNSEEN_MAX:
                    self._unseen.append((batch, error))
        self._on_done(batch, error)
        self._settled()
        batch.wire = None
        self.buffered -= batch.bytes
        batch.bytes = 0
        self._ended.set()

    def _split(self, where: PartitionQueue, batch: Batch) -> None:
        self._metrics.add("batch-split-total")
        first, second = batch.split()
        batch.bytes = 0
        for half in (second, first):
            if half.producer is not None or where.retries:
                where.retries.insert(0, half)
            else:
                where.queue.appendleft(half)
        if batch.sequence >= 0:
            where.sort_retries()

        def on_done(done: asyncio.Future[tuple[int, int]]) -> None:
            if not batch.done.done():
                batch.done.set_result((-1, -1))

        second.done.add_done_callback(on_done)
