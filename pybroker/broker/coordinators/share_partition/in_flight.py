"""The records of one share partition that are in flight: a pure table of offset ranges, no IO, no clock.

    beyond the end ──acquire──► ACQUIRED ──accept──────────────────────► ACKNOWLEDGED ─┐ removed when all
    AVAILABLE ───────acquire──►    │ ├──────reject, gap────────────────► ARCHIVED ─────┤ earlier offsets are
                                   │ └──release, lock or session expires ──► AVAILABLE,
                                   └──renew: a later deadline                or ARCHIVED after the last delivery

For a group with a dead letter queue, a record that was rejected or delivered for the last time is ARCHIVING until its
dead letter is written, then ARCHIVED.

A record leaves ACQUIRED in two steps. A `Change` contains the states to store; `settle` applies it when they are
stored. Until then no other member gets the records. If the change cannot be stored, the records stay acquired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, IntEnum

import msgspec

from pybroker.broker.coordinators.share_partition.portions import Batch, Portion
from pybroker.broker.coordinators.share_state.state import TERMINAL, DeliveryState, StateBatch
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
ARCHIVING = DeliveryState.ARCHIVING


class AckType(IntEnum):
    """Acknowledgement types, numbered as in the protocol."""

    GAP = 0
    """The log has no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member needs more time for the record (KIP-1222)."""


class Failure(Enum):
    """The reason for a dead letter. Kafka writes the same texts into the record's header, and consumers compare them.
    """

    REJECTED = "Offset rejected by client."
    DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class Span(msgspec.Struct, eq=False):
    """Consecutive offsets with the same state."""

    first: int
    last: int
    state: DeliveryState
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    """Monotonic time at which the member's lock expires."""
    coming: DeliveryState | None = None
    """The new state that is being stored; None if no change is pending."""
    failure: Failure | None = None
    """Why the record is ARCHIVING; None if it failed under an earlier leader."""
    batch: Batch | None = None
    """First and last offset of the batch in which the record was first delivered. None before the first delivery and in
    a terminal state."""

    def same(self, other: Span) -> bool:
        """Return whether two adjacent spans can be merged."""
        return (
            self.coming is None
            and other.coming is None
            and (self.state, self.count, self.member, self.deadline_ms, self.failure, self.batch)
            == (other.state, other.count, other.member, other.deadline_ms, other.failure, other.batch)
        )


class Change(msgspec.Struct, eq=False):
    """Spans that are changing to another state. The owner calls `settle` exactly once."""

    spans: list[Span] = []
    renewed: bool = False
    """Whether only locks were extended. The deadlines of locks are not stored."""

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        """The state batches to store."""
        return tuple(StateBatch(s.first, s.last, s.coming, s.count) for s in self.spans if s.coming is not None)


class AckBatch(msgspec.Struct, frozen=True):
    """A member's acknowledgement of consecutive offsets: one type for all offsets, or one type for each offset."""

    first: int
    last: int
    types: Sequence[int]


