"""The records in flight of a share partition: invariants after any sequence of events, and the rules one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pybroker.broker.coordinators.share_partition.in_flight import AckBatch, AckType, Change, Failure, InFlight, LogRead
from pybroker.broker.coordinators.share_state.state import (
    DeliveryState,
    ShareState,
    StateBatch,
    Write,
    changed,
    combined,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

DELIVERIES_MAX = 3
MEMBERS = ("a", "b")
OFFSETS = 40
GAPS = frozenset({5, 6, 17, 30})
"""Offsets without a record (compacted, markers)."""


def table(start: int = 0, batches: tuple[StateBatch, ...] = (), *, queue: bool = False) -> InFlight:
    return InFlight(start, batches, deliveries_max=lambda: DELIVERIES_MAX, dead_letters=lambda: queue)


def read(offset: int, end: int, size: int = 4) -> LogRead:
    """Return the result of a fetch: batches of `size` offsets that end before gaps."""
    batches: list[tuple[int, int]] = []
    for at in range(offset, end):
        if at in GAPS:
            continue
        if batches and batches[-1][1] == at - 1 and at - batches[-1][0] < size:
            batches[-1] = batches[-1][0], at
        else:
            batches.append((at, at))
    return LogRead(offset, batches, end)


class Machine(RuleBasedStateMachine):
    """Members acquire and acknowledge records, locks expire, writes succeed and fail, and the broker dies in between.
    Invariants: each record is accepted at most once, is never lost, is never acquired by two members at a time, and is
    never delivered too often."""

    queue = False
    """Whether the group has a dead letter queue."""

    def __init__(self) -> None:
        super().__init__()
        self.table = table(queue=self.queue)
        self.stored = ShareState(0, 0)
        self.held: dict[int, str] = {}
        self.accepted: Counter[int] = Counter()
        self.given: Counter[int] = Counter()
        self.under_way: list[tuple[Change, Write, dict[int, AckType]]] = []
        self.now = 0

    @rule(member=st.sampled_from(MEMBERS), number=st.integers(1, 12), strict=st.booleans(), limit=st.integers(4, 30))
    def acquire(self, member: str, number: int, strict: bool, limit: int) -> None:
        offset = self.table.next_offset
        if offset >= OFFSETS:
            return
        found = read(offset, min(offset + 15, OFFSETS))
        spans = self.table.acquire(
            member, found, records_max=number, strict=strict, in_flight_max=limit, deadline_ms=self.now + 10
        )
        offsets = [at for span in spans for at in range(span.first, span.last + 1)]
        assert not strict or len(offsets) <= number
        for at in offsets:
            assert at not in GAPS
            assert at not in self.held
            assert not self.accepted[at], at
            self.held[at] = member
            self.given[at] += 1
            assert self.given[at] <= DELIVERIES_MAX

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=st.sampled_from([AckType.ACCEPT, AckType.RELEASE, AckType.REJECT]))
    def acknowledge(self, data: st.DataObject, kind: AckType) -> None:
        at = data.draw(st.sampled_from(sorted(self.held)))
        member = self.held[at]
        last = at
        while self.held.get(last + 1) == member and last - at < 5:
            last += 1
        change = self.table.acknowledge(member, [AckBatch(at, last, [kind])], 0)
        self._begin(change, dict.fromkeys(range(at, last + 1), kind))

    def _begin(self, change: Change, said: dict[int, AckType]) -> None:
        start, done = self.table.outlook(change)
        write = Write(0, 0, start, done, tuple(one for one in change.batches if one.last >= start))
        for batch in change.batches:
            for at in range(batch.first, batch.last + 1):
                self.held.pop(at, None)
        self.under_way.append((change, write, said))

    @rule(passes=st.integers(1, 8))
    def time_passes(self, passes: int) -> None:
        self.now += passes
        change = self.table.give_back(lambda span: span.deadline_ms <= self.now)
        if change.spans:
            self._begin(change, {})

    @precondition(lambda self: self.under_way)
    @rule(stored=st.booleans())
    def settle(self, stored: bool) -> None:
        change, write, said = self.under_way.pop(0)
        acquired = [span for span in change.spans if span.state is DeliveryState.ACQUIRED]
        back = [(span.first, span.last, span.member) for span in acquired]
        if stored:
            self.stored = changed(self.stored, write)
            self.accepted.update(at for at, kind in said.items() if kind is AckType.ACCEPT)
        else:
            for first, last, member in back:
                self.held.update(dict.fromkeys(range(first, last + 1), member))
        self.table.settle(change, stored=stored)

    @rule()
    def dies(self) -> None:
        self.under_way.clear()
        self.held.clear()
        self.table = table(self.stored.start_offset, self.stored.batches, queue=self.queue)
        # Do not count deliveries that were not acknowledged: they may not have arrived.
        self.given.clear()

    @invariant()
    def nothing_is_accepted_twice(self) -> None:
        assert all(count == 1 for count in self.accepted.values())

    @invariant()
    def spans_are_a_row(self) -> None:
        at = self.table.start
        for span in self.table.spans:
            assert span.first == at <= span.last
            at = span.last + 1
        assert at == self.table.end or not self.table.spans

    @invariant()
    def what_is_held_is_acquired(self) -> None:
        acquired = {
            at: span.member
            for span in self.table.spans
            if span.state is DeliveryState.ACQUIRED and span.coming is None
            for at in range(span.first, span.last + 1)
        }
        assert acquired == self.held


class QueueMachine(Machine):
    """The same machine with a dead letter queue: a finished record was accepted, or is in the queue."""

    queue = True

    def __init__(self) -> None:
        super().__init__()
        self.letters: Counter[int] = Counter()

    @rule()
    def archive(self) -> None:
        change = self.table.archive()
        if change.spans:
            self.letters.update(at for span in change.spans for at in range(span.first, span.last + 1))
            self._begin(change, {})

    @invariant()
    def what_failed_is_in_the_queue(self) -> None:
        archived = [
            at
            for batch in self.stored.batches
            if batch.state is DeliveryState.ARCHIVED
            for at in range(batch.first, batch.last + 1)
        ]
        for at in {*range(self.stored.start_offset), *archived}:
            assert at in GAPS or self.accepted[at] or self.letters[at], at


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


def test_a_batch_is_given_whole_unless_the_limit_is_strict() -> None:
    loose = table().acquire("a", LogRead(0, [(0, 9)], 10), records_max=3, strict=False, in_flight_max=99, deadline_ms=0)
    assert [(span.first, span.last) for span in loose] == [(0, 9)]
    strict = table().acquire("a", LogRead(0, [(0, 9)], 10), records_max=3, strict=True, in_flight_max=99, deadline_ms=0)
    assert [(span.first, span.last) for span in strict] == [(0, 2)]


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([AckBatch(0, 9, [1])], ErrorCode.INVALID_RECORD_STATE),
        ([AckBatch(0, 20, [1])], ErrorCode.INVALID_REQUEST),
        ([AckBatch(0, 1, [1, 1, 1])], ErrorCode.INVALID_REQUEST),
        ([AckBatch(3, 4, [1]), AckBatch(4, 5, [1])], ErrorCode.INVALID_REQUEST),
        ([AckBatch(0, 0, [9])], ErrorCode.INVALID_REQUEST),
    ],
)
def test_acknowledgements_are_refused_as_a_whole(batches: list[AckBatch], code: ErrorCode) -> None:
    flight = table()
    flight.acquire("b", LogRead(0, [(0, 9)], 10), records_max=99, strict=False, in_flight_max=99, deadline_ms=0)
    with pytest.raises(KafkaError) as refused:
        flight.acknowledge("a", batches, 0)
    assert refused.value.code == code
    assert flight.acquired == 10


def test_what_was_delivered_too_often_is_archived() -> None:
    flight = table()
    for _ in range(DELIVERIES_MAX):
        flight.acquire("a", LogRead(0, [(0, 0)], 1), records_max=9, strict=False, in_flight_max=9, deadline_ms=0)
        flight.settle(flight.acknowledge("a", [AckBatch(0, 0, [AckType.RELEASE])], 0), stored=True)
    assert (flight.start, flight.end, flight.spans) == (1, 1, [])


def test_what_failed_waits_for_the_queue_and_says_why() -> None:
    flight = table(queue=True)
    flight.acquire("a", LogRead(0, [(0, 3)], 4), records_max=9, strict=False, in_flight_max=9, deadline_ms=0)
    said = [AckBatch(0, 3, [AckType.REJECT, AckType.ACCEPT, AckType.GAP, AckType.RELEASE])]
    flight.settle(flight.acknowledge("a", said, 0), stored=True)
    assert flight.start == 0
    written = flight.archive()
    assert [(span.first, span.last, span.failure) for span in written.spans] == [(0, 0, Failure.REJECTED)]
    assert not flight.archive().spans, "it is on its way"
    flight.settle(written, stored=False)
    again = flight.archive([(0, 0)])
    assert again.batches == (StateBatch(0, 0, DeliveryState.ARCHIVED, 1),)
    flight.settle(again, stored=True)
    assert (flight.start, flight.next_offset) == (3, 3)
    for _ in range(DELIVERIES_MAX - 1):
        flight.acquire("a", LogRead(3, [(3, 3)], 4), records_max=9, strict=False, in_flight_max=9, deadline_ms=0)
        flight.settle(flight.give_back(lambda _: True), stored=True)
    assert [span.failure for span in flight.archive().spans] == [Failure.DELIVERED_TOO_OFTEN]


def test_a_later_state_lies_over_an_earlier_one() -> None:
    known = [StateBatch(0, 9, DeliveryState.AVAILABLE, 1)]
    later = [StateBatch(3, 4, DeliveryState.ACKNOWLEDGED, 1)]
    assert combined(known, later, 1) == (
        StateBatch(1, 2, DeliveryState.AVAILABLE, 1),
        StateBatch(3, 4, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(5, 9, DeliveryState.AVAILABLE, 1),
    )
