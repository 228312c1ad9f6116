"""The coordinators' view of topics, read from this broker's `MetadataCache`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pybroker.broker.metadata.deletion_records import REMOVED, DeletionRecord
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.broker.metadata.metadata_cache import MetadataCache
from pybroker.native import Uuid


class CachedTopics:
    """Implements `ports.Topics` with `MetadataCache`."""

    def __init__(
        self,
        cache: MetadataCache,
        lineage: Callable[[Uuid], TopicLineage | None] = lambda topic_id: None,
        deletions: Callable[[], Mapping[Uuid, DeletionRecord]] = dict,
    ) -> None:
        self._cache = cache
        self._lineage = lineage
        self._deletions = deletions

    @property
    def version(self) -> int:
        return self._cache.topics_version

    def names(self) -> Iterable[str]:
        return self._cache.topics

    def topic_id(self, name: str) -> Uuid | None:
        return self._cache.topic_id(name)

    def topic_id_at(self, name: str, wall_ms: int) -> Uuid | None:
        present = self._cache.topic_id(name)
        if present is not None and _was_made(self._lineage(present), wall_ms):
            return present
        then = [
            deletion
            for deletion in self._deletions().values()
            if deletion.topic == name
            and deletion.topic_id != present
            and deletion.deleted_ms >= wall_ms
            and _was_made(deletion.lineage, wall_ms)
        ]
        return min(then, key=lambda deletion: deletion.deleted_ms).topic_id if then else None

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self._cache.topic_name(topic_id)

    def is_dead(self, topic_id: Uuid) -> bool:
        record = self._deletions().get(topic_id)
        return record is not None and (record.state == REMOVED or record.closed)

    def successor(self, topic_id: Uuid) -> Uuid | None:
        records = self._deletions()
        while (record := records.get(topic_id)) is not None and record.successor is not None:
            topic_id = record.successor
            dead = records.get(topic_id)
            lineage = self._lineage(topic_id) if dead is None else dead.lineage
            if lineage is None or not lineage.start_offsets:
                return None
            if self.topic_name(topic_id) is not None:
                return topic_id
        return None

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        lineage = self._lineage(topic_id)
        return 0 if lineage is None else lineage.start_offset(partition)

    def partition_count(self, topic_id: Uuid) -> int:
        topic = self._cache.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        lineage = self._lineage(topic_id)
        return lineage is None or lineage.owns_epoch(leader_epoch)

    def proves(self, topic_id: Uuid, leader_epoch: int) -> bool:
        lineage = self._lineage(topic_id)
        return lineage is not None and lineage.proves(leader_epoch)

    def had_name_alone(self, topic_id: Uuid) -> bool:
        lineage = self._lineage(topic_id)
        return lineage is None or lineage.had_name_alone

    def first_epoch(self, topic_id: Uuid) -> int:
        lineage = self._lineage(topic_id)
        return 0 if lineage is None else lineage.first_epoch

    def living_since(self, topic_id: Uuid) -> int | None:
        lineage = self._lineage(topic_id)
        return None if lineage is None else lineage.living_since_ms

    def leader(self, topic_id: Uuid, partition: int) -> tuple[int, int]:
        topic = self._cache.topic_by_id(topic_id)
        if topic is None or partition >= len(topic.partitions):
            return -1, -1
        state = topic.partitions[partition]
        return state.leader, state.leader_epoch

    def on_leaders_changed(self, name: str, listener: Callable[[], None]) -> None:
        self._cache.on_topic_changed(name, listener)

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        broker = self._cache.brokers.get(broker_id)
        if broker is None:
            return None
        return next(((e.host, e.port) for e in broker.endpoints if e.listener == listener), None)


def _was_made(lineage: TopicLineage | None, wall_ms: int) -> bool:
    """Return whether the topic existed at `wall_ms`. If its creation time is not recorded, assume that it did."""
    made_ms = None if lineage is None else lineage.created_ms
    return made_ms is None or made_ms <= wall_ms
