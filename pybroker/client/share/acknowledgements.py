"""Acknowledgements of records, and their wire form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from pybroker.native import Uuid

GAP = 0
"""The acquired offset has no record, because compaction has removed it."""
RENEW = 4
"""The member needs the lock on the record for longer (KIP-1222)."""

Partition = tuple[Uuid, int]
Said = dict[Partition, dict[int, int]]
"""Partition → offset → acknowledgement type."""


class AcknowledgeType(IntEnum):
    """A member's acknowledgement of a record."""

    ACCEPT = 1
    """The record is processed."""
    RELEASE = 2
    """The group delivers it again."""
    REJECT = 3
    """The group never delivers it again."""


def batches(said: Mapping[int, int], make: Any) -> list[Any]:
    """Group consecutive offsets into `make(first_offset, last_offset, acknowledge_types)`, with a single type if all
    are equal.
    """
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
    """Return topic id → partition indexes."""
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, []).append(index)
    return found
