"""The operations of every client under test, in one interface, so that one test serves all of them. An adapter
translates; it neither retries what the client would not retry nor hides an error. Errors of the broker are raised as
`BrokerError` with Kafka's own name of the code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

UNKNOWN_TOPIC_MS = 60_000
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Record:
    """A record that a producer sends to one partition. Text means its UTF-8 bytes."""

    partition: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, order=True)
class Received:
    """A record that a consumer receives."""

    partition: int
    offset: int
    key: str | None = field(compare=False)
    value: str | None = field(compare=False)
    headers: tuple[tuple[str, str], ...] = field(compare=False, default=())

    def sent(self) -> Record:
        """The record that a producer must have sent for this one to arrive."""
        return Record(self.partition, self.key, self.value, self.headers)


@dataclass(frozen=True)
class Acks:
    """The acknowledgement that a producer requests."""

    acks: str
    idempotent: bool = False

    def __str__(self) -> str:
        return f"acks={self.acks}{' idempotent' if self.idempotent else ''}"


ALL_ACKS = (Acks("0"), Acks("1"), Acks("all"), Acks("all", idempotent=True))


class BrokerError(Exception):
    """An error that the broker answered."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Member(ABC):
    """One member of a consumer group. Call `poll` regularly: some clients work only inside it."""

    @abstractmethod
    def poll(self, timeout_s: float) -> list[Received]:
        """Return records that arrive within `timeout_s`; also join and rejoin the group."""

    @abstractmethod
    def assignment(self) -> set[int]:
        """The partitions of the topic that this member holds now."""

    @abstractmethod
    def commit(self, offsets: dict[int, int]) -> None:
        """Commit the next offset to read in each partition, and wait for the response."""

    def forget(self) -> None:  # noqa: B027 (most clients need nothing of the kind)
        """Unsubscribe the topic and subscribe again, if the client asks its user to do that after UNKNOWN_TOPIC_ID."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class Producer(ABC):
    """A producer that stays open for many sends."""

    @abstractmethod
    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        """Return the offset of each record, in order; −1 each for acks=0. Raise the first error."""

    def forget(self, topic: str) -> None:  # noqa: B027 (most clients need nothing of the kind)
        """Drop a topic, if the client asks its user to do that after UNKNOWN_TOPIC_ID."""

    @abstractmethod
    def close(self) -> None:
        """Close the producer."""


class Client(ABC):
    """One client library with one bootstrap address."""

    name: str
    lacks: frozenset[str] = frozenset()
    """Features that the library lacks: a compression, or acks as `str(Acks)` names them."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the broker's default number of replicas."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """Delete a topic; wait for the response."""

    @abstractmethod
    def producer(
        self, acks: Acks = ALL_ACKS[2], compression: str = "none", unknown_topic_ms: int = UNKNOWN_TOPIC_MS
    ) -> Producer:
        """Return a new producer. `unknown_topic_ms`: time after which a missing topic is an error. Some clients have
        one limit for that and for every response, so only tests of missing topics set it low."""

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        acks: Acks = ALL_ACKS[2],
        compression: str = "none",
        unknown_topic_ms: int = UNKNOWN_TOPIC_MS,
    ) -> list[int]:
        """Send with a new producer; return the result of `Producer.send`."""
        producer = self.producer(acks, compression, unknown_topic_ms)
        try:
            return producer.send(topic, records)
        finally:
            producer.close()

    @abstractmethod
    def read(self, topic: str, partitions: int, count: int) -> list[Received]:
        """Read all partitions from the start, without a group, until `count` records have arrived."""

    @abstractmethod
    def join(self, group: str, topic: str) -> Member:
        """Return a new member of a group; without commits it starts at the earliest offset. Commits are explicit."""

    @abstractmethod
    def close(self) -> None:
        """End everything that the client runs."""
