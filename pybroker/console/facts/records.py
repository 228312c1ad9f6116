"""Records of a topic: from where, how many, which; bounded in number, bytes and time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pybroker.client import AdminClient, Consumer, ConsumerRecord, ErrorCode, KafkaError, OffsetSpec, TopicPartition
from pybroker.console.facts.offsets import both_ends, ends

SECONDS_MAX = 8.0
BYTES_MAX = 32 << 20
SCANNED_MAX = 20_000
"""Records that are looked at for a text."""
POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class Wanted:
    """seek: newest, oldest, offset or time; number: that offset, or milliseconds since 1970. contains: in the key or
    the value, as UTF-8.
    """

    partitions: tuple[TopicPartition, ...]
    seek: str
    number: int = 0
    limit: int = 50
    contains: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """records: in the order of time, of newest the last ones first. scanned: how many were
    looked at. stopped: why not all of them, if so.
    """

    records: tuple[ConsumerRecord, ...]
    scanned: int
    stopped: str | None = None


async def find(admin: AdminClient, consumer: Consumer, wanted: Wanted) -> Found:
    """Reads up to where the partitions end now."""
    known = await both_ends(admin, wanted.partitions)
    between = {where: (first, last) for where, (first, last) in known.items() if first is not None and last is not None}
    begins = await _begins(admin, wanted, between)
    todo = {where: (begin, between[where][1]) for where, begin in begins.items() if begin < between[where][1]}
    if not todo:
        return Found((), 0)
    return await _read(consumer, todo, wanted)


async def _begins(
    admin: AdminClient, wanted: Wanted, between: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    if wanted.seek == "oldest":
        return {where: first for where, (first, _) in between.items()}
    if wanted.seek == "offset":
        return {where: min(max(wanted.number, first), last) for where, (first, last) in between.items()}
    if wanted.seek == "time":
        found = await ends(admin, list(between), OffsetSpec.for_timestamp(wanted.number))
        return {where: found[where] if found.get(where, -1) >= 0 else last for where, (_, last) in between.items()}
    back = max(SCANNED_MAX // max(len(between), 1), 1) if wanted.contains else wanted.limit
    return {where: max(first, last - back) for where, (first, last) in between.items()}


async def _read(
    consumer: Consumer, todo: dict[TopicPartition, tuple[int, int]], wanted: Wanted
) -> Found:
    consumer.assign(todo)
    for where, (begin, _) in todo.items():
        consumer.seek(where, begin)
    give_up = time.monotonic() + SECONDS_MAX
    newest = wanted.seek == "newest"
    needle = wanted.contains.encode()
    kept: list[ConsumerRecord] = []
    # Of each partition, so that all of them are there when they are put into the order of time.
    counts = dict.fromkeys(todo, 0)
    scanned = used = 0
    stopped = None
    left = set(todo)
    while left:
        for record in await consumer.poll(POLL_S):
            where = TopicPartition(record.topic, record.partition)
            if record.offset >= todo[where][1]:
                continue
            scanned += 1
            if matches(record, needle):
                kept.append(record)
                counts[where] += 1
                used += size(record)
            if newest and used > BYTES_MAX:
                # The first ones of a partition are not the newest.
                used -= size(kept.pop(0))
                stopped = f"More than {BYTES_MAX >> 20} MiB: the oldest of these are left out."
        done = {
            where
            for where in left
            if (not newest and counts[where] >= wanted.limit) or await consumer.position(where) >= todo[where][1]
        }
        consumer.pause(*done)
        left -= done
        if not newest and used > BYTES_MAX and left:
            stopped = f"Stopped after {BYTES_MAX >> 20} MiB; further records were not looked at."
            break
        if scanned >= SCANNED_MAX and left:
            stopped = f"Looked at {scanned:,} records; further ones were not looked at."
            break
        if time.monotonic() > give_up and left:
            stopped = f"Stopped after {SECONDS_MAX:.0f} seconds; looked at {scanned:,} records."
            break
    kept.sort(key=lambda each: (each.timestamp, each.partition, each.offset), reverse=newest)
    return Found(tuple(kept[: wanted.limit]), scanned, stopped)


def matches(record: ConsumerRecord, needle: bytes) -> bool:
    """Whether key or value has these bytes."""
    return not needle or needle in (record.value or b"") or needle in (record.key or b"")


def size(record: ConsumerRecord) -> int:
    """Bytes that it holds."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


async def one(consumer: Consumer, where: TopicPartition, offset: int) -> ConsumerRecord | None:
    """The record at exactly that offset; None if there is none. consumer: with auto.offset.reset=none."""
    consumer.assign([where])
    consumer.seek(where, offset)
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
    """When the first record at each position, or behind it, was written: milliseconds since 1970; without those that
    nobody could read in time."""
    consumer.assign(positions)
    for where, offset in positions.items():
        consumer.seek(where, offset)
    found: dict[TopicPartition, int] = {}
    give_up = time.monotonic() + seconds
    while len(found) < len(positions) and time.monotonic() < give_up:
        for where, records in (await consumer.getmany(POLL_S)).items():
            if records and where not in found:
                found[where] = records[0].timestamp
                consumer.pause(where)
    return found


def all_partitions(topic: str, partitions: Sequence[int], only: int | None) -> tuple[TopicPartition, ...]:
    """Of a topic, all or one."""
    return tuple(TopicPartition(topic, each) for each in partitions if only is None or each == only)
