"""A topic is deleted while a transaction has offsets of it. If the topic is undeleted, the groups have the offsets that
the outcome of the transaction says. No other topic of the name gets them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import Lives, until
from tests.transactions.test_straight_path import send_offsets, transactional, write

BEFORE, AFTER, NONE = 3, 7, -1
KNOWN, FRESH = "known", "fresh"
"""A group with an offset from before the transaction, and a group whose first offset is in the transaction."""


class Copy:
    """A producer with an open transaction that has offsets of the topic `source`."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.lives = Lives(broker.port)
        self.source = self.lives.create("source")
        self.lives.create("target")
        self.lives.coordinator(KNOWN)
        assert self.lives.commit(KNOWN, "source", BEFORE) == 0
        self.producer = transactional(broker.bootstrap, "copy")
        self.begin()

    def begin(self) -> None:
        self.producer.begin_transaction()
        write(self.producer, "target", "copied")
        for group in (KNOWN, FRESH):
            send_offsets(self.producer, self.broker.bootstrap, group, "source", AFTER)

    def end(self, *, commits: bool) -> None:
        (self.producer.commit_transaction if commits else self.producer.abort_transaction)(WAIT_S)

    def committed(self, name: str = "source") -> tuple[int | str, int | str]:
        """Return the offsets of both groups."""
        return self.lives.committed(KNOWN, name), self.lives.committed(FRESH, name)

    def await_committed(self, expected: tuple[int, int], name: str = "source") -> None:
        """Wait for the offsets: a transaction's markers are written after the response to its end."""
        until(lambda: self.committed(name) == expected, f"{name} has the offsets {expected}")

    def undelete(self, name: str = "source") -> None:
        assert self.lives.undelete(self.source, name).error_code == 0

    def restart(self) -> None:
        self.broker.restart(crash=True)
        self.lives.coordinator(KNOWN)

    def await_settled(self) -> None:
        """Wait until no deletion record has pending work."""
        until(lambda: self.lives.deletions(self.source) == [], "the deletion record is removed")

    def end_other(self) -> None:
        """Complete another transaction of the same groups: the markers of the first one are written then."""
        producer: Producer = transactional(self.broker.bootstrap, "copy")
        producer.begin_transaction()
        for group in (KNOWN, FRESH):
            send_offsets(producer, self.broker.bootstrap, group, "target", 1)
        producer.commit_transaction(WAIT_S)
        until(lambda: self.committed("target") == (1, 1), "the markers are written")


def outcome(*, commits: bool) -> tuple[int, int]:
    return (AFTER, AFTER) if commits else (BEFORE, NONE)


@pytest.fixture
def copy(start_broker: StartBroker) -> Copy:
    return Copy(start_broker())


@pytest.mark.checklist("A31", "U3", "R22", "E11")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("restarts", ["never", "open", "ended"])
def test_offsets_follow_a_transaction_that_ends_while_the_topic_is_deleted(
    copy: Copy, commits: bool, restarts: str
) -> None:
    copy.lives.delete(copy.source)
    if restarts == "open":
        copy.restart()
    copy.end(commits=commits)
    copy.end_other()
    if restarts == "ended":
        copy.restart()
    assert copy.committed() == (NONE, NONE)
    copy.undelete()
    copy.await_committed(outcome(commits=commits))
    copy.await_settled()
    copy.restart()
    assert copy.committed() == outcome(commits=commits)


@pytest.mark.checklist("A31", "U3", "R22", "E11")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_follow_a_transaction_that_ends_after_the_undelete(copy: Copy, commits: bool, restarts: bool) -> None:
    copy.lives.delete(copy.source)
    copy.undelete()
    assert copy.committed() == (BEFORE, NONE), "the transaction is open"
    if restarts:
        copy.restart()
        copy.await_committed((BEFORE, NONE))
    copy.end(commits=commits)
    copy.end_other()
    copy.await_committed(outcome(commits=commits))
    copy.await_settled()
    copy.restart()
    assert copy.committed() == outcome(commits=commits)


@pytest.mark.checklist("A28", "A31", "U3", "R22", "E11")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("restarts", [False, True])
def test_another_topic_of_the_name_gets_no_offsets_of_a_transaction(copy: Copy, commits: bool, restarts: bool) -> None:
    copy.lives.delete(copy.source)
    other = copy.lives.create("source")
    assert copy.lives.commit(KNOWN, "source", 1) == 0
    if restarts:
        copy.restart()
    copy.end(commits=commits)
    copy.end_other()
    assert copy.committed() == (1, NONE)
    copy.restart()
    assert copy.committed() == (1, NONE)
    copy.undelete("back")
    copy.await_committed(outcome(commits=commits), "back")
    copy.await_settled()
    copy.lives.delete(other)
    copy.restart()
    assert copy.committed() == (NONE, NONE)
    assert copy.committed("back") == outcome(commits=commits)


@pytest.mark.checklist("A31", "U3", "R22", "E11")
@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_of_a_transaction_follow_a_topic_to_another_name(copy: Copy, restarts: bool) -> None:
    """The topic of the name is another one when the transaction ends, and that topic is deleted, too."""
    copy.lives.delete(copy.source)
    other = copy.lives.create("source")
    assert copy.lives.commit(KNOWN, "source", 1) == 0
    copy.undelete("back")
    copy.lives.delete(other)
    if restarts:
        copy.restart()
    copy.end(commits=True)
    copy.end_other()
    copy.await_committed((AFTER, AFTER), "back")
    copy.await_settled()
    for _ in range(2):
        copy.restart()
        assert copy.committed("back") == (AFTER, AFTER)
        assert copy.committed() == (NONE, NONE)


@pytest.mark.checklist("A31", "U2", "R22", "E11")
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_follow_a_transaction_that_ends_after_a_truncation(copy: Copy, commits: bool) -> None:
    copy.lives.produce("source", *map(str, range(AFTER)))
    assert copy.lives.truncate("source", keep_offsets=True).error_code == 0
    copy.end(commits=commits)
    copy.end_other()
    copy.await_committed(outcome(commits=commits))
    copy.restart()
    assert copy.committed() == outcome(commits=commits)
    copy.undelete("back")
    copy.await_committed(outcome(commits=commits), "back")


@pytest.mark.checklist("A31", "U3", "R22")
def test_offsets_of_a_transaction_end_with_a_purged_topic(copy: Copy) -> None:
    copy.lives.delete(copy.source)
    assert copy.lives.purge(copy.source).error_code == 0
    copy.end(commits=True)
    copy.end_other()
    copy.lives.create("source")
    assert copy.committed() == (NONE, NONE)
    copy.restart()
    assert copy.committed() == (NONE, NONE)
    assert copy.lives.undelete(copy.source, "back").error_code != 0


@pytest.mark.checklist("A31", "U3", "R22", "E11")
def test_each_deletion_keeps_the_offsets_of_its_transactions(copy: Copy) -> None:
    """A transaction that is open in two deletions ends after the second one; then one begins and is aborted."""
    for _ in range(2):
        copy.lives.delete(copy.source)
        copy.undelete()
    copy.lives.delete(copy.source)
    copy.end(commits=True)
    copy.undelete()
    copy.await_committed((AFTER, AFTER))
    copy.producer.begin_transaction()
    send_offsets(copy.producer, copy.broker.bootstrap, KNOWN, "source", AFTER + 1)
    copy.lives.delete(copy.source)
    copy.end(commits=False)
    copy.undelete()
    copy.end_other()
    copy.await_committed((AFTER, AFTER))
    copy.await_settled()
    copy.restart()
    assert copy.committed() == (AFTER, AFTER)
