"""Positions: what groups commit, what callers look up, what a broker answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pybroker.client.cluster import TopicPartition
from pybroker.client.times import Moment, milliseconds


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read. leader_epoch: of the last record read, -1 unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions of which some are only an offset."""
    return {
        where: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for where, offset in offsets.items()
    }


class OffsetAndTimestamp(NamedTuple):
    """A position found by time. timestamp in milliseconds, -1 where the question had none."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """What `list_offsets` looks for: `earliest()`, `latest()`, `max_timestamp()`, `for_timestamp(moment)`."""

    timestamp: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The first record still there."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Where the next record will be."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The record with the largest timestamp (KIP-734)."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, moment: Moment) -> OffsetSpec:
        """The first record of that time (milliseconds or a datetime) or later."""
        return cls(milliseconds(moment))
