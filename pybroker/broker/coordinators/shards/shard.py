"""One shard of a coordinator: what it knows of the keys that hash to one partition of its internal topic, and the write
side of that partition.

A shard lives as long as this broker leads its partition under one leader epoch. Nothing of it outlives that: the next
leader, or this broker under a later epoch, reads the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Generic, Protocol, TypeVar

from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.errors import KafkaError
from pybroker.native import StoredRecord
from pybroker.protocol.error_codes import ErrorCode


class ShardState(Enum):
    """Whether a shard answers."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log cannot be read; taking the partition over again is the way out."""


class Replay(Protocol):
    """Takes the records of a partition one after the other, in a worker thread, and keeps what is alive in it."""

    def take(self, record: StoredRecord) -> None:
        """One record, or a marker; a record without a value buries its key. What cannot be read is counted and passed
        over."""
        ...


R = TypeVar("R", bound=Replay)


class Shard(ABC, Generic[R]):
    """What `Shards` asks of a shard; each kind of coordinator has its own."""

    def __init__(self, log: ShardLog) -> None:
        self.log = log
        self.state = ShardState.LOADING

    @property
    def partition(self) -> int:
        """Its partition of the internal topic."""
        return self.log.partition

    def check_active(self) -> None:
        """Raises KafkaError while its keys cannot be answered."""
        if self.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is ShardState.FAILED:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    @abstractmethod
    def replay(self) -> R:
        """An empty one, for the partition's records."""

    @abstractmethod
    def install(self, loaded: R) -> None:
        """Takes over what was read; on the loop's thread, before the first request."""

    @abstractmethod
    def give_up(self, error: ErrorCode) -> None:
        """Leadership is lost or the broker stops: whoever waits gets `error`, no timer remains."""
