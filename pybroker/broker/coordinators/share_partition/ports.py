"""What share partitions need of the rest of the broker. `composition` binds it; tests fake it."""

from __future__ import annotations

from typing import Protocol

from pybroker.broker.coordinators.share_state.state import Key, ShareState, Write
from pybroker.native import FetchedBatches, PartitionOffsets, RecordsWatch, Uuid


class Persister(Protocol):
    """Where states are kept (`coordinators.share_state`). KafkaError."""

    async def read(self, key: Key, leader_epoch: int) -> ShareState:
        """The state, for whoever leads the partition in this epoch."""
        ...

    async def write(self, key: Key, write: Write) -> None:
        """Returns when the change is on disk."""
        ...


class Log(Protocol):
    """Partitions that are led here (`NativePartitions`). NativeError."""

    def fetch(
        self, partition: tuple[Uuid, int], offset: int, limits: tuple[int, int], read_committed: bool, wait: bool
    ) -> FetchedBatches | None:
        """*Blocking if `wait`.* Batches from the one with `offset` on; limits: (bytes, records). None: they are on
        disk."""
        ...

    def watch(self, topic_id: Uuid, partition: int, bound: int, read_committed: bool) -> RecordsWatch:
        """Tells once when there is more than up to `bound`."""
        ...

    def offsets(self, topic_id: Uuid, partition: int) -> PartitionOffsets | None:
        """Where a partition stands."""
        ...

    def offset_for_timestamp(self, topic_id: Uuid, partition: int, timestamp_ms: int, read_committed: bool) -> int:
        """*Blocking.* The first offset whose record has at least this timestamp; −1 if there is none."""
        ...


class GroupSettings(Protocol):
    """The settings that hold for a group."""

    def lock_duration_ms(self, group_id: str) -> int:
        """share.record.lock.duration.ms"""
        ...

    def auto_offset_reset(self, group_id: str) -> str:
        """share.auto.offset.reset"""
        ...

    def read_committed(self, group_id: str) -> bool:
        """share.isolation.level is read_committed"""
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
