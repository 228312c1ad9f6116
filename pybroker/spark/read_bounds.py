"""Start and end of a read. This module turns `earliest`, `latest`, times and offsets into offsets of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition
from pybroker.spark.cluster_requests import EARLIEST, LATEST, SparkCluster, SparkTopic
from pybroker.spark.source_errors import DataLossError, OptionError
from pybroker.spark.source_options import ReadOptions
from pybroker.spark.topic_selection import ReadBound, TopicSelection

WORDS = {"earliest": EARLIEST, "latest": LATEST}


def partitions_of(topic: SparkTopic, subscription: TopicSelection) -> tuple[int, ...]:
    """Return the partitions to read: the assigned partitions, or all."""
    return subscription.assigned.get(topic.name) or tuple(range(topic.partitions))


def position_of(cluster: str, topics: Iterable[SparkTopic], offsets: Mapping[tuple[str, int], int]) -> StreamPosition:
    """Return a position with offsets by (topic id, partition)."""
    names = {topic.id: topic.name for topic in topics}
    by_topic: dict[str, dict[int, int]] = {}
    for (topic_id, partition), offset in offsets.items():
        by_topic.setdefault(topic_id, {})[partition] = offset
    return StreamPosition(cluster, {each: TopicPosition(names[each], places) for each, places in by_topic.items()})


def resolve(
    cluster: SparkCluster,
    topics: list[SparkTopic],
    subscription: TopicSelection,
    bound: ReadBound,
    *,
    latest_if_none: bool,
) -> StreamPosition:
    """Return the current offsets of `bound`. latest_if_none: whether a time after the last record means the end of the
    log.

    Raises OptionError for partitions that are not subscribed or not listed, and for times without records.
    """
    places = [(topic, number) for topic in topics for number in partitions_of(topic, subscription)]
    if bound.word or bound.timestamp_ms is not None:
        at = WORDS[bound.word] if bound.word else bound.timestamp_ms
        assert at is not None, "one of both is given"
        asked = [(topic, number, at) for topic, number in places]
    else:
        table = bound.offsets if bound.offsets is not None else bound.timestamps or {}
        asked = _looked_up(places, table, bound.name)
    literal = bound.offsets is not None
    by_number = [each for each in asked if not (literal and each[2] >= 0)]
    found = cluster.offsets(by_number)
    result = {}
    for topic, number, at in asked:
        offset = at if literal and at >= 0 else found[topic.id, number]
        if offset < 0:
            if not latest_if_none:
                raise OptionError(
                    f"{bound.name}: {topic.name} partition {number} has no record at or after time {at}; use "
                    "startingOffsetsByTimestampStrategy=latest to start at the end of such partitions"
                )
            offset = cluster.offsets([(topic, number, LATEST)])[topic.id, number]
        result[topic.id, number] = offset
    return position_of(cluster.id, topics, result)


def _looked_up(
    places: list[tuple[SparkTopic, int]], table: Mapping[str, Mapping[int, int]], name: str
) -> list[tuple[SparkTopic, int, int]]:
    requested = {(topic.id if topic.id in table else topic.name, number): topic for topic, number in places}
    for key, numbers in table.items():
        for number in numbers:
            if (key, number) not in requested:
                raise OptionError(f"{name}: {key} partition {number} has an offset but is not subscribed")
    asked = []
    for (key, number), topic in requested.items():
        number_or_time = table.get(key, {}).get(number)
        if number_or_time is None:
            raise OptionError(f"{name}: {topic.name} partition {number} is subscribed but has no offset")
        asked.append((topic, number, number_or_time))
    return asked


def bounds_of(cluster: SparkCluster, options: ReadOptions) -> tuple[list[SparkTopic], StreamPosition, StreamPosition]:
    """Return the topics of a batch read, its start and its end.

    Raises OptionError, DataLossError, UnknownTopicError, TopicChangedError.
    """
    topics = cluster.subscribed(options.subscription)
    start = resolve(cluster, topics, options.subscription, options.start, latest_if_none=options.latest_if_no_timestamp)
    end = resolve(cluster, topics, options.subscription, options.end, latest_if_none=True)
    return topics, *within_the_log(cluster, topics, start, end, fail_on_data_loss=options.fail_on_data_loss)


def within_the_log(
    cluster: SparkCluster,
    topics: list[SparkTopic],
    start: StreamPosition,
    end: StreamPosition,
    *,
    fail_on_data_loss: bool,
) -> tuple[StreamPosition, StreamPosition]:
    """Limit start and end to the log. If records are missing, raise DataLossError, or skip them (`failOnDataLoss`)."""
    first, last = cluster.bounds(topics)
    starts, ends = {}, {}
    for topic_id, name, partition, offset in start:
        place = topic_id, partition
        until = end.get(topic_id, partition)
        assert until is not None, "both ends were made of the same topics"
        if fail_on_data_loss and (offset < first[place] or max(offset, until) > last[place]):
            raise DataLossError(
                f"{name} ({topic_id}) partition {partition} has offsets {first[place]} to {last[place]}, "
                f"requested are {offset} to {until}; use failOnDataLoss=false to read existing records only"
            )
        starts[place] = min(max(offset, first[place]), last[place])
        ends[place] = max(starts[place], min(until, last[place]))
    return position_of(cluster.id, topics, starts), position_of(cluster.id, topics, ends)
