"""Members of a consumer group that commit their positions, leave and join again."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.history import Delivered, History, Place, Session
from tests.support.delivered import offset_and_value

COMMIT_EVERY = 40
LIVES_RECORDS = (300, 1_500)
"""Minimum and maximum number of records that a consumer reads before another one replaces it."""

EXPECTED = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE})
STUCK = KafkaError.NOT_COORDINATOR
"""The error of librdkafka when its group moved between its assignment and its request for committed offsets. It does
not ask the new coordinator (docs/clients.md): the test closes such a consumer and starts another one."""


@dataclass
class Group:
    """State that all members share."""

    name: str
    servers: str
    topic: str
    history: History
    committed: dict[Place, int] = field(default_factory=dict)
    """Highest offsets whose commits were acknowledged."""
    reached: dict[Place, int] = field(default_factory=dict)
    """The offset after the last record that a member read."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def place(self, partition: int) -> Place:
        """A partition of the topic."""
        return Place(self.history.topics[self.topic], partition)


class Member(threading.Thread):
    """Runs consumers of the group one after another, until `enough` is set."""

    def __init__(self, group: Group, name: str, seed: int) -> None:
        super().__init__(daemon=True, name=name)
        self._group = group
        self._random = random.Random(seed)
        self._sessions: dict[int, Session] = {}
        self._read: dict[int, int] = {}
        self.enough = threading.Event()

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                self._live(self._random.randint(*LIVES_RECORDS))
        except Exception as problem:
            self._group.history.problems.append(f"member {self.name} ended: {problem!r}")

    def _live(self, records: int) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._group.servers,
                "group.id": self._group.name,
                "client.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "socket.timeout.ms": 8_000,
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        consumer.subscribe(
            [self._group.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        try:
            since_commit = 0
            while records > 0 and not self.enough.is_set():
                message = consumer.poll(0.1)
                if message is not None and _is_stuck(message):
                    self._group.history.counts["group lives that got stuck"] += 1
                    break
                if message is not None and self._took(message):
                    since_commit += 1
                    records -= 1
                if since_commit >= COMMIT_EVERY:
                    since_commit = 0
                    self._commit(consumer)
        finally:
            # Sometimes, the member leaves without committing its last records.
            if self._random.random() < 0.5:
                self._commit(consumer)
            consumer.close()
            self._sessions.clear()
            self._read.clear()
            self._group.history.counts["group lives"] += 1

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        group = self._group
        for one in partitions:
            place = group.place(one.partition)
            with group.lock:
                session = Session(place, group.committed.get(place, -1))
            self._sessions[one.partition] = session
            group.history.sessions.append(session)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._sessions.pop(one.partition, None)
            self._read.pop(one.partition, None)

    def _took(self, message: Message) -> bool:
        problem = message.error()
        if problem is not None:
            if problem.code() not in EXPECTED and not problem.retriable():
                self._group.history.problems.append(f"member {self.name}: {problem}")
            return False
        partition = message.partition()
        offset, value = offset_and_value(message)
        assert partition is not None
        session = self._sessions.get(partition)
        if session is None:
            self._group.history.problems.append(f"member {self.name}: a record of {partition}, which it has not")
            return False
        session.delivered.append(Delivered(offset, value.decode()))
        self._read[partition] = offset + 1
        self._group.history.counts["delivered"] += 1
        with self._group.lock:
            place = session.place
            self._group.reached[place] = max(self._group.reached.get(place, 0), offset + 1)
        return True

    def _commit(self, consumer: Consumer) -> None:
        offsets = [TopicPartition(self._group.topic, partition, offset) for partition, offset in self._read.items()]
        if not offsets:
            return
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            # The member was replaced, or no broker responded: the outcome is unknown.
            self._group.history.counts["commits refused"] += 1
            return
        for one in done or ():
            if one.error is None:
                place = self._group.place(one.partition)
                with self._group.lock:
                    self._group.committed[place] = max(self._group.committed.get(place, -1), one.offset)
                self._group.history.counts["commits"] += 1


def _is_stuck(message: Message) -> bool:
    problem = message.error()
    return problem is not None and problem.code() == STUCK
