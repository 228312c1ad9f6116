"""The decisions about one transactional id, driven by generated sequences of actions by producers, time and markers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pybroker.broker.coordinators.transaction import transaction as decisions
from pybroker.broker.coordinators.transaction.records import decode_value, encode_value
from pybroker.broker.coordinators.transaction.transaction import (
    AT_REST,
    ENDING,
    EPOCH_LAST,
    LEGAL_MOVES,
    NO_EPOCH,
    VERSION_1,
    VERSION_2,
    CoordinatedTransaction,
    TransactionPartition,
    TransactionProducer,
    TransactionState,
)
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

TOPICS = (Uuid.random(), Uuid.random())
REFUSALS = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
EVENTS = ("init", "init again", "fence", "add", "commit", "abort", "bump", "bump abort", "again", "complete", "late")


class Machine:
    """One transactional id, its current producer, and all promises made to clients."""

    def __init__(self, epoch: int) -> None:
        self.now = CoordinatedTransaction(1, epoch)
        self.me = TransactionProducer(1, epoch)
        self.former: list[TransactionProducer] = []
        self.last_end: tuple[TransactionProducer, bool] | None = None
        self.ids = 1
        self.clock = 0
        self.outcome: bool | None = None
        """The outcome of the ending transaction."""

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    def become(self, who: TransactionProducer) -> None:
        if who != self.me:
            self.former.append(self.me)
            self.me = who

    def take(self, change: CoordinatedTransaction) -> None:
        """Check that each stored state is a legal transition and can be read again."""
        assert change.state in LEGAL_MOVES[self.now.state]
        stored = decode_value(encode_value(change))
        assert replace(stored, last_epoch=change.last_epoch) == change
        if self.now.state in ENDING:
            assert change.state in AT_REST, "what is decided is finished, never changed"
            assert (change.state is TransactionState.COMPLETE_COMMIT) == self.outcome
        if change.state in ENDING:
            self.outcome = change.commits
        if change.state is TransactionState.ONGOING and self.now.state is TransactionState.ONGOING:
            assert change.partitions >= self.now.partitions
        if change.producer_id == self.now.producer_id:
            assert change.producer_epoch >= self.now.producer_epoch
        self.now = change

    def do(self, event: str, topic: int) -> None:
        self.clock += 1
        now = self.now
        if event in ("init", "init again"):
            given_ = self.me if event == "init again" else None
            if now.state is TransactionState.ONGOING:
                decisions.check_claimed(now, given_)
                self.take(decisions.fence(now, self.clock))
                self.former.append(self.me)
                return
            new_id = self.new_id() if decisions.needs_new_id(now, given_) else None
            change = decisions.initialize(now, given_, 1_000, self.clock, new_id=new_id)
            self.take(change)
            self.become(TransactionProducer(change.producer_id, change.producer_epoch))
            self.last_end = None
        elif event == "fence":
            if now.state is TransactionState.ONGOING:
                self.take(decisions.fence(now, self.clock))
                self.former.append(self.me)
        elif event == "add":
            self.take(decisions.add(now, self.me, [TransactionPartition("t", TOPICS[topic], topic)], self.clock))
        elif event in ("commit", "abort"):
            self.take(decisions.end(now, self.me, event == "commit", self.clock))
        elif event in ("bump", "bump abort"):
            self.bump(self.me, event == "bump")
        elif event == "again" and self.last_end is not None:
            before = self.now
            who, commit = self.last_end
            change = decisions.end_and_bump(before, who, commit, self.clock, new_id=None)
            assert change is before, "an end that comes again changes nothing"
            assert change.successor == self.me
        elif event == "complete":
            if now.state in ENDING:
                self.take(decisions.complete(now, self.clock))
        elif event == "late" and self.former:
            self.late(self.former[-1])

    def bump(self, who: TransactionProducer, commit: bool) -> None:
        new_id = self.new_id() if self.now.is_exhausted and who.epoch == self.now.producer_epoch else None
        change = decisions.end_and_bump(self.now, who, commit, self.clock, new_id=new_id)
        if change is not self.now:
            self.take(change)
            self.last_end = who, commit
            self.become(change.successor)

    def late(self, zombie: TransactionProducer) -> None:
        """Check that a replaced producer changes nothing."""
        if zombie == self.me:
            return
        for attempt in (
            lambda: decisions.add(self.now, zombie, [TransactionPartition("t", TOPICS[0], 0)], self.clock),
            lambda: decisions.end(self.now, zombie, True, self.clock),
        ):
            with pytest.raises(KafkaError):
                attempt()


@given(
    st.sampled_from([0, 5, EPOCH_LAST - 2]),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 1)), max_size=40),
)
def test_no_sequence_breaks_an_invariant(epoch: int, events: list[tuple[str, int]]) -> None:
    machine = Machine(epoch)
    for event, topic in events:
        try:
            machine.do(event, topic)
        except KafkaError as refused:
            if refused.code not in REFUSALS:
                raise
        assert machine.now.producer_epoch <= EPOCH_LAST + 1
        if machine.now.state in AT_REST:
            assert not machine.now.partitions


def ongoing(epoch: int = 0) -> CoordinatedTransaction:
    return decisions.add(
        CoordinatedTransaction(1, epoch), TransactionProducer(1, epoch), [TransactionPartition("t", TOPICS[0], 0)], 1
    )


@pytest.mark.checklist("E4")
def test_epochs_that_are_used_up_end_in_another_id() -> None:
    last = TransactionProducer(1, EPOCH_LAST)
    ending = decisions.end_and_bump(ongoing(EPOCH_LAST), last, True, 2, new_id=9)
    assert (ending.producer_id, ending.producer_epoch) == (1, EPOCH_LAST + 1), "the marker has the old id"
    assert ending.successor == TransactionProducer(9, 0)
    done = decisions.complete(ending, 3)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (9, 0, 1)
    again = decisions.end_and_bump(done, last, True, 4)
    assert again is done
    renewed = decisions.initialize(CoordinatedTransaction(1, EPOCH_LAST), last, 1_000, 5, new_id=7)
    assert (renewed.producer_id, renewed.producer_epoch, renewed.previous_producer_id) == (7, 0, 1)


@pytest.mark.checklist("E6")
def test_an_end_of_version_2_that_comes_late_ends_nothing_else() -> None:
    me = TransactionProducer(1, 0)
    done = decisions.complete(decisions.end_and_bump(ongoing(), me, True, 2), 3)
    assert (done.version, done.successor) == (VERSION_2, TransactionProducer(1, 1))
    next_one = decisions.add(done, done.successor, [TransactionPartition("t", TOPICS[1], 1)], 4, VERSION_2)
    for commit in (True, False):
        with pytest.raises(KafkaError) as refused:
            decisions.end_and_bump(next_one, me, commit, 5)
        assert refused.value.code == ErrorCode.PRODUCER_FENCED


@pytest.mark.checklist("E9")
def test_time_out_and_commit_have_one_outcome() -> None:
    fenced = decisions.fence(ongoing(), 9)
    for end in (decisions.end, decisions.end_and_bump):
        with pytest.raises(KafkaError) as refused:
            end(fenced, TransactionProducer(1, 0), True, 10)
        assert refused.value.code == ErrorCode.PRODUCER_FENCED
    committing = decisions.end(ongoing(), TransactionProducer(1, 0), True, 9)
    assert not decisions.is_timed_out(committing, 1 << 40)
    with pytest.raises(ValueError, match="PREPARE_COMMIT"):
        decisions.fence(committing, 10)


def refusal(attempt: Callable[[], object]) -> int:
    with pytest.raises(KafkaError) as refused:
        attempt()
    return refused.value.code


@pytest.mark.checklist("E4", "E6")
@pytest.mark.parametrize("epoch", [3, EPOCH_LAST])
def test_who_has_its_next_epoch_waits_until_the_markers_are_written(epoch: int) -> None:
    """The response to an end contains the next epoch before the markers are written; under the next producer id, if the
    epochs are used up."""
    new_id = 9 if epoch == EPOCH_LAST else None
    ending = decisions.end_and_bump(ongoing(epoch), TransactionProducer(1, epoch), True, 2, new_id=new_id)
    me = ending.successor
    part = TransactionPartition("t", TOPICS[1], 1)
    assert refusal(lambda: decisions.add(ending, me, [part], 3, VERSION_2)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: decisions.end_and_bump(ending, me, False, 3)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: decisions.initialize(ending, me, 1, 3)) == ErrorCode.CONCURRENT_TRANSACTIONS
    again = refusal(lambda: decisions.end_and_bump(ending, TransactionProducer(1, epoch), True, 3))
    assert again == ErrorCode.CONCURRENT_TRANSACTIONS
    assert decisions.add(decisions.complete(ending, 3), me, [part], 4, VERSION_2).partitions == {part}


def test_nobody_has_the_epoch_above_the_last() -> None:
    above = TransactionProducer(1, EPOCH_LAST + 1)
    ending = decisions.end_and_bump(ongoing(EPOCH_LAST), TransactionProducer(1, EPOCH_LAST), True, 2, new_id=9)
    fenced = decisions.fence(replace(ongoing(EPOCH_LAST), version=VERSION_2), 2)
    for now in (ending, fenced, decisions.complete(fenced, 3)):
        for commit in (True, False):
            with pytest.raises(KafkaError):
                decisions.end_and_bump(now, above, commit, 3)
    last = TransactionProducer(1, EPOCH_LAST)
    assert refusal(lambda: decisions.end_and_bump(fenced, last, False, 3)) == ErrorCode.PRODUCER_FENCED


@pytest.mark.checklist("E9")
def test_who_took_too_long_in_version_2_may_abort_and_go_on() -> None:
    mine = replace(ongoing(), version=VERSION_2)
    aborted = decisions.complete(decisions.fence(mine, 9), 10)
    me = TransactionProducer(1, 0)
    assert refusal(lambda: decisions.end_and_bump(aborted, me, True, 11)) == ErrorCode.INVALID_TXN_STATE
    assert decisions.end_and_bump(aborted, me, False, 11).successor == TransactionProducer(1, 1)
    taken = decisions.initialize(aborted, None, 1_000, 12)
    assert refusal(lambda: decisions.end_and_bump(taken, me, False, 13)) == ErrorCode.PRODUCER_FENCED


def test_an_end_of_version_1_has_a_marker_of_version_1() -> None:
    mine = decisions.add(
        CoordinatedTransaction(1, 0), TransactionProducer(1, 0), [TransactionPartition("t", TOPICS[0], 0)], 1, VERSION_2
    )
    assert decisions.end(mine, TransactionProducer(1, 0), True, 2).version == VERSION_1


def test_a_producer_that_names_itself_gets_the_same_answer_twice() -> None:
    at_rest = CoordinatedTransaction(1, 3)
    first = decisions.initialize(at_rest, TransactionProducer(1, 3), 1_000, 1)
    second = decisions.initialize(first, TransactionProducer(1, 3), 1_000, 2)
    assert (first.producer_epoch, second.producer_epoch) == (4, 4)
    with pytest.raises(KafkaError):
        decisions.initialize(second, TransactionProducer(1, 2), 1_000, 3)
    assert decisions.initialize(second, None, 1_000, 3).producer_epoch == 5
    assert decisions.initialize(second, None, 1_000, 3).last_epoch == NO_EPOCH