class InFlight:
    """The in-flight records of one share partition. The spans cover all offsets from `start` up to, but not including,
    `end`."""

    def __init__(
        self,
        start: int,
        batches: Iterable[StateBatch] = (),
        *,
        deliveries_max: Callable[[], int],
        dead_letters: Callable[[], bool] = lambda: False,
    ) -> None:
        """deliveries_max: the delivery limit. dead_letters: returns whether the group has a dead letter queue."""
        self.start = start
        self.spans: list[Span] = []
        self._deliveries_max = deliveries_max
        self._dead_letters = dead_letters
        at = start
        for batch in batches:
            if batch.last < at:
                continue
            if batch.first > at:
                self.spans.append(Span(at, batch.first - 1, AVAILABLE))
            span = Span(max(batch.first, at), batch.last, batch.state, batch.deliveries)
            if batch.state not in TERMINAL:
                span.batch = batch.first, batch.last
            self.spans.append(span)
            at = batch.last + 1
        self.end = at
        self.tidy()

    # --- acquiring ----------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        """The next offset to read: the offset of the first available record, or the end."""
        return next((span.first for span in self.spans if span.state is AVAILABLE and span.coming is None), self.end)

    @property
    def unfinished(self) -> int:
        """Number of offsets that are not in a terminal state."""
        return sum(span.last - span.first + 1 for span in self.spans if span.state not in TERMINAL)

    @property
    def acquired(self) -> int:
        """Number of acquired offsets."""
        return sum(span.last - span.first + 1 for span in self.spans if span.state is ACQUIRED)

    @property
    def finished(self) -> int:
        """Number of offsets above `start` in a terminal state."""
        return self.end - self.start - self.unfinished

    def acquire(
        self, member: str, found: LogRead, *, records_max: int, strict: bool, in_flight_max: int, deadline_ms: int
    ) -> list[Span]:
        """Acquire records that were read for a member; return copies of the spans.

        With `strict`, never exceed `records_max`. Otherwise, if the limit is reached within a batch, acquire the whole
        batch. Batches that failed often are acquired in portions (see `portions`).
        """
        taken: list[Span] = []
        new: list[Span] = []
        portion = Portion(self._deliveries_max(), lambda batch: self._most_given(batch, found))
        number, at = 0, found.offset
        for first, last in found.batches:
            full = number >= records_max or portion.is_full
            if full or (first >= self.end and self.unfinished >= in_flight_max):
                break
            self._pass_over(at, first - 1)
            self._extend(last)
            at = last + 1
            for span in self._cut(first, last):
                room = records_max - number
                if span.state is not AVAILABLE or span.coming is not None or (strict and room <= 0):
                    continue
                most = portion.room(span.batch, span.count, number)
                if most == 0:
                    break
                if strict:
                    most = min(most, room)
                if span.last - span.first + 1 > most:
                    self._split(span.first + most)
                if span.batch is None:
                    new.append(span)
                number += span.last - span.first + 1
                span.state, span.count, span.member = ACQUIRED, span.count + 1, member
                span.deadline_ms = deadline_ms
                taken.append(Span(span.first, span.last, ACQUIRED, span.count, member, deadline_ms))
        else:
            self._pass_over(at, found.next_offset - 1)
        for span in new:
            span.batch = new[0].first, new[-1].last
        self.tidy()
        return taken

    def _most_given(self, batch: Batch, found: LogRead) -> int:
        """Return the highest delivery count among the batch's records that were read and are available."""
        first, last = max(batch[0], found.offset), min(batch[1], found.batches[-1][1])
        spans = self._over(first, last)
        return max((span.count for span in spans if span.state is AVAILABLE and span.coming is None), default=0)

    def _pass_over(self, first: int, last: int) -> None:
        """Archive offsets that were read but have no record for consumers (markers, aborted or compacted records)."""
        if last >= first:
            self._extend(last)
            for span in self._cut(first, last):
                if span.state is AVAILABLE and span.coming is None:
                    span.state, span.batch = ARCHIVED, None

    def _extend(self, last: int) -> None:
        if last >= self.end:
            self.spans.append(Span(self.end, last, AVAILABLE))
            self.end = last + 1

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, batches: Sequence[AckBatch], renewed_until_ms: int) -> Change:
        """Acknowledge records for a member: all of them, or none if it raises KafkaError. Offsets below the start are
        ignored.

        Raise KafkaError INVALID_REQUEST, or INVALID_RECORD_STATE if the member does not hold the lock of a record.
        """
        runs = list(_runs(batches))
        for first, last, _ in runs:
            if last >= self.end:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Acknowledged offsets were never acquired.")
            for span in self._over(max(first, self.start), last):
                if span.state is not ACQUIRED or span.member != member or span.coming is not None:
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD_STATE, "A record is not, or no longer, acquired by this member."
                    )
        change = Change()
        for first, last, kind in runs:
            for span in self._cut(max(first, self.start), last):
                if kind is AckType.RENEW:
                    span.deadline_ms = renewed_until_ms
                    change.renewed = True
                    continue
                if kind is AckType.ACCEPT:
                    span.coming = ACKNOWLEDGED
                elif kind is AckType.RELEASE:
                    self._release(span)
                elif kind is AckType.REJECT:
                    self._fail(span, Failure.REJECTED)
                else:
                    span.coming = ARCHIVED
                change.spans.append(span)
        return change

    def give_back(self, which: Callable[[Span], bool]) -> Change:
        """Release the acquired records for which `which` returns True. Other members can then acquire them."""
        change = Change()
        for span in self.spans:
            if span.state is ACQUIRED and span.coming is None and which(span):
                self._release(span)
                change.spans.append(span)
        return change

    def _release(self, span: Span) -> None:
        if span.count >= self._deliveries_max():
            self._fail(span, Failure.DELIVERED_TOO_OFTEN)
        else:
            span.coming = AVAILABLE

    def _fail(self, span: Span, failure: Failure) -> None:
        span.coming, span.failure = (ARCHIVING, failure) if self._dead_letters() else (ARCHIVED, None)

    def archive(self, offsets: Sequence[tuple[int, int]] | None = None) -> Change:
        """Change ARCHIVING records to ARCHIVED. Call `settle` when their dead letters are written.

        `offsets`: archive only these (first, last) ranges. Offsets that are no longer in the table are ignored.
        """
        change = Change()
        spans = self.spans if offsets is None else [span for run in offsets for span in self._cut(*run)]
        for span in spans:
            if span.state is ARCHIVING and span.coming is None:
                span.coming = ARCHIVED
                change.spans.append(span)
        return change

    def settle(self, change: Change, *, stored: bool) -> bool:
        """Apply a stored change. If `stored` is False, drop the change; the records stay acquired. Return whether any
        record became available."""
        freed = False
        for span in change.spans:
            if stored and span.coming is not None:
                span.state, span.member, span.deadline_ms = span.coming, "", 0
                freed |= span.state is AVAILABLE
                if span.state in TERMINAL:
                    span.batch = None
            span.coming = None
            if span.state is not ARCHIVING:
                span.failure = None
        change.spans.clear()
        self.tidy()
        return freed

    def outlook(self, change: Change) -> tuple[int, int]:
        """Return (start offset, terminal records above it) that result from this change, without other pending changes.
        """
        mine = set(map(id, change.spans))
        start, done, leading = self.start, 0, True
        for span in self.spans:
            state = span.coming if id(span) in mine and span.coming is not None else span.state
            if state not in TERMINAL:
                leading = False
            elif leading:
                start = span.last + 1
            else:
                done += span.last - span.first + 1
        return start, done

    # --- table maintenance --------------------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """Monotonic time at which the first lock expires; None if no record is locked."""
        return min((s.deadline_ms for s in self.spans if s.state is ACQUIRED and s.coming is None), default=None)

    def move_start(self, offset: int) -> None:
        """Drop offsets below the log's new start offset."""
        if offset <= self.start:
            return
        if offset >= self.end:
            self.spans.clear()
            self.start = self.end = offset
            return
        kept = [span for span in self.spans if span.last >= offset]
        kept[0].first = offset
        self.spans, self.start = kept, offset
        self.tidy()

    def cut_end(self, offset: int) -> None:
        """Drop offsets at and above the log's new end offset."""
        self.spans = [span for span in self.spans if span.first < offset]
        if self.spans:
            self.spans[-1].last = min(self.spans[-1].last, offset - 1)
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)

    def tidy(self) -> None:
        """Drop terminal spans at the start, and merge neighbours with the same state."""
        spans: list[Span] = []
        for span in self.spans:
            if not spans and span.state in TERMINAL:
                self.start = span.last + 1
            elif spans and spans[-1].same(span):
                spans[-1].last = span.last
            else:
                spans.append(span)
        self.spans = spans

    def _at(self, offset: int) -> int:
        return max(bisect_right(self.spans, offset, key=lambda span: span.first) - 1, 0)

    def _over(self, first: int, last: int) -> Iterator[Span]:
        for place in range(self._at(first), len(self.spans)):
            span = self.spans[place]
            if span.first > last:
                return
            if span.last >= first:
                yield span

    def _cut(self, first: int, last: int) -> list[Span]:
        """Return the spans of exactly these offsets. Do not split spans with a pending change, because the change
        refers to them."""
        if first > last:
            return []
        self._split(first)
        self._split(last + 1)
        return list(self._over(first, last))

    def _split(self, offset: int) -> None:
        """Split the span that contains `offset`. The second part begins at `offset`."""
        if not self.spans or offset >= self.end:
            return
        place = self._at(offset)
        span = self.spans[place]
        if span.first < offset <= span.last and span.coming is None:
            rest = msgspec.structs.replace(span, first=offset)
            span.last = offset - 1
            self.spans.insert(place + 1, rest)


