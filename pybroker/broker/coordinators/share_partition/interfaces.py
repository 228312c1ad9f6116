"""Interfaces of share partitions to the rest of the broker. `composition` implements them; tests use fakes."""

from __future__ import annotations

from typing import Protocol

from pybroker.broker.coordinators.share_state.state import Key, ShareState, Write
from pybroker.native import FetchedBatches, PartitionOffsets, RecordsWatch, Uuid


class StatePersister(Protocol):
    """Storage of share states (`coordinators.share_state`). Methods raise KafkaError."""

    async def read(self, key: Key, leader_epoch: int) -> ShareState:
        """Return the state. The caller is the partition's leader in this epoch."""
        ...

    async def write(self, key: Key, write: Write) -> None:
        """Write a change; return once it is durable."""
        ...


class Log(Protocol):
    """Partitions that this broker leads (`NativePartitions`). Methods raise NativeError."""

    def fetch(
        self, partition: tuple[Uuid, int], offset: int, limits: tuple[int, int], read_committed: bool, wait: bool
    ) -> FetchedBatches | None:
        """Return batches, starting with that of `offset`. *Blocking if `wait`.*

        limits: (bytes, records). Return None if the batches are not in memory and `wait` is False.
        """
        ...

    def watch(self, topic_id: Uuid, partition: int, bound: int, read_committed: bool) -> RecordsWatch:
        """Return a watch that fires once when there are readable records at or above `bound`."""
        ...

    def offsets(self, topic_id: Uuid, partition: int) -> PartitionOffsets | None:
        """Return the offsets of a partition."""
        ...

    def offset_for_timestamp(self, topic_id: Uuid, partition: int, timestamp_ms: int, read_committed: bool) -> int:
        """Return the first offset whose record has at least this timestamp; −1 if there is none. *Blocking.*"""
        ...


class ShareGroupSettings(Protocol):
    """The settings of groups."""

    def lock_duration_ms(self, group_id: str) -> int:
        """share.record.lock.duration.ms"""
        ...

    def auto_offset_reset(self, group_id: str) -> str:
        """share.auto.offset.reset"""
        ...

    def read_committed(self, group_id: str) -> bool:
        """Return whether share.isolation.level is read_committed."""
        ...

    def renews(self, group_id: str) -> bool:
        """share.renew.acknowledge.enable"""
        ...

    def deliveries_max(self, group_id: str) -> int:
        """share.delivery.count.limit"""
        ...

    def in_flight_max(self, group_id: str) -> int:
        """share.partition.max.record.locks"""
        ...

    @property
    def sessions_max(self) -> int:
        """group.share.max.share.sessions"""
        ...
