"""The coordinators' view of topics, based on this broker's metadata cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pybroker.broker.metadata.deletion_records import REMOVED, DeletionRecord
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.broker.metadata.metadata_cache import MetadataCache
from pybroker.native import Uuid


class CachedTopics:
    """Implements `ports.Topics` with the metadata cache."""

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
        """Increases whenever a topic is created, deleted or extended."""
        return self._cache.topics_version

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self._cache.topics

    def topic_id(self, name: str) -> Uuid | None:
        """Return the topic id of the current incarnation of a name."""
        return self._cache.topic_id(name)

    def topic_id_at(self, name: str, wall_ms: int) -> Uuid | None:
        """Return the incarnation that had a name at a time: the current one, or a deleted one (undelete is possible).

        None: it is purged, or there was none.
        """
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
        """Return the name of an existing incarnation."""
        return self._cache.topic_name(topic_id)

    def is_dead(self, topic_id: Uuid) -> bool:
        """Return whether the incarnation is known to be deleted and cannot be undeleted."""
        record = self._deletions().get(topic_id)
        return record is not None and (record.state == REMOVED or record.closed)

    def successor(self, topic_id: Uuid) -> Uuid | None:
        """Return the existing topic that continues the offsets of a truncated one; None if there is none."""
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
        """Return the first offset that the log of a partition ever had."""
        lineage = self._lineage(topic_id)
        return 0 if lineage is None else lineage.start_offset(partition)

    def partition_count(self, topic_id: Uuid) -> int:
        """Return the number of partitions of a topic; 0 if it does not exist."""
        topic = self._cache.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Return whether a leader epoch can belong to this incarnation; if not, it belongs to another one of the
        name."""
        lineage = self._lineage(topic_id)
        return lineage is None or lineage.owns_epoch(leader_epoch)

    def proves(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Return whether only this incarnation of its name can have had that leader epoch."""
        lineage = self._lineage(topic_id)
        return lineage is not None and lineage.proves(leader_epoch)

    def had_name_alone(self, topic_id: Uuid) -> bool:
        """Whether no other incarnation has had the topic's name."""
        lineage = self._lineage(topic_id)
        return lineage is None or lineage.had_name_alone

    def first_epoch(self, topic_id: Uuid) -> int:
        """Return the first leader epoch that belongs to this incarnation."""
        lineage = self._lineage(topic_id)
        return 0 if lineage is None else lineage.first_epoch

    def living_since(self, topic_id: Uuid) -> int | None:
        """Return the wall time in ms when this incarnation was created or last undeleted; None: not known."""
        lineage = self._lineage(topic_id)
        return None if lineage is None else lineage.living_since_ms

    def leader(self, topic_id: Uuid, partition: int) -> tuple[int, int]:
        """Return (leader's broker id, leader epoch) of a partition; the broker id is −1 if there is no leader."""
        topic = self._cache.topic_by_id(topic_id)
        if topic is None or partition >= len(topic.partitions):
            return -1, -1
        state = topic.partitions[partition]
        return state.leader, state.leader_epoch

    def on_leaders_changed(self, name: str, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the named topic: its leaders, its partitions, its incarnation."""
        self._cache.on_topic_changed(name, listener)

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Return (host, port) at which clients of a listener reach a live broker."""
        broker = self._cache.brokers.get(broker_id)
        if broker is None:
            return None
        return next(((e.host, e.port) for e in broker.endpoints if e.listener == listener), None)


def _was_made(lineage: TopicLineage | None, wall_ms: int) -> bool:
    """Return whether the topic existed at `wall_ms`. A topic without a recorded creation time counts as always
    existing."""
    made_ms = None if lineage is None else lineage.created_ms
    return made_ms is None or made_ms <= wall_ms
