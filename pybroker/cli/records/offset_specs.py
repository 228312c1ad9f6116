"""Start and end of `consume`: `--from`, `--to`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pybroker.cli import time_formats

if TYPE_CHECKING:
    from pybroker.client import TopicPartition
    from pybroker.client.blocking import Consumer

GRAMMAR = "start, end, an offset, +N (after the start), -N (before the end), @TIME"


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    """A position in each partition. All kinds but "start" and "end" have a `number`; that of "time" is milliseconds."""

    kind: Literal["start", "end", "offset", "after", "before", "time"]
    number: int = 0


def parse(text: str) -> OffsetPosition:
    """Parse the value of `--from` or `--to`. Raises ValueError with the allowed forms."""
    if text in ("start", "beginning", "earliest"):
        return OffsetPosition("start")
    if text in ("end", "latest"):
        return OffsetPosition("end")
    if text.startswith("@"):
        return OffsetPosition("time", _time(text[1:]))
    if re.fullmatch(r"[+-]?\d+", text):
        number = int(text)
        kinds: dict[str, Literal["after", "before"]] = {"+": "after", "-": "before"}
        return OffsetPosition(kinds.get(text[0], "offset"), abs(number))
    raise ValueError(f"{text!r} is not a position; expected {GRAMMAR}")


def _time(text: str) -> int:
    for read in (time_formats.number, time_formats.ago, time_formats.moment):
        if (found := read(text)) is not None:
            return found
    raise ValueError(
        f"@{text} is not a time; expected @ and milliseconds since 1970, a time such as 2026-11-05T10:00 (UTC unless "
        "it has a zone), or a time before now such as -2h (s, m, h, d)"
    )


def offsets(
    consumer: Consumer, partitions: Sequence[TopicPartition], place: OffsetPosition
) -> dict[TopicPartition, int]:
    """Return the offset of the position in each partition, limited to the existing log."""
    starts = consumer.beginning_offsets(partitions)
    ends = consumer.end_offsets(partitions)
    if place.kind == "start":
        return starts
    if place.kind == "end":
        return ends
    if place.kind == "time":
        found = consumer.offsets_for_times(dict.fromkeys(partitions, place.number))
        return {
            partition: ends[partition] if (first := found[partition]) is None else first.offset
            for partition in partitions
        }
    at = {each: _base(place, starts[each], ends[each]) for each in partitions}
    return {each: min(max(at[each], starts[each]), ends[each]) for each in partitions}


def _base(place: OffsetPosition, start: int, end: int) -> int:
    if place.kind == "after":
        return start + place.number
    return end - place.number if place.kind == "before" else place.number
