"""The partition of the offsets topic for a group, by Kafka's rule. Clients and tools rely on it."""

from __future__ import annotations

import functools

GROUPS_REMEMBERED_MAX = 16_384
"""Cache size. Hashing reads every character of the id, and each heartbeat needs the partition."""


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, modulo 2**32, signed."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        value = (value * 31 + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@functools.lru_cache(GROUPS_REMEMBERED_MAX)
def partition_for(group_id: str, partitions: int) -> int:
    """Return the group's partition. The absolute value of the smallest integer is 0, as in Kafka's Utils.abs."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions
