"""Responses to clients during a run. Threads append; the checker reads after they have ended."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """A partition of one incarnation of a topic: `topic_id` in hexadecimal digits."""

    topic_id: str
    partition: int


class Acknowledged(NamedTuple):
    """An acknowledged record; offset -1: the acknowledgement had no offset."""

    offset: int
    value: str
    sent_at: float
    answered_at: float


class Delivered(NamedTuple):
    """A record that a consumer received."""

    offset: int
    value: str


@dataclass
class Session:
    """One consumer's time with one partition, from its assignment to its loss."""

    place: Place
    committed_before: int
    """The highest offset whose commit had been acknowledged before the assignment; -1 if there was none."""
    delivered: list[Delivered] = field(default_factory=list)


@dataclass
class History:
    """The history of one run. Values are unique: `WRITER/NUMBER`, with ascending numbers for each writer and partition.
    The values of topics that come and go start with the topic's id."""

    topics: dict[str, str] = field(default_factory=dict)
    """Name → topic id, in hexadecimal digits, of the topics that stay."""
    acknowledged: dict[Place, list[Acknowledged]] = field(default_factory=lambda: defaultdict(list))
    sessions: list[Session] = field(default_factory=list)
    keys: dict[tuple[Place, str], int] = field(default_factory=dict)
    """For compacted topics: the last acknowledged number of each key."""
    lives: dict[str, str] = field(default_factory=dict)
    """All incarnations of topics that come and go: names by id."""
    deleted: set[str] = field(default_factory=set)
    """The topic ids among them whose deletion was acknowledged."""
    problems: list[str] = field(default_factory=list)
    """Failures of clients that must never fail."""
    counts: Counter[str] = field(default_factory=Counter)
    """Counts of events."""

    def acknowledge(self, place: Place, offset: int, value: str, sent_at: float) -> None:
        """Record that the cluster has just acknowledged the record, which was sent at `time.monotonic()`."""
        self.acknowledged[place].append(Acknowledged(offset, value, sent_at, time.monotonic()))
        self.counts["acknowledged"] += 1
