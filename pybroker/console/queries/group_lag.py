"""Groups and their lag."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pybroker.client import AdminClient, ErrorCode, KafkaError, OffsetSpec, TopicPartition
from pybroker.console.queries.group_positions import existing
from pybroker.console.queries.partition_logs import ends

GROUPS_MAX = 500
"""Limit of groups whose offsets one page reads."""
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class GroupAtTopic:
    """A group's offsets in one topic. lag: None if unknown."""

    group: str
    state: str
    type: str
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupsAtTopic:
    """The groups of a topic. cut: number of groups whose offsets were not read."""

    rows: tuple[GroupAtTopic, ...]
    cut: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group's total lag. positions, records: None if not known. unknown: number of partitions that are not counted.
    """

    group: str
    positions: int | None = None
    records: int | None = None
    unknown: int = 0


async def lags_of(admin: AdminClient, groups: Sequence[str]) -> dict[str, GroupLag]:
    """Return the lag of groups over all of their topics."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def committed(group: str) -> dict[TopicPartition, int] | None:
        async with gate:
            try:
                found = await admin.list_consumer_group_offsets(group)
            except KafkaError as error:
                if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                    return None
                raise
        return {where: each.offset for where, each in found.items()}

    found = dict(zip(groups, await asyncio.gather(*map(committed, groups)), strict=True))
    there = await existing(admin, (where for each in found.values() for where in each or ()))
    last = await ends(admin, there, OffsetSpec.latest())

    def lag(group: str, at: dict[TopicPartition, int] | None) -> GroupLag:
        if at is None:
            return GroupLag(group)
        known = {where: offset for where, offset in at.items() if where in last}
        records = total_lag(known, last) if known or not at else None
        return GroupLag(group, len(at), records, len(at) - len(known))

    return {group: lag(group, at) for group, at in found.items()}


async def groups_of(admin: AdminClient, partitions: Sequence[TopicPartition]) -> GroupsAtTopic:
    """Return the groups with committed offsets in these partitions."""
    listed = [each for each in await admin.list_groups() if each.protocol_type in ("consumer", "")]
    listed.sort(key=lambda each: each.group_id)
    last = await ends(admin, partitions, OffsetSpec.latest())
    gate = asyncio.Semaphore(AT_ONCE)

    async def positions(group: str) -> dict[TopicPartition, int]:
        async with gate:
            found = await admin.list_consumer_group_offsets(group, partitions)
        return {where: at.offset for where, at in found.items()}

    chosen = listed[:GROUPS_MAX] if partitions else []
    found = await asyncio.gather(*(positions(each.group_id) for each in chosen))
    rows = [
        GroupAtTopic(each.group_id, each.state, each.type, len(at), total_lag(at, last))
        for each, at in zip(chosen, found, strict=True)
        if at
    ]
    return GroupsAtTopic(tuple(rows), max(len(listed) - GROUPS_MAX, 0))


def total_lag(committed: dict[TopicPartition, int], last: dict[TopicPartition, int]) -> int | None:
    """Return the number of unread records."""
    if any(where not in last for where in committed):
        return None
    return sum(max(last[where] - at, 0) for where, at in committed.items())
