"""The metadata that this broker's clients see. UpdateMetadata changes it; request handlers and native code read it.

Only `update` changes it. In the same call, `update` passes the change to native code, as deltas in order. The two views
therefore differ only during this call. Everything runs on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec

from pybroker.broker.metadata.control_messages import (
    LEADER_DURING_DELETE,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker.native import (
    INTERNAL_TOPICS,
    BrokerMetadata,
    Endpoint,
    MetadataDelta,
    NativeBroker,
    PartitionMetadata,
    TopicMetadata,
    Uuid,
)


class CachedTopic(msgspec.Struct):
    """A topic as clients see it. `partitions` is indexed by partition number."""

    name: str
    topic_id: Uuid
    partitions: Sequence[UpdateMetadataPartitionState]

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class RemovedTopic(msgspec.Struct, frozen=True):
    """A removed incarnation of a topic."""

    name: str
    topic_id: Uuid
    partitions: int


class MetadataCache:
    """The metadata for clients."""

    def __init__(self, native: NativeBroker, cluster_id: str) -> None:
        self._native = native
        self.cluster_id = cluster_id
        self.controller_id = -1
        self.version = 0
        """Version of native code's view: the last result of `publish`."""
        self.topics_version = 0
        """Increases whenever a topic is added, removed or gets partitions."""
        self._topics: dict[str, CachedTopic] = {}
        self._names: dict[Uuid, str] = {}
        self._brokers: dict[int, UpdateMetadataBroker] = {}
        self._changed_listeners: dict[str, list[Callable[[], None]]] = {}

    # --- reads --------------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> Mapping[str, CachedTopic]:
        """All topics by name. The caller must not change it."""
        return self._topics

    @property
    def brokers(self) -> Mapping[int, UpdateMetadataBroker]:
        """Live brokers by id."""
        return self._brokers

    def topic(self, name: str) -> CachedTopic | None:
        """Return the topic with that name."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: Uuid) -> CachedTopic | None:
        """Return the topic with that id."""
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def topic_id(self, name: str) -> Uuid | None:
        """Return the id of a topic."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Return the name of a topic."""
        return self._names.get(topic_id)

    def on_topic_changed(self, name: str, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the topic with this name: leaders, partitions, topic id, removal. The
        call is on the event loop's thread. The listener must be quick and must not raise an exception."""
        self._changed_listeners.setdefault(name, []).append(listener)

    # --- the change ---------------------------------------------------------------------------------------------------

    def update(
        self, request: UpdateMetadataRequest, living: Container[Uuid] | None = None
    ) -> tuple[Sequence[RemovedTopic], Sequence[Uuid]]:
        """Apply a request that is known to be current. Return the removed and the newly visible incarnations. If the
        request lists all topics, `living` contains the ids of the topics that exist."""
        removed: list[RemovedTopic] = []
        fresh: list[Uuid] = []
        shown: list[TopicMetadata] = []
        for state in request.topic_states:
            if any(partition.leader == LEADER_DURING_DELETE for partition in state.partition_states):
                gone = self._remove(state)
                if gone is not None:
                    removed.append(gone)
                continue
            replaced = self._topics.get(state.topic_name)
            if replaced is not None and replaced.topic_id != state.topic_id:
                removed.append(RemovedTopic(replaced.name, replaced.topic_id, len(replaced.partitions)))
                self._forget(replaced)
                replaced = None
            if replaced is None:
                fresh.append(state.topic_id)
            self._topics[state.topic_name] = topic = _merged(replaced, state)
            if replaced is None or len(replaced.partitions) != len(topic.partitions):
                self.topics_version += 1
            self._names[state.topic_id] = state.topic_name
            partitions = _native_partitions(topic.partitions)
            shown.append(TopicMetadata(topic.topic_id, topic.name, topic.internal, partitions))
        if living is not None:
            for topic in [cached for cached in self._topics.values() if cached.topic_id not in living]:
                removed.append(RemovedTopic(topic.name, topic.topic_id, len(topic.partitions)))
                self._forget(topic)
        self.topics_version += len(removed)
        brokers = {broker.id: broker for broker in request.live_brokers}
        brokers_changed = brokers != self._brokers
        self._brokers = brokers
        controller_changed = self.controller_id != request.controller_id
        self.controller_id = request.controller_id
        self.version = self._native.metadata.publish(
            MetadataDelta(
                brokers=_native_brokers(brokers.values()) if brokers_changed else None,
                controller_id=request.controller_id if controller_changed else None,
                topics_changed=shown,
                topics_removed=[topic.topic_id for topic in removed],
            )
        )
        if self._changed_listeners:
            names = {state.topic_name for state in request.topic_states} | {topic.name for topic in removed}
            for name in names.intersection(self._changed_listeners):
                for changed in self._changed_listeners[name]:
                    changed()
        return removed, fresh

    def _remove(self, state: UpdateMetadataTopicState) -> RemovedTopic | None:
        topic = self._topics.get(state.topic_name)
        if topic is None or topic.topic_id != state.topic_id:
            # The request is late and about a removed incarnation. The name may belong to a newer incarnation.
            return None
        self._forget(topic)
        return RemovedTopic(topic.name, topic.topic_id, len(topic.partitions))

    def _forget(self, topic: CachedTopic) -> None:
        del self._topics[topic.name]
        del self._names[topic.topic_id]


def _merged(before: CachedTopic | None, state: UpdateMetadataTopicState) -> CachedTopic:
    if before is None:
        return CachedTopic(state.topic_name, state.topic_id, state.partition_states)
    partitions = {partition.partition_index: partition for partition in before.partitions}
    for partition in state.partition_states:
        partitions[partition.partition_index] = partition
    return CachedTopic(state.topic_name, state.topic_id, [partitions[index] for index in sorted(partitions)])


def _native_partitions(partitions: Iterable[UpdateMetadataPartitionState]) -> list[PartitionMetadata]:
    return [
        PartitionMetadata(p.partition_index, p.leader, p.leader_epoch, p.isr, p.replicas, p.offline_replicas)
        for p in partitions
    ]


def _native_brokers(brokers: Iterable[UpdateMetadataBroker]) -> list[BrokerMetadata]:
    return [
        BrokerMetadata(b.id, b.rack, [Endpoint(e.listener, e.host, e.port) for e in b.endpoints]) for b in brokers
    ]
