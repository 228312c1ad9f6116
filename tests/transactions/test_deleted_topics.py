"""A transaction is open in a topic when the topic is deleted. None of its records reaches the next topic with the name.
If the topic is undeleted, it has the transaction's end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pybroker.client import OffsetSpec, TopicPartition, Uuid, blocking
from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, create_topic, unique, until
from tests.support.brokers import BrokerProcess
from tests.transactions.test_straight_path import await_read, read, transactional, write


class Lives:
    """Requests of an administrator about a topic."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = blocking.AdminClient({"bootstrap.servers": bootstrap})

    def id_of(self, topic: str) -> Uuid:
        found: Uuid = self.admin.describe_topics([topic]).all_topic_names()[topic].topic_id
        return found

    def delete(self, topic: str) -> Uuid:
        topic_id = self.id_of(topic)
        self.admin.delete_topics([topic])
        return topic_id

    def undelete(self, topic_id: Uuid, name: str) -> None:
        self.admin.undelete_topics({topic_id: name})

    def end(self, topic: str) -> int:
        """Return the log end, markers included."""
        partition = TopicPartition(topic, 0)
        return int(self.admin.list_offsets({partition: OffsetSpec.latest()}).all()[partition].offset)

    def settled(self, topic_id: Uuid) -> bool:
        """Return whether no deletion record has pending work."""
        return all(one.topic_id != topic_id for one in self.admin.describe_deletions())


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})


@pytest.fixture
def lives(broker: BrokerProcess) -> Iterator[Lives]:
    lives = Lives(broker.bootstrap)
    yield lives
    lives.admin.close()


@pytest.mark.checklist("A31", "U3")
@pytest.mark.parametrize("commits", [True, False])
def test_what_ended_while_the_topic_was_deleted_has_its_end_when_it_is_back(
    broker: BrokerProcess, lives: Lives, commits: bool
) -> None:
    kept, gone = create_topic(broker.bootstrap, 1), create_topic(broker.bootstrap, 1)
    producer = transactional(broker.bootstrap, "copy")
    producer.begin_transaction()
    write(producer, kept, "kept")
    write(producer, gone, "first")
    topic_id = lives.delete(gone)
    create_topic(broker.bootstrap, 1, gone)
    (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
    # The transaction has ended in the other partitions; the current topic with the name got none of its records or
    # markers.
    seen = ["kept"] if commits else []
    await_read(broker.bootstrap, kept, seen)
    producer.begin_transaction()
    write(producer, gone, "second")
    producer.commit_transaction(WAIT_S)
    until(lambda: read(broker.bootstrap, gone) == ["second"], "the second transaction is over")
    assert lives.end(gone) == 2, "a record and its marker"
    lives.undelete(topic_id, f"{gone}-back")
    write(producer_without_transactions(broker), f"{gone}-back", "later")
    expected = ["first", "later"] if commits else ["later"]
    # The undeleted topic's last stable offset advances.
    await_read(broker.bootstrap, f"{gone}-back", expected)
    assert lives.id_of(f"{gone}-back") == topic_id
    until(lambda: lives.settled(topic_id), "nothing is owed any more")
    # Kill the broker and read the log from the disk: the marker is in it.
    broker.kill()
    broker.start()
    await_read(broker.bootstrap, f"{gone}-back", expected)
    assert lives.end(f"{gone}-back") == 3


def producer_without_transactions(broker: BrokerProcess) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap})


@pytest.mark.checklist("A31", "U3")
def test_what_a_killed_broker_owed_is_written_by_its_next_life(broker: BrokerProcess, lives: Lives) -> None:
    gone = create_topic(broker.bootstrap, 1)
    producer = transactional(broker.bootstrap, "copy")
    producer.begin_transaction()
    write(producer, gone, "first")
    topic_id = lives.delete(gone)
    producer.commit_transaction(WAIT_S)
    # A second transaction has the epoch of the first one: its records must not count as records of the first one.
    broker.kill()
    broker.start()
    lives.undelete(topic_id, gone)
    broker.kill()
    broker.start()
    producer.begin_transaction()
    write(producer, gone, "second")
    await_read(broker.bootstrap, gone, ["first"])
    producer.abort_transaction(WAIT_S)
    write(producer_without_transactions(broker), gone, "later")
    until(lambda: read(broker.bootstrap, gone) == ["first", "later"], "the abort is everywhere")


@pytest.mark.checklist("A31", "U3")
def test_what_is_open_when_the_topic_comes_back_goes_on(broker: BrokerProcess, lives: Lives) -> None:
    gone = create_topic(broker.bootstrap, 1)
    producer = transactional(broker.bootstrap, "copy")
    producer.begin_transaction()
    write(producer, gone, "first")
    topic_id = lives.delete(gone)
    lives.undelete(topic_id, gone)
    assert read(broker.bootstrap, gone) == []
    write(producer, gone, "second")
    producer.commit_transaction(WAIT_S)
    until(lambda: read(broker.bootstrap, gone) == ["first", "second"], "the commit is everywhere")


@pytest.mark.checklist("A31", "U3")
def test_what_is_deleted_again_keeps_what_it_is_owed(broker: BrokerProcess, lives: Lives) -> None:
    """The topic is deleted twice, each time with a transaction open."""
    gone = create_topic(broker.bootstrap, 1)
    topic_id = lives.id_of(gone)
    for round_, commits in enumerate((True, False, True)):
        producer = transactional(broker.bootstrap, unique("copy"))
        producer.begin_transaction()
        write(producer, gone, f"{round_}")
        lives.delete(gone)
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
        lives.undelete(topic_id, gone)
    until(lambda: read(broker.bootstrap, gone) == ["0", "2"], "each has its end")


@pytest.mark.checklist("A31", "U3", "E10")
@pytest.mark.parametrize("commits", [True, False])
def test_a_broker_killed_while_the_topic_is_deleted_ends_the_transaction(
    broker: BrokerProcess, lives: Lives, commits: bool
) -> None:
    kept, gone = create_topic(broker.bootstrap, 1), create_topic(broker.bootstrap, 1)
    producer = transactional(broker.bootstrap, "copy")
    producer.begin_transaction()
    write(producer, kept, "kept")
    write(producer, gone, "first")
    topic_id = lives.delete(gone)
    broker.kill()
    broker.start()
    (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
    await_read(broker.bootstrap, kept, ["kept"] if commits else [])
    lives.undelete(topic_id, gone)
    write(producer_without_transactions(broker), gone, "later")
    await_read(broker.bootstrap, gone, ["first", "later"] if commits else ["later"])
    until(lambda: lives.settled(topic_id), "nothing is owed any more")


@pytest.mark.checklist("A31", "U3", "E9", "E10")
def test_a_transaction_that_times_out_while_the_topic_is_deleted_is_aborted(
    broker: BrokerProcess, lives: Lives
) -> None:
    kept, gone = create_topic(broker.bootstrap, 1), create_topic(broker.bootstrap, 1)
    producer = transactional(broker.bootstrap, "copy", **{"transaction.timeout.ms": 3_000})
    producer.begin_transaction()
    write(producer, kept, "kept")
    write(producer, gone, "first")
    topic_id = lives.delete(gone)
    write(producer_without_transactions(broker), kept, "later")
    await_read(broker.bootstrap, kept, ["later"])
    lives.undelete(topic_id, gone)
    write(producer_without_transactions(broker), gone, "later")
    await_read(broker.bootstrap, gone, ["later"])
    until(lambda: lives.settled(topic_id), "nothing is owed any more")
