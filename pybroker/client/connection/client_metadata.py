"""A client's metadata. This module builds the requests, merges the responses and notifies listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pybroker.client.cluster_metadata import Cluster, Node, PartitionInfo, TopicInfo
from pybroker.cluster_resource import ClusterResource, ClusterResourceListener
from pybroker.native import Uuid
from pybroker.protocol.messages import MetadataRequest, MetadataRequest_MetadataRequestTopic

log = logging.getLogger(__name__)


class TopicRecreation(NamedTuple):
    """A topic name with a new topic id, because the topic was deleted and created again."""

    topic: str
    old: Uuid
    new: Uuid


class ClientMetadata:
    """Holds the current `Cluster`. `update` merges a response, then calls the listeners (KIP-78)."""

    def __init__(self, client_id: str) -> None:
        self.cluster = Cluster()
        self.updated_at = float("-inf")
        self._client_id = client_id
        self._listeners: list[ClusterResourceListener] = []
        self._recreated: list[Callable[[TopicRecreation], None]] = []

    def add_listeners(self, plugins: Iterable[object]) -> None:
        """Register the plug-ins that implement ClusterResourceListener; each metadata response is passed to them
        (KIP-78).
        """
        self._listeners += [each for each in plugins if isinstance(each, ClusterResourceListener)]

    def on_recreated(self, callback: Callable[[TopicRecreation], None]) -> None:
        """Register a callback for names that got a new topic id; it runs before the new cluster becomes visible."""
        self._recreated.append(callback)

    def request(self, topics: Iterable[str] | None, *, create: bool = False) -> Any:
        """Return a Metadata request for some topics, or for all (None). create: let the broker create
        missing topics.
        """
        requested = None if topics is None else [MetadataRequest_MetadataRequestTopic(name=name) for name in topics]
        return MetadataRequest(topics=requested, allow_auto_topic_creation=create)

    def update(self, response: Any, now: float, *, whole: bool = False) -> Cluster:
        """Merge a Metadata response. whole: the request was for all topics, so topics that are not in the response are
        removed.
        """
        nodes = tuple(Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers)
        by_id = {node.id: node for node in nodes}
        before = self.cluster.by_name
        topics = {} if whole else dict(before)
        changed: list[TopicRecreation] = []
        for answered in response.topics:
            if answered.name is None:
                continue
            old = before.get(answered.name)
            new = _topic(answered, old)
            if old is not None and old.topic_id and new.topic_id and old.topic_id != new.topic_id:
                changed.append(TopicRecreation(new.name, old.topic_id, new.topic_id))
            if new.error_code and old is not None and old.topic_id and not new.topic_id:
                # A missing topic keeps its last known id. If the topic comes back with another id, it is another
                # incarnation.
                new = TopicInfo(new.name, old.topic_id, old.internal, old.partitions, new.error_code)
            topics[new.name] = new
        for each in changed:
            for callback in self._recreated:
                callback(each)
        previous = self.cluster.id
        self.cluster = Cluster(response.cluster_id, nodes, by_id.get(response.controller_id), topics)
        self.updated_at = now
        if response.cluster_id != previous:
            log.info("[%s] Cluster ID: %s", self._client_id, response.cluster_id)
        resource = ClusterResource(response.cluster_id)
        for listener in self._listeners:
            try:
                listener.on_update(resource)
            except Exception:
                log.exception("[%s] %s.on_update failed", self._client_id, type(listener).__name__)
        return self.cluster

    def forget_brokers(self) -> None:
        """Drop the known brokers before a rebootstrap: they may belong to another cluster."""
        self.updated_at = float("-inf")
        self.cluster = Cluster(self.cluster.id, (), None, self.cluster.by_name)


def _topic(answered: Any, old: TopicInfo | None) -> TopicInfo:
    same = old is not None and old.topic_id == answered.topic_id
    known = {each.partition: each for each in old.partitions} if old is not None and same else {}
    partitions = []
    for row in sorted(answered.partitions, key=lambda each: each.partition_index):
        new = PartitionInfo(
            answered.name,
            row.partition_index,
            row.leader_id,
            row.leader_epoch,
            tuple(row.replica_nodes),
            tuple(row.isr_nodes),
            tuple(row.offline_replicas),
        )
        before = known.get(new.partition)
        # A broker with old metadata must not bring back a former leader (KIP-320).
        partitions.append(before if before is not None and 0 <= new.leader_epoch < before.leader_epoch else new)
    return TopicInfo(answered.name, answered.topic_id, answered.is_internal, tuple(partitions), answered.error_code)
