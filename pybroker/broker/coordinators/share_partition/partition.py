"""One share partition: the partition's leader delivers the records of one partition to one share group.

It reads its state from the share coordinator, and delivers records by the rules of `in_flight`. It responds to
acknowledgements when they are durable. It ends when the leader epoch or the topic id changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.share_partition.dead_letters import DeadLetterQueues, FailedRecords
from pybroker.broker.coordinators.share_partition.in_flight import AckBatch, AckType, Change, InFlight, LogRead, Span
from pybroker.broker.coordinators.share_partition.interfaces import Log, ShareGroupSettings, StatePersister
from pybroker.broker.coordinators.share_partition.reading import Reading
from pybroker.broker.coordinators.share_partition.start import first_offset
from pybroker.broker.coordinators.share_state.state import NO_OFFSET, DeliveryState, Key, Write
from pybroker.errors import KafkaError
from pybroker.native import FetchedBatches, NativeError, RecordBytes, RecordsWatch
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""Milliseconds before records with expired locks are released again, after the release could not be stored."""


class SharePartitionPhase(Enum):
    """Whether the partition delivers records."""

    LOADING = "loading"
    ACTIVE = "active"
    OVER = "over"
    """The leader epoch, state epoch or topic id has changed; the manager has to create a new share partition."""


class Look(msgspec.Struct, frozen=True):
    """Records that a member could acquire."""

    found: LogRead
    fetched: FetchedBatches


class AcquiredBatch(msgspec.Struct, frozen=True):
    """Records that a member acquired."""

    records: RecordBytes
    acquired: list[tuple[int, int, int]]
    """(first offset, last offset, delivery count)"""
    number: int
    size_bytes: int


class SharePartitionDependencies(msgspec.Struct, frozen=True):
    clock: Clock
    loop: asyncio.AbstractEventLoop
    timers: TimerWheel
    log: Log
    persister: StatePersister
    settings: ShareGroupSettings
    dead_letters: DeadLetterQueues
    watched: Callable[[RecordsWatch, Callable[[], None]], None]
    """Registers a callback for the moment when a watch fires."""
    unwatched: Callable[[RecordsWatch], None]
    """Cancels a watch."""


