"""One group: members, committed offsets, lag in records and in time, and the preview of an offset reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pybroker.client import AdminClient, Consumer, OffsetSpec, TopicPartition
from pybroker.console.queries.partition_logs import ends, with_leader
from pybroker.console.queries.record_search import written_at
from pybroker.console.queries.topic_rows import descriptions
from pybroker.wall_clock import wall_ms

TIMED_MAX = 100
"""Limit of partitions whose oldest unread record is fetched to find its age."""
TIMED_SECONDS = 3.0
GOALS = ("earliest", "latest", "offset", "shift", "time")


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A partition of the group. committed, end, lag: None if missing or unknown. lag_ms: age of the oldest unread
    record.
    """

    where: TopicPartition
    committed: int | None
    end: int | None
    member: str | None
    lag_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Number of unread records."""
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


async def existing(admin: AdminClient, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that exist and have a leader, because requests for other partitions would block."""
    wanted = set(partitions)
    found = await descriptions(admin, sorted({each.topic for each in wanted}))
    return [each for each in with_leader(found.values()) if each in wanted]


async def positions(admin: AdminClient, group: str, owners: Mapping[TopicPartition, str]) -> list[GroupOffset]:
    """Return all partitions for which the group has committed offsets, and all partitions that are assigned to it."""
    committed = await admin.list_consumer_group_offsets(group)
    everything = sorted(committed.keys() | owners.keys())
    last = await ends(admin, await existing(admin, everything), OffsetSpec.latest())
    return [
        GroupOffset(each, committed[each].offset if each in committed else None, last.get(each), owners.get(each))
        for each in everything
    ]


async def with_time(consumer: Consumer | None, rows: list[GroupOffset]) -> list[GroupOffset]:
    """Add the age of the oldest unread record, for at most TIMED_MAX partitions. consumer: None if there are no unread
    records.
    """
    behind = {row.where: row.committed for row in rows if row.lag and row.committed is not None}
    chosen = dict(sorted(behind.items())[:TIMED_MAX])
    written = await written_at(consumer, chosen, TIMED_SECONDS) if consumer is not None and chosen else {}
    now_ms = wall_ms()

    def lag_ms(row: GroupOffset) -> int | None:
        if row.lag == 0:
            return 0
        since = written.get(row.where)
        return None if since is None else max(now_ms - since, 0)

    return [GroupOffset(row.where, row.committed, row.end, row.member, lag_ms(row)) for row in rows]


async def reset_preview(
    admin: AdminClient, chosen: list[TopicPartition], committed: Mapping[TopicPartition, int], goal: str, number: int
) -> dict[TopicPartition, int]:
    """Return the new offsets, limited to the existing offsets. A partition without a committed offset cannot be
    shifted, and is omitted.
    """
    there = await existing(admin, chosen)
    first = await ends(admin, there, OffsetSpec.earliest())
    last = await ends(admin, there, OffsetSpec.latest())
    known = [each for each in there if each in first and each in last]
    if goal == "earliest":
        return {each: first[each] for each in known}
    if goal == "latest":
        return {each: last[each] for each in known}
    if goal == "time":
        found = await ends(admin, known, OffsetSpec.for_timestamp(number))
        return {each: found[each] if found.get(each, -1) >= 0 else last[each] for each in known}
    if goal == "shift":
        known = [each for each in known if each in committed]
        wanted = {each: committed[each] + number for each in known}
    else:
        wanted = dict.fromkeys(known, number)
    return {each: min(max(wanted[each], first[each]), last[each]) for each in known}
