"""What a planned micro-batch has to read. Spark plans it again after a restart, with the same positions: its topics may
be gone by then, or their first records.
"""

from __future__ import annotations

import logging

from pybroker.spark.cluster import Cluster, Topic
from pybroker.spark.errors import DataLossError, TopicChangedError
from pybroker.spark.options import ReadOptions
from pybroker.spark.plan import OffsetRange
from pybroker.spark.positions import Position, TopicPosition

log = logging.getLogger(__name__)


class Planned:
    """A micro-batch between two positions, and what the user allows."""

    def __init__(self, cluster: Cluster, options: ReadOptions, start: Position, end: Position) -> None:
        self._cluster = cluster
        self._policy = options.on_topic_recreated
        self._fail_on_data_loss = options.fail_on_data_loss
        self._start = start
        self._end = end

    def ranges(self) -> list[OffsetRange]:
        """What is to be read of the topics that are there. Raises TopicChangedError, DataLossError."""
        wanted = {topic_id: self._unread(topic_id) for topic_id in self._end.topics}
        here = self._cluster.topics_with_ids(topic_id for topic_id, unread in wanted.items() if unread)
        found = []
        for topic_id, unread in wanted.items():
            topic = here.get(topic_id)
            if topic is not None:
                found += self._ranges(topic, unread)
            elif unread:
                self._give_up(topic_id, unread)
        return found

    def _unread(self, topic_id: str) -> dict[int, tuple[int | None, int]]:
        """By partition where the micro-batch begins (None: it does not say) and ends, of those with records."""
        return {
            partition: (known, until)
            for partition, until in self._end.topics[topic_id].offsets.items()
            if (known := self._known(topic_id, partition)) != until and until > 0
        }

    def _known(self, topic_id: str, partition: int) -> int | None:
        """In the checkpoint; with `onTopicRecreated=continue` also under the topic's former id."""
        known = self._start.get(topic_id, partition)
        if known is None and self._policy == "continue":
            former = self._start.named(self._end.topics[topic_id].name)
            if former is not None and former not in self._end.topics:
                known = self._start.get(former, partition)
        return known

    def _ranges(self, topic: Topic, unread: dict[int, tuple[int | None, int]]) -> list[OffsetRange]:
        first: dict[tuple[str, int], int] = {}
        if not self._fail_on_data_loss or any(known is None or known > until for known, until in unread.values()):
            first, _ = self._cluster.bounds([topic])
        return [
            OffsetRange(topic.id, topic.name, partition, self._begin(topic, partition, known, until, first), until)
            for partition, (known, until) in unread.items()
        ]

    def _begin(
        self, topic: Topic, partition: int, known: int | None, until: int, first: dict[tuple[str, int], int]
    ) -> int:
        """In the checkpoint, or at the log's start. What aged out is found by the task, unless that is forgiven."""
        place = f"topic {topic.name} ({topic.id}) partition {partition}"
        if partition >= topic.partitions:
            raise TopicChangedError(f"{place} does not exist any more")
        begin = first.get((topic.id, partition), 0)
        if known is not None and known > until:
            # The log was truncated, and `earliest` starts over.
            if self._policy != "earliest":
                raise TopicChangedError(
                    f"{place} was truncated: a micro-batch from {known} back to {until} was planned with "
                    "onTopicRecreated=earliest; start the query with that option once more"
                )
            known = None
        if known is not None and (self._fail_on_data_loss or known >= begin):
            return known
        if begin > until and self._fail_on_data_loss:
            raise DataLossError(
                f"{place}: what a planned micro-batch has up to {until} is gone, the log begins at {begin}; "
                "failOnDataLoss=false goes on there"
            )
        if known is not None:
            log.warning("%s: offsets %d to %d are gone", place, known, min(begin, until))
        return min(begin, until)

    def _give_up(self, topic_id: str, unread: dict[int, tuple[int | None, int]]) -> None:
        """Drops what is left of a topic that is gone, if the user allows that. Raises TopicChangedError."""
        topic: TopicPosition = self._end.topics[topic_id]
        left = ", ".join(
            f"{partition}: {'start' if known is None else known} to {until}"
            for partition, (known, until) in sorted(unread.items())
        )
        new = self._cluster.topics_named([topic.name]).get(topic.name)
        if new is None:
            told = f"topic {topic.name} with id {topic_id} was deleted"
            forgiven = not self._fail_on_data_loss
            way_out = "failOnDataLoss=false goes on without what is left"
        else:
            told = (
                f"topic {topic.name} was re-created: the micro-batch belongs to id {topic_id}, the topic has {new.id}"
            )
            forgiven = self._policy == "earliest"
            way_out = "onTopicRecreated=earliest drops what is left and reads the new topic from its start"
        if not forgiven:
            raise TopicChangedError(
                f"{told}; a planned micro-batch has not been read (offsets by partition {left}). {way_out}; "
                f"`pybroker topics undelete {topic_id}` brings the old records back; or start with a new checkpoint"
            )
        log.warning("%s; dropped of a planned micro-batch, offsets by partition: %s", told, left)
