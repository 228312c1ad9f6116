"""Offset ranges of tasks, and the end of a micro-batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition


@dataclass(frozen=True)
class OffsetRange:
    """Offsets `start` to `end` (exclusive) of a partition."""

    topic_id: str
    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets, an upper bound of the number of records."""
        return self.end - self.start


def split(ranges: list[OffsetRange], min_partitions: int, max_records: int) -> list[OffsetRange]:
    """Split ranges into about `min_partitions` parts. No part has more than `max_records` offsets (0: no limit).

    As in Spark's Kafka source, the number of parts of a range depends on its size, and is at least one.
    """
    ranges = [each for each in ranges if each.size > 0]
    total = sum(each.size for each in ranges)
    cut = []
    for each in ranges:
        parts = 1
        if len(ranges) < min_partitions:
            parts = max(1, round(each.size / total * min_partitions))
        if max_records:
            parts = max(parts, -(-each.size // max_records))
        parts = min(parts, each.size)
        edges = [each.start + each.size * number // parts for number in range(parts + 1)]
        cut += [
            OffsetRange(each.topic_id, each.topic, each.partition, edges[number], edges[number + 1])
            for number in range(parts)
        ]
    return cut


def limited(start: StreamPosition, latest: StreamPosition, rows_max: int) -> StreamPosition:
    """Return the end of a micro-batch of about `rows_max` offsets, which are divided between the partitions in
    proportion to their lag.

    As in Spark's Kafka source, a partition with records gets at least one offset.
    """
    lag = {(topic, partition): at - (start.get(topic, partition) or 0) for topic, _, partition, at in latest}
    total = sum(size for size in lag.values() if size > 0)
    if total <= rows_max:
        return latest
    ends: dict[str, dict[int, int]] = {}
    for topic, _, partition, at in latest:
        begin = start.get(topic, partition) or 0
        size = lag[topic, partition]
        share = max(1, size * rows_max // total) if size > 0 else 0
        ends.setdefault(topic, {})[partition] = min(at, begin + share)
    topics = {topic: TopicPosition(latest.topics[topic].name, places) for topic, places in ends.items()}
    return StreamPosition(latest.cluster, topics)


def lag_of(start: StreamPosition, latest: StreamPosition) -> int:
    """Return the number of offsets between both positions."""
    return sum(max(0, at - (start.get(topic, partition) or 0)) for topic, _, partition, at in latest)


def offsets_behind(position: StreamPosition, latest: StreamPosition) -> dict[str, float]:
    """Return the lag of `position` in the partitions of `latest`. The names are those of Spark's Kafka source, and the
    sum in addition.
    """
    lag = [max(0, at - (position.get(topic, partition) or 0)) for topic, _, partition, at in latest]
    return {
        "offsetsBehindLatest": sum(lag),
        "minOffsetsBehindLatest": min(lag, default=0),
        "maxOffsetsBehindLatest": max(lag, default=0),
        "avgOffsetsBehindLatest": sum(lag) / len(lag) if lag else 0.0,
    }


def capped(position: StreamPosition, target: StreamPosition) -> StreamPosition:
    """Return `position` limited to `target`: no higher offsets, and no topics or partitions that are not in `target`.
    """
    topics: dict[str, TopicPosition] = {}
    for topic_id, topic in position.topics.items():
        inside: Mapping[int, int] = {
            number: min(at, limit)
            for number, at in topic.offsets.items()
            if (limit := target.get(topic_id, number)) is not None
        }
        if inside:
            topics[topic_id] = TopicPosition(topic.name, inside)
    return StreamPosition(position.cluster, topics)
