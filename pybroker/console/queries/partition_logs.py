"""Start and end offsets of partitions, and their size on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from pybroker.client import (
    AdminClient,
    KafkaError,
    OffsetSpec,
    TopicDescription,
    TopicPartition,
)

PARTITIONS_MAX = 5_000
"""Limit of partitions on one page with offsets. A page with more partitions omits the offsets."""


async def ends(admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    """Return the end offsets of the partitions that can be read. Raises KafkaError if no partition can be read."""
    if not partitions or len(partitions) > PARTITIONS_MAX:
        return {}
    futures = admin.list_offsets(dict.fromkeys(partitions, spec)).values()
    answers = await asyncio.gather(*futures.values(), return_exceptions=True)
    found, refusal = {}, None
    for partition, answer in zip(futures, answers, strict=True):
        if isinstance(answer, BaseException):
            if not isinstance(answer, KafkaError):
                raise answer
            refusal = answer
        else:
            found[partition] = answer.offset
    if not found and refusal is not None:
        raise refusal
    return found


async def both_ends(
    admin: AdminClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """Return the first offset and the end offset."""
    first, last = await asyncio.gather(
        ends(admin, partitions, OffsetSpec.earliest()), ends(admin, partitions, OffsetSpec.latest())
    )
    return {each: (first.get(each), last.get(each)) for each in partitions}


def with_leader(topics: Iterable[TopicDescription]) -> list[TopicPartition]:
    """Return the partitions that have a leader, because requests for other partitions would block."""
    return [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    ]


async def replicas_on_disk(
    admin: AdminClient, partitions: Sequence[TopicPartition]
) -> dict[tuple[TopicPartition, int], tuple[int, str]]:
    """Return (partition, broker) → bytes and log directory, without replicas that are moving."""
    if not partitions or len(partitions) > PARTITIONS_MAX:
        return {}
    found = {}
    for broker, dirs in (await admin.describe_log_dirs(partitions=partitions)).items():
        for path, described in dirs.items():
            for partition, replica in described.replicas.items():
                if not replica.is_future:
                    found[partition, broker] = replica.size, path
    return found
