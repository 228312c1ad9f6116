"""The partition of the offsets topic for a group, by Kafka's rule. Clients and tools depend on this rule."""

from __future__ import annotations

import functools

from pybroker.native import java_hash

GROUPS_REMEMBERED_MAX = 16_384
"""Cache size in groups. There is a cache because each heartbeat needs the partition."""
REMEMBERED_CHARACTERS_MAX = 256
"""Limit of characters of an id in the cache. Clients choose the ids, which may have up to 32,767 bytes."""


def partition_for(group_id: str, partitions: int) -> int:
    """Return the group's partition."""
    if len(group_id) > REMEMBERED_CHARACTERS_MAX:
        return _partition_for(group_id, partitions)
    return _remembered(group_id, partitions)


def _partition_for(group_id: str, partitions: int) -> int:
    value = java_hash(group_id.encode("utf-16-be", "surrogatepass"))
    # The absolute value of the smallest integer is 0, as in Kafka's Utils.abs.
    return 0 if value == -(1 << 31) else abs(value) % partitions


_remembered = functools.lru_cache(GROUPS_REMEMBERED_MAX)(_partition_for)
