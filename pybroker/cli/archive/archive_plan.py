"""The offsets of an archive and its division into parts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition
from pybroker.spark.source_errors import TopicChangedError

EMPTY = -2
"""Value for a partition without records, whose start and end are both the log start offset."""


@dataclass(frozen=True)
class ArchiveRequest:
    """The user's arguments. If they are equal, the user runs an interrupted command again."""

    topic_id: str
    start: str | None
    end: str | None

    def __str__(self) -> str:
        bounds = (("--from", self.start), ("--to", self.end))
        return " ".join([self.topic_id, *(f"{name} {text}" for name, text in bounds if text is not None)])


@dataclass(frozen=True)
class ArchivePlan:
    """Offsets `start` to `end` (exclusive) of one topic, in `parts` parts of about the same size."""

    asked: ArchiveRequest
    topic: str
    start: StreamPosition
    end: StreamPosition
    parts: int
    begun_ms: int

    @staticmethod
    def of(
        asked: ArchiveRequest, topic: str, start: StreamPosition, end: StreamPosition, *, part_rows: int, now_ms: int
    ) -> ArchivePlan:
        """Return a plan in which no part has many more than `part_rows` offsets."""
        size = sum(until - (start.get(topic_id, number) or 0) for topic_id, _, number, until in end)
        return ArchivePlan(asked, topic, start, end, max(1, -(-size // part_rows)), now_ms)

    def part(self, number: int, partitions: int) -> tuple[dict[int, int], dict[int, int]]:
        """Return (first offsets, end offsets) of a part, by partition, for all current partitions of the topic."""
        topic = self.end.topics.get(self.asked.topic_id, TopicPosition(self.topic, {}))
        first: dict[int, int] = dict.fromkeys(range(partitions), EMPTY)
        last = dict(first)
        for partition, until in topic.offsets.items():
            begin = self.start.get(self.asked.topic_id, partition) or 0
            low, high = (begin + (until - begin) * edge // self.parts for edge in (number, number + 1))
            if low < high:
                first[partition], last[partition] = low, high
        return first, last

    def to_json(self) -> str:
        return json.dumps(
            {
                "topic_id": self.asked.topic_id,
                "from": self.asked.start,
                "to": self.asked.end,
                "topic": self.topic,
                "start": self.start.to_json(),
                "end": self.end.to_json(),
                "parts": self.parts,
                "begun_ms": self.begun_ms,
            },
            indent=2,
        )

    @staticmethod
    def from_json(text: str) -> ArchivePlan:
        """Parse a plan. Raises ValueError if it is malformed."""
        try:
            found: dict[str, Any] = json.loads(text)
            return ArchivePlan(
                ArchiveRequest(found["topic_id"], found["from"], found["to"]),
                found["topic"],
                StreamPosition.from_json(found["start"]),
                StreamPosition.from_json(found["end"]),
                int(found["parts"]),
                int(found["begun_ms"]),
            )
        except (KeyError, TypeError, TopicChangedError) as error:
            raise ValueError(f"not a valid archive plan: {error!r}") from None


@dataclass(frozen=True)
class WrittenPartition:
    """The records of one partition: first offset, last offset and number."""

    first: int
    last: int
    rows: int

    def __add__(self, other: WrittenPartition) -> WrittenPartition:
        return WrittenPartition(min(self.first, other.first), max(self.last, other.last), self.rows + other.rows)


@dataclass(frozen=True)
class ArchivePart:
    """A written part: its files, and their records by partition."""

    files: tuple[str, ...]
    written: Mapping[int, WrittenPartition]

    def to_json(self) -> str:
        places = {
            str(number): [partition.first, partition.last, partition.rows] for number, partition in self.written.items()
        }
        return json.dumps({"files": self.files, "partitions": places})

    @staticmethod
    def from_json(text: str) -> ArchivePart:
        """Parse a part. Raises ValueError if it is malformed."""
        try:
            found: dict[str, Any] = json.loads(text)
            written = {
                int(number): WrittenPartition(*map(int, partition)) for number, partition in found["partitions"].items()
            }
            return ArchivePart(tuple(found["files"]), written)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a valid archive part: {error!r}") from None
