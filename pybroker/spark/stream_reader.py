"""Streaming reads: positions that know which topic they belong to, limits, and lag that tools can see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pybroker.spark import fencing, starting
from pybroker.spark.cluster import Cluster, Topic
from pybroker.spark.errors import TopicChangedError
from pybroker.spark.options import ReadOptions
from pybroker.spark.plan import OffsetRange, capped, lag_of, limited, split
from pybroker.spark.positions import Position, TopicPosition
from pybroker.spark.reader import RangePartition, TaskReader

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("pybroker")`. One object lives as long as the query runs; tasks get a pickled copy."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._task = TaskReader(options.client, schema, fail_on_data_loss=options.fail_on_data_loss)
        self._made: Cluster | None = None
        self._target: Position | None = None
        self._triggered_s = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        # Connections stay at home.
        return {**self.__dict__, "_made": None}

    @property
    def _cluster(self) -> Cluster:
        if self._made is None:
            self._made = Cluster(self._options.client, waits=True)
        return self._made

    def initialOffset(self) -> dict[str, Any]:
        options = self._options
        topics = self._cluster.subscribed(options.subscription)
        return starting.resolve(
            self._cluster,
            topics,
            options.subscription,
            options.start,
            "startingOffsets",
            latest_if_none=options.latest_if_no_timestamp,
        ).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        rows_max = self._options.max_offsets_per_trigger
        return ReadMaxRows(rows_max) if rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        topics = self._cluster.existing(self._options.subscription)
        _, last = self._bounds(topics)
        self._target = starting.position_of(self._cluster.id, topics, self._wanted(topics, last))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = Position.from_json(start)
        carried, latest = self._compare(before)
        if self._target is not None:
            latest = _not_before(carried, capped(latest, self._target))
        elif self._too_little(carried, latest, limit):
            return start
        if isinstance(limit, ReadMaxRows):
            latest = limited(carried, latest, limit.max_rows)
        self._triggered_s = time.monotonic()
        return latest.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        topics = self._cluster.existing(self._options.subscription)
        _, last = self._bounds(topics)
        return starting.position_of(self._cluster.id, topics, self._wanted(topics, last)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, until = Position.from_json(start), Position.from_json(end)
        fencing.check_cluster(until, self._cluster.id)
        ranges = [
            OffsetRange(topic_id, name, partition, self._begin(begin, until, topic_id, partition), at)
            for topic_id, name, partition, at in until
        ]
        for each in ranges:
            if each.size < 0:
                raise TopicChangedError(
                    f"{each.topic} ({each.topic_id}) partition {each.partition}: a micro-batch from {each.start} back "
                    f"to {each.end}"
                )
        options = self._options
        cut = split(ranges, options.min_partitions, options.max_records_per_partition)
        self._still_there(cut)
        return [RangePartition(each, until.cluster) for each in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        group_id = self._options.group_id
        if group_id is None:
            return
        position = Position.from_json(end)
        self._cluster.commit_offsets(group_id, {topic.name: topic.offsets for topic in position.topics.values()})

    def stop(self) -> None:
        self._made = None

    # ---- parts

    def _wanted(self, topics: list[Topic], offsets: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Offsets of the partitions that are subscribed."""
        subscription = self._options.subscription
        places = {(topic.id, number) for topic in topics for number in starting.partitions_of(topic, subscription)}
        return {place: at for place, at in offsets.items() if place in places}

    def _bounds(self, topics: list[Topic]) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """First offsets and ends, certain to be of these topics: offsets are asked for by name."""
        first, last = self._cluster.bounds(topics)
        here = self._cluster.topics_with_ids([topic.id for topic in topics])
        for topic in topics:
            if topic.id not in here:
                raise TopicChangedError(f"topic {topic.name} ({topic.id}) was deleted just now")
        return first, last

    def _compare(self, checkpoint: Position) -> tuple[Position, Position]:
        """Where reading goes on and how far it could, topics and partitions that are new included."""
        fencing.check_cluster(checkpoint, self._cluster.id)
        topics = self._cluster.existing(self._options.subscription)
        here = {topic.id for topic in topics}
        # Topics of the checkpoint that the subscription does not name any more, or that have moved, are looked at too.
        topics += self._cluster.topics_with_ids(each for each in checkpoint.topics if each not in here).values()
        first, last = self._bounds(topics)
        rules = fencing.Rules(self._options.on_topic_recreated, self._options.fail_on_data_loss, first, last)
        carried = rules.carried_over(checkpoint, topics)
        latest = starting.position_of(self._cluster.id, topics, self._wanted(topics, last))
        return _with_new(carried, latest, first), latest

    def _too_little(self, start: Position, latest: Position, limit: ReadLimit) -> bool:
        least = self._options.min_offsets_per_trigger
        if not least or not isinstance(limit, ReadMaxRows | ReadAllAvailable):
            return False
        waited = time.monotonic() - self._triggered_s
        return lag_of(start, latest) < least and waited < self._options.max_trigger_delay_s

    def _begin(self, start: Position, end: Position, topic_id: str, partition: int) -> int:
        """Where a partition's range begins: in the checkpoint, under the topic's former id, or at the log's start."""
        known = start.get(topic_id, partition)
        if known is not None:
            if not self._options.fail_on_data_loss or self._options.on_topic_recreated == "earliest":
                return self._forgiven(topic_id, partition, known, end)
            return known
        if self._options.on_topic_recreated == "continue":
            former = start.named(end.topics[topic_id].name)
            if former is not None and former not in end.topics:
                known = start.get(former, partition)
                if known is not None:
                    return known
        return self._first(topic_id, partition)

    def _forgiven(self, topic_id: str, partition: int, known: int, end: Position) -> int:
        """The log's start if what the checkpoint names is gone and the options forgive that."""
        until = end.get(topic_id, partition)
        first = self._first(topic_id, partition)
        if until is not None and known > until:
            return first  # truncated, and `earliest` starts over
        return min(max(known, first), until if until is not None else known)

    def _first(self, topic_id: str, partition: int) -> int:
        topic = self._cluster.topics_with_ids([topic_id]).get(topic_id)
        if topic is None:
            raise TopicChangedError(f"topic {topic_id} was deleted before its records were read")
        first, _ = self._bounds([topic])
        return first[topic_id, partition]

    def _still_there(self, ranges: list[OffsetRange]) -> None:
        here = self._cluster.topics_with_ids({each.topic_id for each in ranges})
        for each in ranges:
            if each.topic_id not in here:
                raise TopicChangedError(
                    f"topic {each.topic} with id {each.topic_id} was deleted or re-created before a planned "
                    f"micro-batch was read; `pybroker topics undelete {each.topic_id}` brings it back, or start with a "
                    "new checkpoint"
                )


def _with_new(carried: Position, latest: Position, first: dict[tuple[str, int], int]) -> Position:
    """Partitions and topics that the checkpoint does not have begin at the log's start, as in Spark's source."""
    topics: dict[str, TopicPosition] = {}
    for topic_id, topic in latest.topics.items():
        offsets = {}
        for number in topic.offsets:
            known = carried.get(topic_id, number)
            offsets[number] = first[topic_id, number] if known is None else known
        topics[topic_id] = TopicPosition(topic.name, offsets)
    return Position(carried.cluster, topics)


def _not_before(start: Position, end: Position) -> Position:
    """An `availableNow` run never goes back behind where it starts."""
    topics = {
        topic_id: TopicPosition(
            topic.name,
            {number: max(at, start.get(topic_id, number) or 0) for number, at in topic.offsets.items()},
        )
        for topic_id, topic in end.topics.items()
    }
    return Position(end.cluster, topics)
