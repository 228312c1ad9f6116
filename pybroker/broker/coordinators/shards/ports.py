"""What a coordinator needs from the rest of the broker, as narrow interfaces. `app` binds them; tests fake them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.end_of_turn import EndOfTurn
from pybroker.native import StoredRecords, Uuid

Record = tuple[bytes | None, bytes | None]
"""(key, value) of a record; a None value is a tombstone."""

Ended = tuple[int, int]
"""What became of an append: (0, the offset of its first record) when the records are committed (acks=all), else (an
error code, −1)."""


class Topics(Protocol):
    """This broker's view of topics: names and ids of what exists now, and who leads it."""

    @property
    def version(self) -> int:
        """Grows with each topic that comes or goes or gets partitions."""
        ...

    def names(self) -> Iterable[str]:
        """Of all topics."""
        ...

    def topic_id(self, name: str) -> Uuid | None:
        """The present incarnation of a name."""
        ...

    def topic_id_at(self, name: str, wall_ms: int) -> Uuid | None:
        """The incarnation that had a name at a time: the present one, or a deleted one that may come back; None: it is
        gone, or there was none."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of an incarnation that exists."""
        ...

    def is_dead(self, topic_id: Uuid) -> bool:
        """It is known that the incarnation was deleted and cannot come back."""
        ...

    def successor(self, topic_id: Uuid) -> Uuid | None:
        """The living topic that continues the offsets of a truncated one."""
        ...

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        """Where the log of a partition began."""
        ...

    def partition_count(self, topic_id: Uuid) -> int:
        """Partitions of a topic; 0 if it does not exist."""
        ...

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Whether a leader epoch can be one of this incarnation; False: it is of another one of its name."""
        ...

    def first_epoch(self, topic_id: Uuid) -> int:
        """From this leader epoch on all are of this incarnation."""
        ...

    def living_since(self, topic_id: Uuid) -> int | None:
        """Wall time in ms when the present life of this incarnation began; None: not known."""
        ...

    def leader(self, topic_id: Uuid, partition: int) -> tuple[int, int]:
        """(the broker that leads a partition, its leader epoch); the broker is −1 if there is none."""
        ...

    def on_leaders_changed(self, name: str, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of a topic of that name: its leaders, its partitions, its incarnation."""
        ...

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Where clients of a listener reach a live broker."""
        ...


class Appends(Protocol):
    """Appends to local partitions (`pybroker.broker.coordinators.shards.appends.NativeAppends`)."""

    def append(
        self,
        topic_id: Uuid,
        partition: int,
        leader_epoch: int,
        records: Sequence[Record],
        timestamp_ms: int,
        *,
        told: Callable[[int, int], None],
        producer: tuple[int, int] | None = None,
    ) -> Ended | None:
        """What became of it, if that is known at once, else None, and `told` is called with it once, later.
        FENCED_LEADER_EPOCH: the partition is not led under this epoch any more. `producer`: (id, epoch) of whose
        transaction the records are part. KafkaError: nothing was appended.
        """
        ...


class PartitionEnds(Protocol):
    """Where a local partition begins and ends."""

    @property
    def log_start_offset(self) -> int:
        """Its first offset."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset after its last record."""
        ...


class Reads(Protocol):
    """Blocking reads of local partitions (`NativePartitions`)."""

    def read_records(self, topic_id: Uuid, partition: int, offset: int, max_bytes: int) -> StoredRecords:
        """The records from `offset` on, and where to go on; the same offset at the end."""
        ...

    def offsets(self, topic_id: Uuid, partition: int) -> PartitionEnds | None:
        """Offsets of a local partition; None if it is not hosted here."""
        ...


class TopicCreator(Protocol):
    """Creates an internal topic when it is first needed (`pybroker.broker.admin.topics`)."""

    async def ensure_internal(self, name: str) -> object:
        """Returns when the topic exists and its leaders are applied. KafkaError if that cannot be had."""
        ...


class Brokers(Protocol):
    """The other brokers of a cluster (`interbroker.lines`)."""

    async def ask(self, broker_id: int, request: Any) -> Any:
        """The answer. KafkaError REQUEST_TIMED_OUT: what became of it is not known."""
        ...

    def close(self) -> None:
        """Who waits is answered with an error."""
        ...


class Ports(msgspec.Struct, frozen=True):
    """What every coordinator of this broker stands on."""

    broker_id: int
    clock: Clock
    loop: asyncio.AbstractEventLoop
    end_of_turn: EndOfTurn
    appends: Appends
    reads: Reads
    topics: Topics
    creator: TopicCreator
