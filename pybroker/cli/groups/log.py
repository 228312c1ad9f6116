"""Offsets of partitions' logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.client import AdminClient, OffsetSpec, TopicPartition


async def offsets(
    admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    """Return the offsets; -1 for a time after the last record."""
    if not partitions:
        return {}
    return {each: row.offset for each, row in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items()}