class LogRead(msgspec.Struct, frozen=True):
    """The result of reading the log from `offset` on."""

    offset: int
    batches: Sequence[tuple[int, int]]
    """(first, last) offsets of batches with records, in ascending order. No offset is below `offset`."""
    next_offset: int
    """The offset to read next. Below it, offsets that are in no batch have no record."""


def _runs(batches: Sequence[AckBatch]) -> Iterator[tuple[int, int, AckType]]:
    """Yield ranges of offsets with one acknowledgement type. Raise KafkaError INVALID_REQUEST."""
    before = -1
    for batch in batches:
        if (
            batch.first <= before
            or batch.last < batch.first
            or len(batch.types)
            not in (
                1,
                batch.last - batch.first + 1,
            )
        ):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Acknowledgement batches must be in ascending order, with one type for all or one type for "
                "each record.",
            )
        before = batch.last
        if any(kind not in _TYPES for kind in batch.types):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown acknowledgement type.")
        if len(batch.types) == 1:
            yield batch.first, batch.last, AckType(batch.types[0])
            continue
        first = batch.first
        for place, kind in enumerate(batch.types):
            if place and kind != batch.types[place - 1]:
                yield first, batch.first + place - 1, AckType(batch.types[place - 1])
                first = batch.first + place
        yield first, batch.last, AckType(batch.types[-1])


_TYPES = frozenset(map(int, AckType))
