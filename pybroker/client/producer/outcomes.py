"""What becomes of batches: written, tried again, in halves, or failed; and who is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.client.config import ClientConfig
from pybroker.client.connection.backoff import Backoff
from pybroker.client.errors import KafkaTimeoutError, is_retriable
from pybroker.client.plugins.metrics import ClientMetrics
from pybroker.client.producer.accumulator import Batch, PartitionQueue
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

_UNSEEN_MAX = 16
"""So many failed batches are kept for `flush` to tell of."""

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


class Outcomes:
    """Judges batches of the sender's queues. buffered: bytes of records whose outcome is not known, roughly.

    on_done: told of every batch that is over. settled: called after each of these. new_epoch: a gap in a
    partition's sequence is certain. look_again: the metadata are in doubt. overdue: makes the error of a time-out from
    its text and its cause.
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
        """Waits until the outcome of a batch is known."""
        self._ended.clear()
        await self._ended.wait()

    def raise_unseen(self) -> None:
        """Raises the first failure that nobody has looked at."""
        unseen, self._unseen = [error for batch, error in self._unseen if not batch.is_observed], []
        if unseen:
            raise unseen[0]

    def forget_unseen(self) -> None:
        """What has failed was given up on purpose."""
        self._unseen.clear()

    def written(self, where: PartitionQueue, batch: Batch, base_offset: int, append_time: int) -> None:
        """The broker has it; -1 for what it does not say."""
        where.in_flight.remove(batch)
        where.known_as = batch.producer
        self._backoff.reset()
        self._metrics.add("record-send-total", len(batch))
        self._metrics.add("byte-total", len(batch.wire or b""))
        self._settle(batch, (base_offset, append_time), None)

    def failed(self, where: PartitionQueue, batch: Batch, code: int, error: Exception) -> None:
        """The broker refuses a batch, or it is lost: once more, in halves, or never."""
        now = self._loop.time()
        batch.attempts += 1
        batch.trouble = error
        if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch) > 1:
            where.in_flight.remove(batch)
            self._split(where, batch)
            return
        if code in _SEQUENCE and self._idempotent:
            # Behind another that is not answered yet this says nothing: that one decides.
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
        log.debug("%s: %s, sent again", where.where, error_name(code))
        self._metrics.add("record-retry-total", len(batch))
        where.retry(batch)
        where.not_before = now + self._backoff.next()

    def fail(self, where: PartitionQueue, batch: Batch, error: Exception) -> None:
        """A batch has failed for good."""
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
        """All that is not on the wire has failed."""
        for batch in where.unsent():
            self.fail(where, batch, error)

    def expire(self, where: PartitionQueue, now: float) -> float:
        """Fails what is overdue, on the wire or not; when the next one will be."""
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
            batch.done.exception()  # looked at: whoever waits sees it, `flush` tells the others
            if not batch.is_observed and error is not None:
                # A caller may still read it before the next flush.
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

        def tell(done: asyncio.Future[tuple[int, int]]) -> None:
            if not batch.done.done():
                batch.done.set_result((-1, -1))

        second.done.add_done_callback(tell)
