"""What the group coordinator needs from the rest of the broker, as narrow interfaces. `app` binds them; tests fake
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pybroker.coordinators.group.group import Group
from pybroker.native import Completion, StoredRecords, Uuid
from pybroker.protocol.error_codes import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"

Record = tuple[bytes | None, bytes | None]


class Topics(Protocol):
    """This broker's view of topics: names and ids of what exists now."""

    def topic_id(self, name: str) -> Uuid | None:
        """The present incarnation of a name."""
        ...

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of an incarnation that exists."""
        ...

    def partition_count(self, topic_id: Uuid) -> int:
        """Partitions of a topic; 0 if it does not exist."""
        ...

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Whether a leader epoch can be one of this incarnation; False: it is of another one of its name."""
        ...

    def leader(self, name: str, partition: int) -> int:
        """The broker that leads a partition; −1 if there is none."""
        ...

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Where clients of a listener reach a live broker."""
        ...


class RemovedTopic(Protocol):
    """An incarnation that is no more."""

    @property
    def name(self) -> str:
        """What it was called."""
        ...

    @property
    def topic_id(self) -> Uuid:
        """Its id."""
        ...


class GroupSettings(Protocol):
    """The broker settings that rounds obey; read at each use, as some are dynamic."""

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms"""
        ...

    @property
    def max_size(self) -> int:
        """group.max.size"""
        ...


class GroupStore(Protocol):
    """Where generations become durable."""

    def store(self, group: Group, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]) -> None:
        """Writes the group's present generation; `done` gets NONE after the flush, else the code for clients."""
        ...

    def formed(self, group: Group) -> None:
        """Notes which topic incarnations exist as the generation forms."""
        ...

    def emptied(self, group: Group) -> None:
        """The last id handed out has expired and nothing of the group was ever stored."""
        ...


class Appends(Protocol):
    """Appends to local partitions (`pybroker.coordinators.shards.appends.NativeAppends`)."""

    def append(
        self, topic_id: Uuid, partition: int, records: Sequence[Record], timestamp_ms: int
    ) -> asyncio.Future[Completion]:
        """The future is done when the records are committed; KafkaError otherwise."""
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
    """Creates the offsets topic when it is first needed (`pybroker.admin.topics`)."""

    async def ensure_internal(self, name: str) -> object:
        """Returns when the topic exists and its leaders are applied. KafkaError if that cannot be had."""
        ...


class Settings:
    """The broker settings that the coordinator obeys, read at each use because some are dynamic."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    @property
    def session_timeout_ms_min(self) -> int:
        """group.min.session.timeout.ms"""
        return int(self._config["group.min.session.timeout.ms"])

    @property
    def session_timeout_ms_max(self) -> int:
        """group.max.session.timeout.ms"""
        return int(self._config["group.max.session.timeout.ms"])

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms"""
        return int(self._config["group.initial.rebalance.delay.ms"])

    @property
    def max_size(self) -> int:
        """group.max.size"""
        return int(self._config["group.max.size"])

    @property
    def offset_metadata_max_bytes(self) -> int:
        """offset.metadata.max.bytes"""
        return int(self._config["offset.metadata.max.bytes"])

    @property
    def offsets_retention_ms(self) -> int:
        """offsets.retention.minutes in milliseconds"""
        return int(self._config["offsets.retention.minutes"]) * 60_000

    @property
    def retention_check_interval_ms(self) -> int:
        """offsets.retention.check.interval.ms"""
        return int(self._config["offsets.retention.check.interval.ms"])

    @property
    def load_buffer_bytes(self) -> int:
        """offsets.load.buffer.size"""
        return int(self._config["offsets.load.buffer.size"])

    @property
    def commit_timeout_ms(self) -> int:
        """offsets.commit.timeout.ms"""
        return int(self._config["offsets.commit.timeout.ms"])
