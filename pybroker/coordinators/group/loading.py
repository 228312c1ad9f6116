"""Reads one offsets partition from start to end and works out what is alive in it. Runs in a worker thread, off
the loop.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pybroker.coordinators.group.bytes_reader import Malformed
from pybroker.coordinators.group.offsets import CommittedOffset
from pybroker.coordinators.group.ports import Reads, Topics
from pybroker.coordinators.group.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from pybroker.coordinators.group.shard import Shard, group_of_value
from pybroker.native import Uuid

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Loaded:
    """The last value of every key."""

    offsets: dict[OffsetKey, tuple[int, OffsetValue]] = field(default_factory=dict)
    """Key → (offset of its record, value)."""
    groups: dict[str, GroupValue] = field(default_factory=dict)
    records: int = 0
    damaged: int = 0
    """Records that could not be read; passed over."""


def read_partition(reads: Reads, topic_id: Uuid, partition: int, buffer_bytes: int) -> Loaded:
    """All records of the partition. Blocking. Raises NativeError if the log cannot be read."""
    loaded = Loaded()
    offset = 0
    while True:
        read = reads.read_records(topic_id, partition, offset, buffer_bytes)
        for record in read.records:
            replay(loaded, record.offset, record.key, record.value)
        if read.next_offset <= offset:
            return loaded
        offset = read.next_offset


def replay(loaded: Loaded, at: int, key: bytes | None, value: bytes | None) -> None:
    """Takes one record; without a value it buries its key."""
    loaded.records += 1
    if key is None:
        loaded.damaged += 1
        return
    try:
        parsed = decode_key(key)
        if isinstance(parsed, OffsetKey):
            if value is None:
                loaded.offsets.pop(parsed, None)
            else:
                loaded.offsets[parsed] = (at, decode_offset_value(value))
        elif isinstance(parsed, GroupKey):
            if value is None:
                loaded.groups.pop(parsed.group, None)
            else:
                loaded.groups[parsed.group] = decode_group_value(value)
    except Malformed as problem:
        loaded.damaged += 1
        log.warning("record %d of the offsets topic is passed over: %s", at, problem)


def install(shard: Shard, loaded: Loaded, topics: Topics) -> None:
    """Fills a shard on the loop's thread. Offsets of incarnations that are gone stay hidden.

    They are not buried here: that a topic is not known is no proof that it was deleted, and a commit to a new
    incarnation of the name replaces the record anyway.
    """
    hidden = 0
    for key, (at, value) in loaded.offsets.items():
        # Kafka's values before version 4 have no id; they belong to whatever the name means now.
        topic_id = value.topic_id if value.topic_id is not None else topics.topic_id(key.topic)
        if topic_id is None or topics.topic_name(topic_id) is None:
            hidden += 1
            continue
        shard.offsets.put(key.group, topic_id, key.topic, key.partition, CommittedOffset.stored(value, at))
    for group_id, stored in loaded.groups.items():
        shard.groups[group_id] = group = group_of_value(group_id, stored)
        group.formed_at = shard.removals_before
    for group_id in shard.offsets.groups():
        shard.ensure_group(group_id)
    for group in shard.groups.values():
        shard.rounds.resume(group)
    if loaded.records:
        log.info(
            "offsets partition %d: %d records, %d groups, %d offsets (%d of topics that are gone, %d damaged records)",
            shard.partition,
            loaded.records,
            len(shard.groups),
            len(loaded.offsets),
            hidden,
            loaded.damaged,
        )
