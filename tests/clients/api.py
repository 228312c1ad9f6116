"""What every client under test can do, in one vocabulary, so that one test serves all of them.

An adapter translates; it neither retries what the client would not retry nor hides an error. Errors of the broker
are raised as `BrokerError` with Kafka's own name of the code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

UNKNOWN_TOPIC_MS = 60_000
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Record:
    """What a producer sends to one partition. Text stands for its UTF-8 bytes."""

    partition: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, order=True)
class Received:
    """What a consumer gets."""

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
    """How a producer asks to be acknowledged."""

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
    """One member of a consumer group. `poll` must be called regularly: it is what drives some clients."""

    @abstractmethod
    def poll(self, timeout_s: float) -> list[Received]:
        """What arrived within `timeout_s`; also joins and rejoins the group."""

    @abstractmethod
    def assignment(self) -> set[int]:
        """The partitions of the topic that this member holds now."""

    @abstractmethod
    def commit(self, offsets: dict[int, int]) -> None:
        """Commits, and waits for the answer: the next offset to read in each partition."""

    def forget(self) -> None:  # noqa: B027 (most clients need nothing of the kind)
        """Lets go of the topic and subscribes to it anew, where the client asks its user to do that after
        UNKNOWN_TOPIC_ID.
        """

    @abstractmethod
    def close(self) -> None:
        """Leaves the group."""


class Producer(ABC):
    """A producer that lives for many sends."""

    @abstractmethod
    def send(self, topic: str, records: Sequence[Record]) -> list[int]:
        """The offset of each record, in the order given; −1 each for acks=0. Raises the first error there was."""

    def forget(self, topic: str) -> None:  # noqa: B027 (most clients need nothing of the kind)
        """Lets go of a topic, where the client asks its user to do that after UNKNOWN_TOPIC_ID."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""


class Client(ABC):
    """One client library, talking to one bootstrap address."""

    name: str
    lacks: frozenset[str] = frozenset()
    """What the library cannot do: a compression, or acks as `str(Acks)` names them."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """With as many replicas as the broker gives by default."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """And waits for the answer."""

    @abstractmethod
    def producer(
        self, acks: Acks = ALL_ACKS[2], compression: str = "none", unknown_topic_ms: int = UNKNOWN_TOPIC_MS
    ) -> Producer:
        """A new producer. `unknown_topic_ms`: after what time at the latest a topic that is not there is an error. Some
        clients have one limit for that and for every answer, so it is short only where it is what is tested."""

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        acks: Acks = ALL_ACKS[2],
        compression: str = "none",
        unknown_topic_ms: int = UNKNOWN_TOPIC_MS,
    ) -> list[int]:
        """What `Producer.send` gives, by a producer of its own."""
        producer = self.producer(acks, compression, unknown_topic_ms)
        try:
            return producer.send(topic, records)
        finally:
            producer.close()

    @abstractmethod
    def read(self, topic: str, partitions: int, count: int) -> list[Received]:
        """Reads all partitions from the start, without a group, until `count` records have come."""

    @abstractmethod
    def join(self, group: str, topic: str) -> Member:
        """A new member of a group, from the earliest offset where none is committed. Nobody commits by itself."""

    @abstractmethod
    def close(self) -> None:
        """Ends what the client has running."""
