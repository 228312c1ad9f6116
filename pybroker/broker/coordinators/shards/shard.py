"""One shard of a coordinator: the state of all keys that hash to one partition of its internal topic. The shard also
writes to this partition.

A shard exists as long as this broker leads the partition in one leader epoch. The leader of the next epoch rebuilds the
state from the log.
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
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """The log cannot be read; the coordinator loads the partition again after a delay."""


class Replay(Protocol):
    """Applies the records of a partition in order, in a worker thread, and keeps the latest record of each key."""

    def take(self, record: StoredRecord) -> None:
        """Apply one record or transaction marker; a tombstone removes its key. Count and skip an undecodable record."""
        ...


R = TypeVar("R", bound=Replay)


class Shard(ABC, Generic[R]):
    """The interface between `Shards` and a shard; each coordinator has its own subclass."""

    def __init__(self, log: ShardLog) -> None:
        self.log = log
        self.state = ShardState.LOADING

    @property
    def partition(self) -> int:
        """The partition of the internal topic."""
        return self.log.partition

    def check_active(self) -> None:
        """Raise KafkaError unless the shard is active."""
        if self.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is ShardState.FAILED:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    @abstractmethod
    def replay(self) -> R:
        """Return an object that replays the partition's records."""

    @abstractmethod
    def install(self, loaded: R) -> None:
        """Install the replayed state, before the shard gets requests. Runs on the event loop's thread."""

    @abstractmethod
    def give_up(self, error: ErrorCode) -> None:
        """End the shard, because leadership is lost or the broker stops. Waiting clients get `error`, and timers stop.
        """
