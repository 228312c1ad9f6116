"""Streaming reads: positions by topic id, read limits, and lag for monitoring."""

from __future__ import annotations

import logging
import math
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

from pybroker.native import NativeError
from pybroker.spark import fencing, read_bounds
from pybroker.spark.batch_reader import RangePartition, TaskReader
from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition
from pybroker.spark.cluster_requests import SparkCluster, SparkTopic
from pybroker.spark.offset_ranges import capped, lag_of, limited, offsets_behind, split
from pybroker.spark.planned_batch import PlannedBatch
from pybroker.spark.source_errors import SparkSourceError
from pybroker.spark.source_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
NAME = "pybroker"
"""Name of the data source, in `format(…)` and in a query's progress."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("pybroker")`. The driver has one object per query; tasks get a pickled copy."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._task = TaskReader(options.client, schema, fail_on_data_loss=options.fail_on_data_loss)
        self._made: SparkCluster | None = None
        self._target: StreamPosition | None = None
        self._planned: StreamPosition | None = None
        # As in Spark's Kafka source, the first micro-batch does not wait for more rows.
        self._triggered_s = -math.inf
        self._warned: set[str] = set()
        self._committed: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Connections cannot be pickled.
        return {**self.__dict__, "_made": None}

    @property
    def _cluster(self) -> SparkCluster:
        if self._made is None:
            self._made = SparkCluster(self._options.client, waits=True)
        return self._made

    def initialOffset(self) -> dict[str, Any]:
        options = self._options
        topics = self._cluster.subscribed(options.subscription)
        return read_bounds.resolve(
            self._cluster,
            topics,
            options.subscription,
            options.start,
            latest_if_none=options.latest_if_no_timestamp,
        ).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        rows_max = self._options.max_offsets_per_trigger
        return ReadMaxRows(rows_max) if rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        carried, begin, latest = self._compare(StreamPosition.from_json(start))
        # Spark calls `commit` for the last micro-batch only when new rows arrive. All rows before `start` have been
        # processed.
        self.commit(start)
        if self._target is not None:
            latest = _not_before(begin, capped(latest, self._target))
        elif self._too_little(begin, latest, limit):
            self._planned = begin
            return start
        if isinstance(limit, ReadMaxRows):
            latest = limited(begin, latest, limit.max_rows)
        self._triggered_s = time.monotonic()
        # Keep deleted topics of the checkpoint, and its offsets beyond the target.
        self._planned = latest.filled(carried)
        return self._planned.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the source's `latestOffset` for the query's progress.

        Spark 4.2 accepts neither `description` nor `metrics` from Python sources, so this result contains both. The
        metrics have the names of Spark's Kafka source, and describe the micro-batch that was planned last.
        """
        ends = self._ends()
        behind = {} if self._planned is None else {"metrics": offsets_behind(self._planned, ends)}
        return {"source": NAME, **ends.to_json(), **behind}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, until = StreamPosition.from_json(start), StreamPosition.from_json(end)
        fencing.check_cluster(until, self._cluster.id)
        options = self._options
        ranges = PlannedBatch(self._cluster, options, begin, until).ranges()
        cut = split(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(each, until.cluster) for each in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        group_id = self._options.group_id
        if group_id is None or end == self._committed:
            return
        self._committed = end
        position = StreamPosition.from_json(end)
        try:
            # OffsetCommit uses topic names, so commit only for topics that still have their name.
            here = self._cluster.topics_with_ids(position.topics)
            offsets = {topic.name: position.topics[topic.id].offsets for topic in here.values()}
            if offsets:
                self._cluster.commit_offsets(group_id, offsets)
        except (NativeError, SparkSourceError) as error:
            # The failure is harmless, because the query never reads these offsets. They only show the group's lag.
            self._warn_once("groupId", f"groupId={group_id}: offset commit failed: {error}")

    def stop(self) -> None:
        self._made = None

    # ---- parts

    def _warn_once(self, what: str, text: str) -> None:
        """Log a warning once for each `what`."""
        if what not in self._warned:
            self._warned.add(what)
            log.warning("%s", text)

    def _wanted(self, topics: list[SparkTopic], offsets: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the offsets of subscribed partitions."""
        subscription = self._options.subscription
        places = {(topic.id, number) for topic in topics for number in read_bounds.partitions_of(topic, subscription)}
        return {place: at for place, at in offsets.items() if place in places}

    def _ends(self) -> StreamPosition:
        topics, _, last = self._cluster.existing_bounds(self._options.subscription)
        return read_bounds.position_of(self._cluster.id, topics, self._wanted(topics, last))

    def _compare(self, checkpoint: StreamPosition) -> tuple[StreamPosition, StreamPosition, StreamPosition]:
        """Return (the checkpoint carried over to the current topics, the position from which to continue, the end).

        The last two contain only existing topics and partitions, including new ones.
        """
        fencing.check_cluster(checkpoint, self._cluster.id)
        topics, first, last = self._cluster.existing_bounds(self._options.subscription)
        rules = fencing.Rules(self._options.on_topic_recreated, self._options.fail_on_data_loss, first, last)
        carried = rules.carried_over(self._still_subscribed(checkpoint, topics), topics)
        latest = read_bounds.position_of(self._cluster.id, topics, self._wanted(topics, last))
        for topic_id, topic in carried.topics.items():
            if topic_id not in latest.topics:
                self._warn_once(
                    topic_id, f"topic {topic.name} with id {topic_id} was deleted; the query continues without it"
                )
        return carried, _with_new(carried, latest, first), latest

    def _still_subscribed(self, checkpoint: StreamPosition, topics: list[SparkTopic]) -> StreamPosition:
        """Return the checkpoint without topics and partitions that are no longer subscribed."""
        subscription = self._options.subscription
        ids, names = {topic.id for topic in topics}, {topic.name for topic in topics}
        places = {}
        for topic_id, topic in checkpoint.topics.items():
            if topic_id in ids or topic.name in names or subscription.covers(topic_id, topic.name):
                places[topic_id] = subscription.assigned.get(topic.name) or tuple(topic.offsets)
            dropped = {number: at for number, at in topic.offsets.items() if number not in places.get(topic_id, ())}
            if dropped:
                self._warn_once(
                    f"dropped {topic_id}",
                    (
                        f"topic {topic.name} with id {topic_id} is no longer subscribed; its position was removed "
                        f"from the checkpoint, offsets by partition: {dropped}"
                    ),
                )
        return checkpoint.only(places)

    def _too_little(self, start: StreamPosition, latest: StreamPosition, limit: ReadLimit) -> bool:
        least = self._options.min_offsets_per_trigger
        if not least or not isinstance(limit, ReadMaxRows | ReadAllAvailable):
            return False
        waited = time.monotonic() - self._triggered_s
        return lag_of(start, latest) < least and waited < self._options.max_trigger_delay_s


def _with_new(carried: StreamPosition, latest: StreamPosition, first: dict[tuple[str, int], int]) -> StreamPosition:
    """Start new partitions and topics at the log start, as Spark's source does."""
    topics: dict[str, TopicPosition] = {}
    for topic_id, topic in latest.topics.items():
        offsets = {}
        for number in topic.offsets:
            known = carried.get(topic_id, number)
            offsets[number] = first[topic_id, number] if known is None else known
        topics[topic_id] = TopicPosition(topic.name, offsets)
    return StreamPosition(carried.cluster, topics)


def _not_before(start: StreamPosition, end: StreamPosition) -> StreamPosition:
    """Return the end of an `availableNow` run, but no position before the run's start."""
    topics = {
        topic_id: TopicPosition(
            topic.name,
            {number: max(at, start.get(topic_id, number) or 0) for number, at in topic.offsets.items()},
        )
        for topic_id, topic in end.topics.items()
    }
    return StreamPosition(end.cluster, topics)
