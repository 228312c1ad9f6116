"""Which offsets an archive has, and in which parts it is written. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pybroker.spark.errors import TopicChangedError
from pybroker.spark.positions import Position, TopicPosition

EMPTY = -2
"""As start and end of a partition: both are the log's start, so nothing lies between them."""


@dataclass(frozen=True)
class Asked:
    """What the user said, by which a command that is run again is known."""

    topic_id: str
    start: str | None
    end: str | None

    def __str__(self) -> str:
        bounds = (("--from", self.start), ("--to", self.end))
        return " ".join([self.topic_id, *(f"{name} {text}" for name, text in bounds if text is not None)])


@dataclass(frozen=True)
class Plan:
    """Offsets `start` to `end` (exclusive) of one topic, in `parts` parts of about the same size."""

    asked: Asked
    topic: str
    start: Position
    end: Position
    parts: int
    begun_ms: int

    @staticmethod
    def of(asked: Asked, topic: str, start: Position, end: Position, *, part_rows: int, now_ms: int) -> Plan:
        """A plan with as many parts as it takes for none to have many more than `part_rows` offsets."""
        size = sum(until - (start.get(topic_id, number) or 0) for topic_id, _, number, until in end)
        return Plan(asked, topic, start, end, max(1, -(-size // part_rows)), now_ms)

    def part(self, number: int, partitions: int) -> tuple[dict[int, int], dict[int, int]]:
        """First offsets and ends of a part by partition, of all that the topic has now."""
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
        """For the folder."""
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
    def from_json(text: str) -> Plan:
        """Raises ValueError for what is no plan."""
        try:
            found: dict[str, Any] = json.loads(text)
            return Plan(
                Asked(found["topic_id"], found["from"], found["to"]),
                found["topic"],
                Position.from_json(found["start"]),
                Position.from_json(found["end"]),
                int(found["parts"]),
                int(found["begun_ms"]),
            )
        except (KeyError, TypeError, TopicChangedError) as error:
            raise ValueError(f"this is no plan of an archive: {error!r}") from None


@dataclass(frozen=True)
class Written:
    """Records of one partition: offsets of the first and the last, and how many."""

    first: int
    last: int
    rows: int

    def __add__(self, other: Written) -> Written:
        return Written(min(self.first, other.first), max(self.last, other.last), self.rows + other.rows)


@dataclass(frozen=True)
class Part:
    """A part that is written: its files, and what they hold by partition."""

    files: tuple[str, ...]
    written: Mapping[int, Written]

    def to_json(self) -> str:
        """For the folder."""
        places = {str(number): [one.first, one.last, one.rows] for number, one in self.written.items()}
        return json.dumps({"files": self.files, "partitions": places})

    @staticmethod
    def from_json(text: str) -> Part:
        """Raises ValueError for what is no part."""
        try:
            found: dict[str, Any] = json.loads(text)
            written = {int(number): Written(*map(int, one)) for number, one in found["partitions"].items()}
            return Part(tuple(found["files"]), written)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"this is no part of an archive: {error!r}") from None
