"""Topics with records and threaded consumers, shared by the group tests."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pybroker.protocol import messages as m
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

WAIT_S = 120.0
"""A generous time limit; tests wait for a condition, not for this time."""
MOVING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
T = TypeVar("T")


def unique(what: str) -> str:
    """Return a unique name."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def admin(bootstrap: str) -> AdminClient:
    """Return an admin client. Keep a reference until its requests are answered: they are cancelled when it is
    garbage-collected."""
    return AdminClient({"bootstrap.servers": bootstrap})


def kind_of(broker: BrokerProcess, group: str) -> str:
    """The type under which the broker lists the group: `classic`, `consumer`, …."""
    with WireClient(broker.port) as client:
        listed = client.call(m.ListGroupsRequest(), 5).groups
    return next(str(one.group_type) for one in listed if one.group_id == group)


def create_topic(bootstrap: str, partitions: int = 4, name: str | None = None) -> str:
    """Create a topic."""
    name = name or unique("topic")
    operator = admin(bootstrap)
    for future in operator.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(WAIT_S)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic."""
    operator = admin(bootstrap)
    for future in operator.delete_topics([name]).values():
        future.result(WAIT_S)


def fill(bootstrap: str, topic: str, partitions: int, each: int, prefix: str = "") -> None:
    """Write `each` records to every partition, with values `{prefix}{partition}:{index}`."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for partition in range(partitions):
        for index in range(each):
            producer.produce(topic, f"{prefix}{partition}:{index}", partition=partition, on_delivery=delivered)
    assert producer.flush(WAIT_S) == 0
    assert not failed


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)


def again_while_it_moves(ask: Callable[[], T]) -> T:
    """Return the response once the group's coordinator has loaded, after a restart or a deletion of its topic."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except KafkaException as problem:
            if problem.args[0].code() not in MOVING or time.monotonic() > end:
                raise
            time.sleep(0.02)


Order = tuple[list[TopicPartition] | None, Future[list[TopicPartition] | None]]
"""Offsets for a member to commit (None: its positions), and the future for the result."""


class Member:
    """A consumer of a group in its own thread. Its fields may be read at any time."""

    def __init__(self, bootstrap: str, group: str, topic: str, settings: Mapping[str, object] | None = None) -> None:
        self.owned: set[int] = set()
        self.revocations: list[set[int]] = []
        self.values: list[str] = []
        self.errors: list[KafkaError] = []
        self.problem: BaseException | None = None
        given = settings or {}
        newer = given.get("group.protocol") == "consumer"
        self._cooperative = newer or given.get("partition.assignment.strategy") == "cooperative-sticky"
        # With the consumer protocol, the coordinator sets these timeouts.
        timing = {} if newer else {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 300}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **timing,
                # Fatal errors of the client arrive only in this callback.
                "error_cb": self.errors.append,
                **given,
            }
        )
        self._topic = topic
        self._over = threading.Event()
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
            while not self._over.is_set():
                self._obey()
                message = self.consumer.poll(0.05)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    self.errors.append(error)
                else:
                    value = message.value()
                    assert value is not None
                    self.values.append(value.decode())
        except BaseException as problem:
            self.problem = problem
        finally:
            self.consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        added = {p.partition for p in partitions}
        self.owned = self.owned | added if self._cooperative else added

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lost = {p.partition for p in partitions}
        self.revocations.append(lost)
        self.owned = self.owned - lost

    def _obey(self) -> None:
        while not self._orders.empty():
            offsets, answer = self._orders.get()
            try:
                if offsets is None:
                    answer.set_result(self.consumer.commit(asynchronous=False))
                else:
                    answer.set_result(self.consumer.commit(offsets=offsets, asynchronous=False))
            except KafkaException as problem:
                answer.set_exception(problem)

    def commit(self, offsets: list[TopicPartition] | None = None) -> dict[int, int]:
        """Commit the positions, or `offsets`; return partition → offset. KafkaException if the group refuses. The
        member's own thread commits: two threads that wait on one librdkafka consumer take each other's events."""
        answer: Future[list[TopicPartition] | None] = Future()
        self._orders.put((offsets, answer))
        committed = answer.result(WAIT_S)
        assert committed is not None
        for one in committed:
            if one.error is not None:
                raise KafkaException(one.error)
        return {one.partition: one.offset for one in committed}

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the group; a static member leaves only temporarily. Call it once."""
        self._over.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem


@contextmanager
def members(
    count: int, bootstrap: str, group: str, topic: str, settings: Mapping[str, object] | None = None
) -> Iterator[list[Member]]:
    """Start several members of one group together."""
    with ExitStack() as stack:
        yield [stack.enter_context(Member(bootstrap, group, topic, settings)) for _ in range(count)]


def shared_out(group: list[Member], partitions: int) -> bool:
    """Return whether every partition has exactly one owner."""
    owned = [p for member in group for p in member.owned]
    return sorted(owned) == list(range(partitions))
