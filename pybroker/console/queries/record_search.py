"""Search for records of a topic, with limits for number, bytes and time."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pybroker.client import AdminClient, Consumer, ConsumerRecord, ErrorCode, KafkaError, OffsetSpec, TopicPartition
from pybroker.console.queries.partition_logs import both_ends, ends

SECONDS_MAX = 8.0
BYTES_MAX = 32 << 20
SCANNED_MAX = 20_000
"""Limit of offsets that one page searches."""
CHUNK = 4_000
"""Number of offsets that are read at a time. Chunks are read backwards from the end, so that the newest matches come
first."""
POLL_S = 0.3

Offsets = Mapping[TopicPartition, int]
"""Partition → the offset at which a page begins or ends."""


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """seek: newest, oldest, offset or time; number: the offset, or milliseconds since 1970. contains: text in key or
    value, as UTF-8. before, after: continue from these offsets instead, towards older or newer records.
    """

    partitions: tuple[TopicPartition, ...]
    seek: str
    number: int = 0
    limit: int = 50
    contains: str = ""
    before: Offsets | None = None
    after: Offsets | None = None

    @property
    def is_backwards(self) -> bool:
        """Whether the page is filled from the newest record backwards."""
        return self.before is not None or (self.seek == "newest" and self.after is None)


@dataclass(frozen=True, slots=True)
class RecordPage:
    """records: in time order, or the latest first if the query seeks the newest records. scanned: number of records
    searched. stopped: why the search ended early; None if it did not. older, newer: where the adjacent pages begin;
    None if there are no further records."""

    records: tuple[ConsumerRecord, ...]
    scanned: int
    stopped: str | None = None
    older: Offsets | None = None
    newer: Offsets | None = None


async def find(admin: AdminClient, consumer: Consumer, wanted: RecordQuery) -> RecordPage:
    """Search up to the current end of the partitions."""
    known = await both_ends(admin, wanted.partitions)
    between = {where: (first, last) for where, (first, last) in known.items() if first is not None and last is not None}
    search = _Search(consumer, wanted, time.monotonic() + SECONDS_MAX)
    if wanted.is_backwards:
        tops = {
            where: last if wanted.before is None else min(max(wanted.before.get(where, first), first), last)
            for where, (first, last) in between.items()
        }
        bottoms = await search.backwards({where: (between[where][0], top) for where, top in tops.items()})
        chosen = search.chosen(newest_first=True)
        older: Offsets = search.without_rest(bottoms, chosen, newest_first=True)
        newer: Offsets = tops
    else:
        older = await _begins(admin, wanted, between)
        tops = await search.forwards({where: (begin, between[where][1]) for where, begin in older.items()})
        chosen = search.chosen(newest_first=False)
        newer = search.without_rest(tops, chosen, newest_first=False)
    if wanted.is_backwards is not (wanted.seek == "newest"):
        chosen.reverse()
    return RecordPage(
        tuple(chosen),
        search.scanned,
        search.stopped,
        older if any(offset > between[where][0] for where, offset in older.items()) else None,
        newer if any(offset < between[where][1] for where, offset in newer.items()) else None,
    )


async def _begins(
    admin: AdminClient, wanted: RecordQuery, between: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    after = wanted.after
    if after is not None:
        return {where: min(max(after.get(where, first), first), last) for where, (first, last) in between.items()}
    if wanted.seek == "offset":
        return {where: min(max(wanted.number, first), last) for where, (first, last) in between.items()}
    if wanted.seek == "time":
        found = await ends(admin, list(between), OffsetSpec.for_timestamp(wanted.number))
        return {where: found[where] if found.get(where, -1) >= 0 else last for where, (_, last) in between.items()}
    return {where: first for where, (first, _) in between.items()}


@dataclass
class _Search:
    """The search for one page: the records read and kept so far."""

    consumer: Consumer
    wanted: RecordQuery
    give_up: float
    kept: dict[TopicPartition, list[ConsumerRecord]] = field(default_factory=dict)
    left_out: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition → the newest of its records that were dropped because the page was full."""
    scanned: int = 0
    used: int = 0
    stopped: str | None = None

    async def backwards(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
        """Read backwards from the ends until the page is full. Return the lowest offsets reached."""
        at = {where: top for where, (_, top) in ranges.items()}
        chunk = max(CHUNK // max(len(at), 1), 1) if self.wanted.contains else self.wanted.limit
        covered = 0
        while self.stopped is None and sum(map(len, self.kept.values())) < self.wanted.limit:
            todo = {where: (max(first, at[where] - chunk), at[where]) for where, (first, _) in ranges.items()}
            todo = {where: (begin, end) for where, (begin, end) in todo.items() if begin < end}
            if not todo:
                break
            newer, self.kept = self.kept, {}
            reached = await self._read(todo, limit=None)
            for where, (begin, end) in todo.items():
                if reached[where] >= end:
                    at[where] = begin
                else:
                    self.kept.pop(where, None)
            for where, records in newer.items():
                self.kept.setdefault(where, []).extend(records)
            covered += sum(end - begin for begin, end in todo.values())
            if self.stopped is None and covered >= SCANNED_MAX and any(at[where] > ranges[where][0] for where in at):
                self.stopped = f"Searched {self.scanned:,} records; older ones were not searched."
            if not self.kept:
                chunk = min(chunk * 4, SCANNED_MAX)
        return at

    async def forwards(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
        """Read until each partition has enough records for the page. Return the highest offsets reached."""
        todo = {where: (begin, end) for where, (begin, end) in ranges.items() if begin < end}
        reached = await self._read(todo, limit=self.wanted.limit) if todo else {}
        return {where: min(reached.get(where, begin), end) for where, (begin, end) in ranges.items()}

    async def _read(
        self, todo: Mapping[TopicPartition, tuple[int, int]], limit: int | None
    ) -> dict[TopicPartition, int]:
        consumer, needle, left = self.consumer, self.wanted.contains.encode(), set(todo)
        reached = {where: begin for where, (begin, _) in todo.items()}
        await _start(consumer, reached)
        while left:
            for record in await consumer.poll(POLL_S):
                where = TopicPartition(record.topic, record.partition)
                if record.offset < todo[where][1] and where in left:
                    self.scanned += 1
                    if matches(record, needle):
                        self._keep(where, record, drop=limit is None)
            for where in tuple(left):
                reached[where] = await consumer.position(where)
                if reached[where] >= todo[where][1] or (limit and len(self.kept.get(where, ())) >= limit):
                    left.discard(where)
                    consumer.pause(where)
            if left:
                self._stop(is_whole=limit is None)
                if self.stopped is not None and (limit is not None or time.monotonic() > self.give_up):
                    break
        return reached

    def _keep(self, where: TopicPartition, record: ConsumerRecord, *, drop: bool) -> None:
        records = self.kept.setdefault(where, [])
        records.append(record)
        self.used += size(record)
        while drop and self.used > BYTES_MAX and len(records) > 1:
            # Drop the oldest record of the partition, because the page shows the newest records.
            dropped = records.pop(0)
            self.used -= size(dropped)
            self.left_out[where] = dropped.offset
            self.stopped = f"More than {BYTES_MAX >> 20} MiB: the oldest records are on the next page."

    def _stop(self, *, is_whole: bool) -> None:
        if time.monotonic() > self.give_up:
            self.stopped = f"Stopped after {SECONDS_MAX:.0f} seconds; searched {self.scanned:,} records."
        elif not is_whole and self.used > BYTES_MAX:
            self.stopped = f"Stopped after {BYTES_MAX >> 20} MiB; other records were not searched."
        elif not is_whole and self.scanned >= SCANNED_MAX:
            self.stopped = f"Searched {self.scanned:,} records; others were not searched."

    def chosen(self, *, newest_first: bool) -> list[ConsumerRecord]:
        """Return the records by time. Within a partition they stay in offset order, so that no page skips a record."""
        sign = -1 if newest_first else 1
        lists: Iterable[Iterable[ConsumerRecord]] = (
            reversed(records) if newest_first else records for _, records in sorted(self.kept.items())
        )
        merged = heapq.merge(*lists, key=lambda each: sign * each.timestamp)
        return list(islice(merged, self.wanted.limit))

    def without_rest(self, edges: Offsets, chosen: Sequence[ConsumerRecord], *, newest_first: bool) -> Offsets:
        """Return the edges of the page, moved back to exclude records that were read but are not shown."""
        taken = {(each.partition, each.offset) for each in chosen}
        found = dict(edges)
        for where, records in self.kept.items():
            rest = [each.offset for each in records if (each.partition, each.offset) not in taken]
            if rest:
                found[where] = max(rest) + 1 if newest_first else min(rest)
        for where, offset in self.left_out.items():
            found[where] = max(found[where], offset + 1)
        return found


async def _start(consumer: Consumer, positions: Offsets) -> None:
    """Start to read from these positions, regardless of earlier assignments and pauses."""
    for topic in {where.topic for where in positions}:
        # Load the metadata of the topic first. Otherwise unknown topics would be looked up one after another.
        await consumer.partitions_for(topic)
    consumer.assign(positions)
    consumer.resume(*positions)
    for where, offset in positions.items():
        consumer.seek(where, offset)


def matches(record: ConsumerRecord, needle: bytes) -> bool:
    """Return whether key or value contains these bytes."""
    return not needle or needle in (record.value or b"") or needle in (record.key or b"")


def size(record: ConsumerRecord) -> int:
    """Return the number of bytes that the record holds."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


async def find_record(consumer: Consumer, where: TopicPartition, offset: int) -> ConsumerRecord | None:
    """Return the record at exactly this offset; None if it does not exist. The consumer needs auto.offset.reset=none.
    """
    await _start(consumer, {where: offset})
    give_up = time.monotonic() + SECONDS_MAX
    try:
        while time.monotonic() < give_up:
            for record in await consumer.poll(POLL_S, max_records=1):
                return record if record.offset == offset else None
            if await consumer.position(where) > offset:
                return None
    except KafkaError as error:
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
    return None


async def written_at(
    consumer: Consumer, positions: Mapping[TopicPartition, int], seconds: float
) -> dict[TopicPartition, int]:
    """Return when the first record at or after each position was written, in milliseconds since 1970. Positions whose
    record could not be read within `seconds` are missing."""
    await _start(consumer, positions)
    found: dict[TopicPartition, int] = {}
    give_up = time.monotonic() + seconds
    while len(found) < len(positions) and time.monotonic() < give_up:
        for where, records in (await consumer.getmany(POLL_S)).items():
            if records and where not in found:
                found[where] = records[0].timestamp
                consumer.pause(where)
    return found


def all_partitions(topic: str, partitions: Sequence[int], only: int | None) -> tuple[TopicPartition, ...]:
    """Return all partitions of a topic, or only one of them."""
    return tuple(TopicPartition(topic, each) for each in partitions if only is None or each == only)