class SharePartition:
    """The delivery of one partition to one share group. `over`: called when the delivery has ended."""

    def __init__(
        self,
        key: Key,
        leader_epoch: int,
        dependencies: SharePartitionDependencies,
        over: Callable[[SharePartition], None],
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.phase = SharePartitionPhase.LOADING
        self.problem: KafkaError | None = None
        """Why the load failed."""
        self.waiters: set[Callable[[], None]] = set()
        self._dependencies = dependencies
        self._over = over
        self._state_epoch = 0
        self._table = InFlight(0, deliveries_max=lambda: 1)
        self._committed = dependencies.settings.read_committed(key.group)
        self._reading = Reading(dependencies, key, self._committed, self._wake, self._run)
        self._bound = 0
        """The end of the readable log (high watermark or last stable offset) at the last read."""
        self._watch: RecordsWatch | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing_dead_letters = False
        self._run(self._load())

    @property
    def table(self) -> InFlight:
        """The in-flight table; callers must not change it."""
        return self._table

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        dependencies, key = self._dependencies, self.key
        try:
            state = await dependencies.persister.read(key, self.leader_epoch)
            start = state.start_offset
            if start == NO_OFFSET:
                start = await first_offset(dependencies, key, self._committed)
                # Store the start offset now. Until the first acknowledgement, later appends or deletions must not
                # change it.
                await dependencies.persister.write(key, Write(state.state_epoch, self.leader_epoch, start, 0, ()))
        except (KafkaError, NativeError) as problem:
            self.problem = problem if isinstance(problem, KafkaError) else KafkaError(problem.code, str(problem))
            log.info(
                "group %s: no records of partition %s-%d are delivered now: %s",
                key.group,
                key[1],
                key.partition,
                problem,
            )
            self.end()
            return
        if self.phase is SharePartitionPhase.LOADING:
            self._state_epoch = state.state_epoch
            self._table = InFlight(
                start,
                state.batches,
                deliveries_max=lambda: dependencies.settings.deliveries_max(key.group),
                dead_letters=lambda: dependencies.dead_letters.has_queue(key.group),
            )
            self.phase = SharePartitionPhase.ACTIVE
            self._wake()
            # Write the dead letters that the previous leader has not written.
            self._run(self._write_dead_letters())

    def end(self) -> None:
        """Stop delivering records, and wake waiting members."""
        if self.phase is SharePartitionPhase.OVER:
            return
        self.phase = SharePartitionPhase.OVER
        self._dependencies.timers.cancel(self._timer)
        self._unwatch()
        self._over(self)
        self._wake()

    def end_when_idle(self, still: Callable[[], bool]) -> None:
        """End when pending changes are stored, if `still` then returns True, which means that no member of the group
        reads here."""
        under_way = next((task for task in self._tasks if not task.done()), None)
        if not still():
            return
        if under_way is None:
            self.end()
        else:
            under_way.add_done_callback(lambda _: self.end_when_idle(still))

    @property
    def _timer(self) -> tuple[str, Key]:
        return "share locks", self.key

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._dependencies.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("share partition %s failed: this is a bug in pybroker", self.key, exc_info=problem)
            self.end()

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, set()
        for wake in waiters:
            wake()

    # --- acquiring ----------------------------------------------------------------------------------------------------

    def look(self, bytes_max: int, records_max: int) -> Look | None:
        """Return records that a member could acquire; None if there are none at the moment. Raise KafkaError."""
        if self.phase is not SharePartitionPhase.ACTIVE:
            return None
        table, key = self._table, self.key
        while True:
            offset = table.next_offset
            if offset == table.end and table.unfinished >= self._dependencies.settings.in_flight_max(key.group):
                return None
            if offset >= self._bound and self._watch is not None:
                return None
            try:
                fetched = self._reading.fetch(offset, (bytes_max, records_max))
            except NativeError as problem:
                if problem.code == ErrorCode.OFFSET_OUT_OF_RANGE and self._follow_log():
                    continue
                raise KafkaError(problem.code, str(problem)) from problem
            if fetched is None:
                return None
            self._bound = fetched.bound
            if fetched.next_offset <= offset:
                self._watch_log()
                return None
            batches = [(max(first, offset), last) for first, last in fetched.batches]
            found = LogRead(offset, batches, fetched.next_offset)
            if batches:
                return Look(found, fetched)
            # The range contains only markers and aborted records.
            table.acquire("", found, records_max=0, strict=True, in_flight_max=1, deadline_ms=0)

    def take(self, look: Look, member: str, limits: tuple[int, int], *, strict: bool) -> AcquiredBatch | None:
        """Acquire the records of `look` for a member. limits: (maximum of records, maximum of records per row of the
        response)."""
        dependencies, group = self._dependencies, self.key.group
        records_max, batch_size = limits
        deadline_ms = dependencies.clock.monotonic_ms() + dependencies.settings.lock_duration_ms(group)
        spans = self._table.acquire(
            member,
            look.found,
            records_max=records_max,
            strict=strict,
            in_flight_max=dependencies.settings.in_flight_max(group),
            deadline_ms=deadline_ms,
        )
        if not spans:
            return None
        self._watch_locks()
        records = look.fetched.records(spans[0].first, spans[-1].last)
        assert records is not None
        number = sum(span.last - span.first + 1 for span in spans)
        return AcquiredBatch(records, rows(spans, batch_size), number, len(records))

    def _follow_log(self) -> bool:
        """Adjust the table to the log: the start of the log may be above records in flight, or its end below them.
        Return whether the table changed."""
        ends = self._dependencies.log.offsets(self.key.topic_id, self.key.partition)
        if ends is None:
            return False
        table = self._table
        if table.next_offset < ends.log_start_offset:
            table.move_start(ends.log_start_offset)
            return True
        if table.end > ends.log_end_offset:
            table.cut_end(ends.log_end_offset)
            return True
        return False

    def _watch_log(self) -> None:
        key = self.key
        if self._watch is None:
            reads = self._dependencies.log
            self._watch = watch = reads.watch(key.topic_id, key.partition, self._bound, self._committed)
            self._dependencies.watched(watch, lambda: self._more(watch))

    def _more(self, watch: RecordsWatch) -> None:
        if self._watch is watch:
            self._watch = None
            self._wake()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._dependencies.unwatched(self._watch)
            self._watch = None

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    async def acknowledge(self, member: str, batches: Sequence[AckBatch]) -> None:
        """Acknowledge records. Return when the acknowledgement is durable. If this raises KafkaError, nothing has
        changed."""
        if self.phase is not SharePartitionPhase.ACTIVE:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The record is no longer acquired by this member.")
        dependencies = self._dependencies
        if not dependencies.settings.renews(self.key.group) and any(AckType.RENEW in batch.types for batch in batches):
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        until_ms = dependencies.clock.monotonic_ms() + dependencies.settings.lock_duration_ms(self.key.group)
        change = self._table.acknowledge(member, batches, until_ms)
        await self._store(change)

    def release(self, member: str) -> None:
        """Release the records that a member acquired in a session that has ended."""
        if self.phase is SharePartitionPhase.ACTIVE:
            self._give_back(lambda span: span.member == member)

    def _give_back(self, which: Callable[[Span], bool]) -> None:
        change = self._table.give_back(which)
        if change.spans:
            self._run(self._store_given_back(change))

    async def _store_given_back(self, change: Change) -> None:
        try:
            await self._store(change)
        except KafkaError as problem:
            log.info(
                "group %s: cannot store the release of records, which stay acquired for now: %s",
                self.key.group,
                problem,
            )
            if self.phase is SharePartitionPhase.ACTIVE:
                self._dependencies.timers.schedule(self._timer, RETRY_MS, self._locks_over)

    async def _store(self, change: Change) -> None:
        if not change.spans:
            return
        start, done = self._table.outlook(change)
        batches = tuple(batch for batch in change.batches if batch.last >= start)
        write = Write(self._state_epoch, self.leader_epoch, start, done, batches)
        stored = False
        try:
            await self._dependencies.persister.write(self.key, write)
            stored = True
        except KafkaError as problem:
            if problem.code in FENCED:
                self.end()
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, problem.message) from problem
            raise
        finally:
            freed = self._table.settle(change, stored=stored)
            self._watch_locks()
        if freed or self.waiters:
            self._wake()
        if any(batch.state is DeliveryState.ARCHIVING for batch in batches):
            self._run(self._write_dead_letters())

    async def _write_dead_letters(self) -> None:
        """Write failed records to the group's dead letter queue, then archive them.

        Only one call runs at a time. If the broker stops or loses leadership between the two steps, the next leader
        writes the letter again.
        """
        if self._writing_dead_letters:
            return
        self._writing_dead_letters = True
        try:
            while self.phase is SharePartitionPhase.ACTIVE and (change := self._table.archive()).spans:
                failed = [FailedRecords(span.first, span.last, span.count, span.failure) for span in change.spans]
                await self._dependencies.dead_letters.write(self.key, failed)
                while self.phase is SharePartitionPhase.ACTIVE and not await self._archived(change):
                    await asyncio.sleep(RETRY_MS / 1000)
                    change = self._table.archive([(run.first, run.last) for run in failed])
        finally:
            self._writing_dead_letters = False

    async def _archived(self, change: Change) -> bool:
        try:
            await self._store(change)
        except KafkaError as problem:
            log.info(
                "group %s: cannot archive records that are in its dead letter queue, retrying: %s",
                self.key.group,
                problem,
            )
            return False
        return True

    # --- locks --------------------------------------------------------------------------------------------------------

    def _watch_locks(self) -> None:
        """Set a timer for the first lock that expires. When it fires, it sets itself for the next lock."""
        timers = self._dependencies.timers
        if self.phase is not SharePartitionPhase.ACTIVE or self._timer in timers:
            return
        deadline_ms = self._table.next_deadline_ms
        if deadline_ms is not None:
            timers.schedule(self._timer, deadline_ms - self._dependencies.clock.monotonic_ms(), self._locks_over)

    def _locks_over(self) -> None:
        now_ms = self._dependencies.clock.monotonic_ms()
        self._give_back(lambda span: span.deadline_ms <= now_ms)
        self._watch_locks()


FENCED = frozenset({ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST})
"""Errors after which this share partition must end: another broker leads the partition, or the group's offsets were
reset or deleted."""


def rows(spans: Sequence[Span], batch_size: int) -> list[tuple[int, int, int]]:
    """Return the acquired rows of the response; adjacent spans with the same delivery count are merged.

    A row has at most `batch_size` records, unless a single span is longer.
    """
    merged: list[tuple[int, int, int]] = []
    for span in spans:
        if merged:
            first, last, count = merged[-1]
            if last + 1 == span.first and count == span.count and span.last - first + 1 <= batch_size:
                merged[-1] = first, span.last, count
                continue
        merged.append((span.first, span.last, span.count))
    return merged
