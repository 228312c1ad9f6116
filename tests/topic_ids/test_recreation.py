"""A topic is deleted and created again under running clients that know it by name. One producer and one member of a
group run through all incarnations. The member reads exactly the records that were acknowledged in each incarnation:
from offset 0, each once and in order, none of an older incarnation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.clients.api import ALL_ACKS, BrokerError, Client, Member, Producer, Record
from tests.clients.confluent import Confluent
from tests.clients.conftest import CLIENTS
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

PARTITIONS = 3
PATIENCE_S = 120.0
"""How long a client may take to notice a new incarnation; longer is a hang. All refresh their metadata every second."""
QUIET = {
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "REBALANCE_IN_PROGRESS",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "CommitFailedError",  # kafka-python's own name for the three before
}
"""Errors that a poll may report in between; an application logs them and polls again."""


def records(incarnation: int) -> list[Record]:
    """Sometimes more and sometimes fewer than before, so an old position is inside or beyond the new log."""
    count = PARTITIONS * (5 + incarnation * 37 % 5 * 12)
    return [
        Record(number % PARTITIONS, None, f"{incarnation}:{number % PARTITIONS}:{number // PARTITIONS}")
        for number in range(count)
    ]


@dataclass
class Application:
    """A producer and a consumer that stay open, and an administrator who deletes and creates their topic."""

    client: Client
    producer: Producer
    member: Member
    topic: str
    created: float = field(default_factory=time.monotonic)
    noticed: list[float] = field(default_factory=list)
    """Seconds from the creation until everything was read, by incarnation."""

    def create(self) -> None:
        self.client.create_topic(self.topic, PARTITIONS)
        self.created = time.monotonic()

    def live_through(self, incarnation: int) -> None:
        """Write and read one incarnation."""
        sent = records(incarnation)
        offsets = self.send(sent)
        expected = {(record.partition, offset): record.value for record, offset in zip(sent, offsets, strict=True)}
        assert sorted(expected) == [(p, o) for p in range(PARTITIONS) for o in range(len(sent) // PARTITIONS)]
        found: dict[tuple[int, int], str | None] = {}
        last = dict.fromkeys(range(PARTITIONS), -1)
        give_up = time.monotonic() + PATIENCE_S
        while len(found) < len(expected):
            assert time.monotonic() < give_up, (
                f"incarnation {incarnation}: {len(found)} of {len(expected)} records within {PATIENCE_S} s; "
                f"the first missing are {sorted(expected.keys() - found.keys())[:5]}"
            )
            try:
                received = self.member.poll(0.25)
            except BrokerError as problem:
                if problem.name not in QUIET:
                    raise
                if problem.name == "UNKNOWN_TOPIC_ID":
                    self.member.forget()
                continue
            for each in received:
                assert each.value is not None
                assert each.value.startswith(f"{incarnation}:"), f"{each.value} was read of incarnation {incarnation}"
                # A rebalance may deliver uncommitted records again, from the start; no record may be missing.
                assert each.offset <= last[each.partition] + 1, f"{each} after offset {last[each.partition]}"
                last[each.partition] = each.offset
                found[each.partition, each.offset] = each.value
        assert found == expected
        self.noticed.append(time.monotonic() - self.created)

    def send(self, records: list[Record]) -> list[int]:
        """Send again for clients that give up a topic when its id changes (franz-go): no record was written."""
        try:
            return self.producer.send(self.topic, records)
        except BrokerError as problem:
            if problem.name != "UNKNOWN_TOPIC_ID":
                raise
            self.producer.forget(self.topic)
            return self.producer.send(self.topic, records)

    def commit(self, incarnation: int) -> None:
        """Commit like an application: if the group refuses because it rebalances, join and retry."""
        count = len(records(incarnation)) // PARTITIONS
        try:
            self.member.commit(dict.fromkeys(range(PARTITIONS), count))
        except BrokerError as problem:
            if problem.name not in QUIET:
                raise


@pytest.fixture
def own_broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker for one test: its clients would also notice deletions of other tests."""
    return start_broker()


@pytest.fixture(params=CLIENTS)
def running(request: pytest.FixtureRequest, own_broker: BrokerProcess) -> Iterator[Application]:
    """Yield each client family in turn, with its producer and consumer running."""
    client = CLIENTS[request.param](own_broker.bootstrap)
    topic = "events"
    client.create_topic(topic, PARTITIONS)
    idempotent = ALL_ACKS[3]
    application = Application(client, client.producer(idempotent), client.join("group", topic), topic)
    yield application
    application.member.close()
    application.producer.close()
    client.close()


def run(application: Application, incarnations: int) -> None:
    for incarnation in range(incarnations):
        if incarnation:
            application.client.delete_topic(application.topic)
            application.create()
        application.live_through(incarnation)
        if incarnation % 2:
            application.commit(incarnation)
    print("seconds until everything was read:", " ".join(f"{seconds:.1f}" for seconds in application.noticed))


@pytest.mark.checklist("R4", "R5", "R6", "A30", 2, 92)
def test_running_clients_go_through_three_incarnations(running: Application) -> None:
    run(running, 4)


@pytest.mark.checklist("R4", "R5")
def test_a_producer_that_writes_while_its_topic_is_away(running: Application, own_broker: BrokerProcess) -> None:
    """The producer's send ends, and the acknowledged record is in the new topic once, at the acknowledged offset."""
    writer = type(running.client)(own_broker.bootstrap)  # type: ignore[call-arg]  # each takes the address only
    producer = writer.producer(ALL_ACKS[3])
    running.producer.close()
    running.producer = producer
    try:
        running.live_through(0)
        for incarnation in (1, 2):
            sent = records(incarnation)
            running.client.delete_topic(running.topic)
            with ThreadPoolExecutor(1) as pool:
                sending = pool.submit(running.send, sent)
                # The first attempts find no topic; the test does not depend on that.
                time.sleep(0.3)
                running.create()
                try:
                    offsets = sending.result(PATIENCE_S)
                except BrokerError as problem:
                    print("the send was refused:", problem)
                    offsets = running.send(sent)
            # A part of a refused send may be in the topic, too.
            ends = Confluent(own_broker.bootstrap).end_offsets(running.topic, PARTITIONS)
            found = running.client.read(running.topic, PARTITIONS, sum(ends.values()))
            told = {(record.partition, offset): record.value for record, offset in zip(sent, offsets, strict=True)}
            there = {(each.partition, each.offset): each.value for each in found}
            assert told.items() <= there.items()
            assert set(there.values()) <= {record.value for record in sent}
    finally:
        writer_left = running.producer
        running.producer = running.client.producer(ALL_ACKS[3])
        writer_left.close()
        writer.close()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.checklist("R4", "R5", "R6")
def test_running_clients_go_through_twenty_incarnations(running: Application) -> None:
    run(running, 21)
