"""What a member says of records, and how the wire has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from pybroker.native import Uuid

GAP = 0
"""There is no record at an offset that was given: it was compacted away."""
RENEW = 4
"""The record is needed for longer (KIP-1222)."""

Partition = tuple[Uuid, int]
Said = dict[Partition, dict[int, int]]
"""Partition → offset → what is said of it."""


class AcknowledgeType(IntEnum):
    """What became of a record."""

    ACCEPT = 1
    """It is done."""
    RELEASE = 2
    """Somebody is to be given it again."""
    REJECT = 3
    """Nobody is to be given it any more."""


def batches(said: Mapping[int, int], make: Any) -> list[Any]:
    """Offsets in a row as one `make(first_offset, last_offset, acknowledge_types)`, with one type where it is the same
    for all."""
    rows: list[tuple[int, list[int]]] = []
    for offset in sorted(said):
        if rows and rows[-1][0] + len(rows[-1][1]) == offset:
            rows[-1][1].append(said[offset])
        else:
            rows.append((offset, [said[offset]]))
    return [
        make(
            first_offset=first,
            last_offset=first + len(types) - 1,
            acknowledge_types=types[:1] if len(set(types)) == 1 else types,
        )
        for first, types in rows
    ]


def by_topic(partitions: Iterable[Partition]) -> dict[Uuid, list[int]]:
    """Topic → indexes."""
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, []).append(index)
    return found
