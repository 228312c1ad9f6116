"""Small observers of the cluster image: metrics of partition changes, feature levels in ApiVersions, and purges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.replicas.staging import Staging
from pybroker.native import NativeBroker


class PartitionChangeMetrics:
    """The `ImageObserver` that counts some kinds of metadata changes since the start of this broker."""

    def __init__(self, broker_id: int, is_controller: Callable[[], bool]) -> None:
        self._broker_id = broker_id
        self._is_controller = is_controller
        self.isr_shrinks = 0
        """ISR shrinks of partitions that this broker leads."""
        self.isr_expands = 0
        self.elections = 0
        """Changes of partition leaders that this broker has made as controller."""
        self.unclean_elections = 0
        """Elections of a leader that was not in sync."""

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Count the changes between the two images."""
        if isinstance(change, ClusterImage):
            topics = list(after.topics.values())
        else:
            topics = [*change.topics, *(after.topics[states.name] for states in change.states)]
        deciding = self._is_controller()
        for topic in topics:
            for old, new in _changed(before, topic):
                self._count(old, new, deciding)

    def _count(self, old: PartitionImage, new: PartitionImage, deciding: bool) -> None:
        if new.leader == self._broker_id and new.isr != old.isr:
            gone, come = set(old.isr) - set(new.isr), set(new.isr) - set(old.isr)
            self.isr_shrinks += bool(gone)
            self.isr_expands += bool(come)
        if deciding and new.leader >= 0 and new.leader != old.leader:
            self.elections += 1
            self.unclean_elections += new.leader not in (*old.isr, *(log_end.broker_id for log_end in old.suspect))


def _changed(before: ClusterImage, topic: TopicImage) -> Iterator[tuple[PartitionImage, PartitionImage]]:
    known = before.topic_by_id(topic.topic_id)
    if known is None or known is topic:
        return
    for old, new in zip(known.partitions, topic.partitions, strict=False):
        if old is not new:
            yield old, new


class PublishedFeatures:
    """The `ImageObserver` that shows feature levels to clients."""

    def __init__(self, native: NativeBroker) -> None:
        self._native = native

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Show the levels in later ApiVersions responses."""
        del before
        if isinstance(change, ClusterImage) or change.features is not None:
            self._native.metadata.set_features(after.features.epoch, after.features.shown)


class Purges:
    """The `ImageObserver` that applies purges."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Wake the removal task. A whole image also wakes it, because this broker may have missed a purge."""
        del before
        records = after.deletions.values() if isinstance(change, ClusterImage) else change.deletions
        shortened = [record.topic_id for record in records if record.delay_max_ms >= 0]
        if shortened:
            self._staging.shortened(shortened)
