"""The offset ranges of a planned micro-batch. After a restart, Spark plans the micro-batch again with the same
positions. In the meantime, its topics or its first records may have been deleted."""

from __future__ import annotations

import logging

from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition
from pybroker.spark.cluster_requests import SparkCluster, SparkTopic
from pybroker.spark.offset_ranges import OffsetRange
from pybroker.spark.source_errors import DataLossError, TopicChangedError
from pybroker.spark.source_options import ReadOptions

log = logging.getLogger(__name__)


class PlannedBatch:
    """The offsets where a micro-batch starts and ends, with the user's options on re-created topics and lost data."""

    def __init__(self, cluster: SparkCluster, options: ReadOptions, start: StreamPosition, end: StreamPosition) -> None:
        self._cluster = cluster
        self._policy = options.on_topic_recreated
        self._fail_on_data_loss = options.fail_on_data_loss
        self._start = start
        self._end = end

    def ranges(self) -> list[OffsetRange]:
        """Return the ranges to read from the existing topics. Raises TopicChangedError, DataLossError."""
        requested = {topic_id: self._unread(topic_id) for topic_id in self._end.topics}
        here = self._cluster.topics_with_ids(topic_id for topic_id, unread in requested.items() if unread)
        found = []
        for topic_id, unread in requested.items():
            topic = here.get(topic_id)
            if topic is not None:
                found += self._ranges(topic, unread)
            elif unread:
                self._give_up(topic_id, unread)
        return found

    def _unread(self, topic_id: str) -> dict[int, tuple[int | None, int]]:
        """Return partition → (start, or None if unknown; end), for those partitions of the topic that have records in
        the micro-batch."""
        return {
            partition: (known, until)
            for partition, until in self._end.topics[topic_id].offsets.items()
            if (known := self._known(topic_id, partition)) != until and until > 0
        }

    def _known(self, topic_id: str, partition: int) -> int | None:
        """Return the checkpoint's offset. With `onTopicRecreated=continue`, also look for it under the topic's former
        id."""
        known = self._start.get(topic_id, partition)
        if known is None and self._policy == "continue":
            former = self._start.named(self._end.topics[topic_id].name)
            if former is not None and former not in self._end.topics:
                known = self._start.get(former, partition)
        return known

    def _ranges(self, topic: SparkTopic, unread: dict[int, tuple[int | None, int]]) -> list[OffsetRange]:
        first: dict[tuple[str, int], int] = {}
        if not self._fail_on_data_loss or any(known is None or known > until for known, until in unread.values()):
            first, _ = self._cluster.bounds([topic])
        return [
            OffsetRange(topic.id, topic.name, partition, self._begin(topic, partition, known, until, first), until)
            for partition, (known, until) in unread.items()
        ]

    def _begin(
        self, topic: SparkTopic, partition: int, known: int | None, until: int, first: dict[tuple[str, int], int]
    ) -> int:
        """Return the checkpoint's offset, or the log start offset. If records between the two were deleted and the user
        does not allow the loss, the task fails."""
        place = f"topic {topic.name} ({topic.id}) partition {partition}"
        if partition >= topic.partitions:
            raise TopicChangedError(f"{place} no longer exists")
        begin = first.get((topic.id, partition), 0)
        if known is not None and known > until:
            # The log was truncated. With `earliest`, reading starts again at the log start.
            if self._policy != "earliest":
                raise TopicChangedError(
                    f"{place} was truncated: a micro-batch from {known} back to {until} was planned with "
                    "onTopicRecreated=earliest; start the query with that option again"
                )
            known = None
        if known is not None and (self._fail_on_data_loss or known >= begin):
            return known
        if begin > until and self._fail_on_data_loss:
            raise DataLossError(
                f"{place}: the records of a planned micro-batch up to {until} were removed, the log starts at "
                f"{begin}; use failOnDataLoss=false to continue there"
            )
        if known is not None:
            log.warning("%s: records at offsets %d to %d were removed", place, known, min(begin, until))
        return min(begin, until)

    def _give_up(self, topic_id: str, unread: dict[int, tuple[int | None, int]]) -> None:
        """Skip the rest of a deleted topic, if the user allows the loss. Raises TopicChangedError."""
        topic: TopicPosition = self._end.topics[topic_id]
        left = ", ".join(
            f"{partition}: {'start' if known is None else known} to {until}"
            for partition, (known, until) in sorted(unread.items())
        )
        new = self._cluster.topics_named([topic.name]).get(topic.name)
        if new is None:
            event = f"topic {topic.name} with id {topic_id} was deleted"
            forgiven = not self._fail_on_data_loss
            way_out = "Use failOnDataLoss=false to skip the rest"
        else:
            event = (
                f"topic {topic.name} was re-created: the micro-batch belongs to id {topic_id}, the topic has {new.id}"
            )
            forgiven = self._policy == "earliest"
            way_out = "Use onTopicRecreated=earliest to skip the rest and read the new topic from its start"
        if not forgiven:
            raise TopicChangedError(
                f"{event}; a planned micro-batch was not read (offsets by partition {left}). {way_out}, run "
                f"`pybroker topics undelete {topic_id}` to restore the old records, or start with a new checkpoint"
            )
        log.warning("%s; skipped the rest of a planned micro-batch, offsets by partition: %s", event, left)
