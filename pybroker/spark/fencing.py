"""Comparison of a checkpoint with the current topics. Pure: takes positions and bounds, returns the position from which
to continue, or raises.

The outcomes of each event, with `onTopicRecreated` (fail, earliest, continue) and `failOnDataLoss`:

- another cluster: the query fails.
- topic deleted: by `failOnDataLoss`, the query fails or continues with the other topics. After an undelete it continues
  at the topic's last offset.
- topic re-created: `fail`: the query fails; `earliest`: it reads the new topic from its start; `continue`: it continues
  at the same offsets, if the new topic has them all.
- topic truncated, so that it ends before the checkpoint: `fail` and `continue`: the query fails; `earliest`: it reads
  the partition from its start.
- records deleted by retention: by `failOnDataLoss`, the query fails or continues at the log start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition
from pybroker.spark.cluster_requests import SparkTopic
from pybroker.spark.source_errors import DataLossError, TopicChangedError

Offsets = Mapping[tuple[str, int], int]


def check_cluster(checkpoint: StreamPosition, cluster_id: str) -> None:
    """Raise TopicChangedError if the checkpoint belongs to another cluster."""
    if checkpoint.cluster != cluster_id:
        raise TopicChangedError(
            f"the checkpoint belongs to cluster {checkpoint.cluster}, but the brokers are of cluster {cluster_id}; "
            "point kafka.bootstrap.servers to the right cluster, or start with a new checkpoint"
        )


def gone(checkpoint: StreamPosition, topics: Iterable[SparkTopic]) -> dict[str, SparkTopic | None]:
    """Return the checkpoint's topic ids that no longer exist. With each id, return the topic that has its name now."""
    here = {topic.id for topic in topics}
    by_name = {topic.name: topic for topic in topics}
    return {topic_id: by_name.get(topic.name) for topic_id, topic in checkpoint.topics.items() if topic_id not in here}


@dataclass(frozen=True)
class Rules:
    """The user's rules, and the current log start and end offsets by (topic id, partition)."""

    on_topic_recreated: str
    fail_on_data_loss: bool
    first: Offsets
    last: Offsets

    def carried_over(self, checkpoint: StreamPosition, topics: list[SparkTopic]) -> StreamPosition:
        """Return the position from which to continue. It is the checkpoint, with two changes: re-created topics have
        their new ids if the rules allow it, and deleted topics are unchanged.

        New partitions are not in the result. Raises TopicChangedError, DataLossError.
        """
        missing = gone(checkpoint, topics)
        carried: dict[str, TopicPosition] = {}
        for topic_id, topic in checkpoint.topics.items():
            if topic_id not in missing:
                offsets = {
                    number: self._inside(topic_id, topic.name, number, at) for number, at in topic.offsets.items()
                }
                carried[topic_id] = TopicPosition(topic.name, offsets)
                continue
            successor = missing[topic_id]
            if successor is not None:
                carried[successor.id] = self._recreated(topic_id, topic, successor)
            elif not self.fail_on_data_loss:
                carried[topic_id] = topic
            else:
                raise TopicChangedError(
                    f"topic {topic.name} with id {topic_id} was deleted; run `pybroker topics undelete "
                    f"{topic_id}` to restore it, and the query continues (failOnDataLoss=false reads only the "
                    "other topics until then)"
                )
        return StreamPosition(checkpoint.cluster, carried)

    def _recreated(self, old_id: str, topic: TopicPosition, successor: SparkTopic) -> TopicPosition:
        what = f"topic {topic.name} was re-created: the checkpoint belongs to id {old_id}, the topic has {successor.id}"
        if self.on_topic_recreated == "earliest":
            starts = {number: self.first[successor.id, number] for number in range(successor.partitions)}
            return TopicPosition(topic.name, starts)
        if self.on_topic_recreated == "fail":
            raise TopicChangedError(
                f"{what}, which has different records. Use onTopicRecreated=earliest to read the new topic from "
                "its start, continue to read on at the same offsets, or start with a new checkpoint"
            )
        for number, at in topic.offsets.items():
            place = successor.id, number
            if place not in self.first or not self.first[place] <= at <= self.last[place]:
                holds = f"{self.first[place]} to {self.last[place]}" if place in self.first else "nothing"
                raise TopicChangedError(
                    f"{what}; the query cannot continue: partition {number} contains {holds}, the checkpoint is at {at}"
                )
        return topic

    def _inside(self, topic_id: str, name: str, partition: int, offset: int) -> int:
        place = topic_id, partition
        if place not in self.last:
            raise TopicChangedError(f"topic {name} ({topic_id}) no longer has partition {partition}")
        first, last = self.first[place], self.last[place]
        if offset > last:
            if self.on_topic_recreated == "earliest":
                return first
            raise TopicChangedError(
                f"topic {name} ({topic_id}) was truncated: partition {partition} ends at {last}, the checkpoint "
                f"is at {offset}; use onTopicRecreated=earliest to read it from its start"
            )
        if offset < first and self.fail_on_data_loss:
            raise DataLossError(
                f"topic {name} ({topic_id}) partition {partition}: records at offsets {offset} to {first} were "
                "removed by retention or deletion; use failOnDataLoss=false to continue at the log start"
            )
        return max(offset, first)
