"""Interfaces between coordinators and the rest of the broker, kept narrow. `app` implements them; tests use fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.native import StoredRecords, Uuid

Record = tuple[bytes | None, bytes | None]
"""(key, value) of a record; None as the value: a tombstone."""

Ended = tuple[int, int]
"""Result of an append: (0, offset of the first record) when the records are committed (acks=all), or (error code, −1).
"""


class Topics(Protocol):
    """This broker's view of topics: names and ids of existing topics, and their leaders."""

    @property
    def version(self) -> int:
        """Increases whenever a topic is created, deleted or gets more partitions."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        ...

    def topic_id(self, name: str) -> Uuid | None:
        """Return the topic id of the current incarnation of a name."""
        ...

    def topic_id_at(self, name: str, wall_ms: int) -> Uuid | None:
        """Return the id of the incarnation that had a name at a time. It is the current incarnation, or a deleted
        incarnation that can still be undeleted.

        None: no incarnation had the name at that time, or its data has been purged.
        """
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of an existing incarnation."""
        ...

    def is_dead(self, topic_id: Uuid) -> bool:
        """Return whether the metadata shows that the topic is deleted and can no longer be undeleted."""
        ...

    def successor(self, topic_id: Uuid) -> Uuid | None:
        """Return the existing topic that replaced a truncated one and continues its consumer offsets."""
        ...

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        """Return the first offset that the log of a partition ever had."""
        ...

    def partition_count(self, topic_id: Uuid) -> int:
        """Return the number of partitions of a topic; 0 if it does not exist."""
        ...

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Return whether a leader epoch can belong to this incarnation. Otherwise it belongs to another incarnation of
        the name."""
        ...

    def proves(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Return whether this leader epoch can only belong to this incarnation of the name."""
        ...

    def had_name_alone(self, topic_id: Uuid) -> bool:
        """Return whether no other incarnation has ever had the topic's name."""
        ...

    def first_epoch(self, topic_id: Uuid) -> int:
        """Return the first leader epoch that belongs to this incarnation."""
        ...

    def living_since(self, topic_id: Uuid) -> int | None:
        """Return the wall time (ms) at which this incarnation was created or last undeleted; None if the time is
        unknown."""
        ...

    def leader(self, topic_id: Uuid, partition: int) -> tuple[int, int]:
        """Return (leader's broker id, leader epoch) of a partition; the broker id is −1 if there is no leader."""
        ...

    def on_leaders_changed(self, name: str, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the named topic: its leaders, its partitions, its topic id."""
        ...

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Return (host, port) of a live broker on the listener with this name."""
        ...


class LocalAppends(Protocol):
    """Appends to local partitions (`pybroker.broker.coordinators.shards.appends.NativeAppends`)."""

    def append(
        self,
        topic_id: Uuid,
        partition: int,
        leader_epoch: int,
        records: Sequence[Record],
        timestamp_ms: int,
        *,
        callback: Callable[[int, int], None],
        producer: tuple[int, int] | None = None,
    ) -> Ended | None:
        """Append records. If the result is known at once, return it. Otherwise return None, and call `callback` with
        the result once, later.

        FENCED_LEADER_EPOCH: this broker no longer leads the partition in this epoch. `producer`: (id, epoch) of the
        producer whose transaction contains the records. If this raises KafkaError, nothing was appended.
        """
        ...


class PartitionEndOffsets(Protocol):
    """The offset range of a local partition."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        ...


class Reads(Protocol):
    """Blocking reads of local partitions (`NativePartitions`)."""

    def read_records(self, topic_id: Uuid, partition: int, offset: int, max_bytes: int) -> StoredRecords:
        """Return the records from `offset` on, and the next offset to read. At the end of the log, the next offset is
        `offset` itself."""
        ...

    def offsets(self, topic_id: Uuid, partition: int) -> PartitionEndOffsets | None:
        """Return the offset range of a local partition; None if this broker does not host it."""
        ...


class TopicCreator(Protocol):
    """Creates an internal topic when it is first needed (`pybroker.broker.admin.topics`)."""

    async def ensure_internal(self, name: str) -> object:
        """Return when the topic exists and its leaders are applied. Raise KafkaError if the topic cannot be created."""
        ...


class BrokerConnections(Protocol):
    """The other brokers of a cluster (`interbroker.connection_pool`)."""

    async def ask(self, broker_id: int, request: Any) -> Any:
        """Return the response. Raise KafkaError REQUEST_TIMED_OUT if the outcome is unknown."""
        ...

    def close(self) -> None:
        """Close the connections; pending requests get an error."""
        ...


class CoordinatorDependencies(msgspec.Struct, frozen=True):
    """The dependencies that all coordinators of this broker share."""

    broker_id: int
    clock: Clock
    loop: asyncio.AbstractEventLoop
    end_of_batch: EndOfBatchHook
    appends: LocalAppends
    reads: Reads
    topics: Topics
    creator: TopicCreator
