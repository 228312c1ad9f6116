"""The coordinators' view of topics, on top of this broker's metadata cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pybroker.broker.metadata.cache import MetadataCache
from pybroker.broker.metadata.deletion_records import REMOVED, DeletionRecord
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.native import Uuid


class CachedTopics:
    """`ports.Topics` over the metadata cache."""

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
        """Grows with each topic that comes or goes or gets partitions."""
        return self._cache.topics_version

    def names(self) -> Iterable[str]:
        """Of all topics."""
        return self._cache.topics

    def topic_id(self, name: str) -> Uuid | None:
        """The present incarnation of a name."""
        return self._cache.topic_id(name)

    def topic_id_at(self, name: str, wall_ms: int) -> Uuid | None:
        """The incarnation that had a name at a time: the present one, or a deleted one that may come back; None: it is
        gone, or there was none."""
        present = self._cache.topic_id(name)
        if present is not None and _was_made(self._lineage(present), wall_ms):
            return present
        dead = (one for one in self._deletions().values() if one.topic == name and one.topic_id != present)
        then = [one for one in dead if one.deleted_ms >= wall_ms and _was_made(one.lineage, wall_ms)]
        return min(then, key=lambda one: one.deleted_ms).topic_id if then else None

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of an incarnation that exists."""
        return self._cache.topic_name(topic_id)

    def is_dead(self, topic_id: Uuid) -> bool:
        """It is known that the incarnation was deleted and cannot come back."""
        record = self._deletions().get(topic_id)
        return record is not None and (record.state == REMOVED or record.closed)

    def successor(self, topic_id: Uuid) -> Uuid | None:
        """The living topic that continues the offsets of a truncated one; None: there is none."""
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
        """Where the log of a partition began."""
        lineage = self._lineage(topic_id)
        return 0 if lineage is None else lineage.start_offset(partition)

    def partition_count(self, topic_id: Uuid) -> int:
        """Partitions of a topic; 0 if it does not exist."""
        topic = self._cache.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        """Whether a leader epoch can be one of this incarnation; False: it is of another one of its name."""
        lineage = self._lineage(topic_id)
        return lineage is None or lineage.owns_epoch(leader_epoch)

    def first_epoch(self, topic_id: Uuid) -> int:
        """From this leader epoch on all are of this incarnation."""
        lineage = self._lineage(topic_id)
        return 0 if lineage is None else lineage.first_epoch

    def living_since(self, topic_id: Uuid) -> int | None:
        """Wall time in ms when the present life of this incarnation began; None: not known."""
        lineage = self._lineage(topic_id)
        return None if lineage is None else lineage.living_since_ms

    def leader(self, topic_id: Uuid, partition: int) -> tuple[int, int]:
        """(the broker that leads a partition, its leader epoch); the broker is −1 if there is none."""
        topic = self._cache.topic_by_id(topic_id)
        if topic is None or partition >= len(topic.partitions):
            return -1, -1
        state = topic.partitions[partition]
        return state.leader, state.leader_epoch

    def on_leaders_changed(self, name: str, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of a topic of that name: its leaders, its partitions, its incarnation."""
        self._cache.on_topic_changed(name, listener)

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Where clients of a listener reach a live broker."""
        broker = self._cache.brokers.get(broker_id)
        if broker is None:
            return None
        return next(((e.host, e.port) for e in broker.endpoints if e.listener == listener), None)


def _was_made(lineage: TopicLineage | None, wall_ms: int) -> bool:
    """Before a time. What is older than its history was there at any."""
    made_ms = None if lineage is None else lineage.created_ms
    return made_ms is None or made_ms <= wall_ms
