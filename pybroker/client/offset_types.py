"""Offsets and points in time: committed by groups, requested by callers, returned by brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pybroker.client.cluster_metadata import TopicPartition

Moment = int | datetime
"""Milliseconds since 1970-01-01 UTC, or a datetime with a time zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: Moment) -> int:
    """Return milliseconds since 1970. Raises ValueError if a datetime has no time zone."""
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; use, for example, datetime.now(UTC)")
    return (moment - _EPOCH) // _MILLISECOND


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the next record to read. leader_epoch: the leader epoch of the last record
    read, -1 if unknown.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets; convert plain integers to OffsetAndMetadata."""
    return {
        where: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for where, offset in offsets.items()
    }


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time. timestamp: milliseconds since 1970, -1 if the lookup was not by time."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """The target of `list_offsets`: `earliest()`, `latest()`, `max_timestamp()`, `for_timestamp(moment)`."""

    timestamp: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The offset of the first record still in the log."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """The offset of the next record to be written."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The record with the largest timestamp (KIP-734)."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, moment: Moment) -> OffsetSpec:
        """The first record at or after a time (milliseconds since 1970 or a datetime)."""
        return cls(milliseconds(moment))
