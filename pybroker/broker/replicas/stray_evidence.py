"""Collects evidence about the topic of a stray directory: proof that the topic is dead, proof that it is on other
brokers, or no proof.

In a cluster the view is complete, because a controller loads all metadata before it sends anything. It loads after its
own first write, and therefore from a server that is up to date. A single broker reads the store itself, because the
store also has unreadable deletion records: even the path of such a record proves that the id is dead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import DEAD_STATES, REMOVED, UNDELETING, decode_deletion_head
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_store import MetadataStore, get_or_none
from pybroker.broker.replicas.stray_reconciliation import Evidence
from pybroker.native import Uuid

log = logging.getLogger(__name__)


class Replica(NamedTuple):
    """The partition replica that a directory describes."""

    topic_id: Uuid
    partition: int
    name: str | None
    """None if the directory is named by topic id."""


class StoredTopic(NamedTuple):
    """The entries of the metadata store about a topic."""

    evidence: Evidence
    closed: bool = False
    """True if no undelete can need the data any more."""


class TopicEvidence:
    """Collector of evidence on one broker."""

    def __init__(
        self,
        view: ClusterView,
        store: MetadataStore | None,
        broker_id: int,
        *,
        complete: bool,
        doubtful: Callable[[], bool] = lambda: False,
    ) -> None:
        """`complete` is true in a cluster: an id that is not in the view does not exist. `doubtful` returns whether an
        operator has recently accepted a restored store, whose content may be wrong.
        """
        self.doubtful = doubtful
        self._view = view
        self._store = store
        self._broker_id = broker_id
        self.complete = complete

    def is_of(self, controller_epoch: int) -> bool:
        """Return whether the view comes from this controller. Only then the controller's FULL request can be compared
        with the view."""
        return not self.complete or self._view.image.controller_epoch == controller_epoch

    async def of(self, replicas: Iterable[Replica]) -> dict[Replica, Evidence]:
        """Return the evidence for each replica."""
        image = self._view.image
        found = {replica: self._shown(image, replica) for replica in replicas}
        if not self.complete:
            unknown = {replica.topic_id for replica, what in found.items() if what is Evidence.NOTHING}
            recorded = {topic_id: await self._recorded(topic_id) for topic_id in unknown}
            for replica, what in found.items():
                if what is Evidence.NOTHING:
                    found[replica] = recorded[replica.topic_id]
        return found

    def _shown(self, image: ClusterImage, replica: Replica) -> Evidence:
        record = image.deletions.get(replica.topic_id)
        if record is not None and record.state in DEAD_STATES:
            return Evidence.DEAD
        if record is not None and record.state == UNDELETING:
            return Evidence.RETURNING
        topic = image.topic_by_id(replica.topic_id)
        if topic is None:
            # If a topic has unreadable nodes, it may be the topic with the missing id.
            damaged = image.damaged and (replica.name is None or replica.name in image.damaged)
            return Evidence.HERE if damaged else Evidence.NOTHING
        if replica.name is not None and replica.name != topic.name:
            return Evidence.OTHER_NAME
        partitions = topic.partitions
        if self._broker_id in topic.departed.get(replica.partition, ()):
            return Evidence.DEPARTED
        there = replica.partition >= len(partitions) or self._broker_id in partitions[replica.partition].replicas
        return Evidence.HERE if there else Evidence.ELSEWHERE

    def delay_max_ms(self, topic_id: Uuid) -> int | None:
        """Return the limit that an administrator has set for the time for which a deleted topic's data stays after
        staging; None if there is no limit."""
        record = self._view.image.deletions.get(topic_id)
        if record is None or record.state not in DEAD_STATES or record.delay_max_ms < 0:
            return None
        return record.delay_max_ms

    async def in_store(self, topic_id: Uuid, partitions: Iterable[int]) -> StoredTopic:
        """Read the store before data is removed, because the view may be out of date. Return ELSEWHERE only if it
        applies to all these partitions. Used only in a cluster."""
        assert self._store is not None
        await self._store.sync()
        path = znodes.deletion_path(topic_id)
        node = await get_or_none(self._store, path)
        if node is not None:
            try:
                head = decode_deletion_head(path, node.data)
            except znodes.DamagedNodeError:
                return StoredTopic(Evidence.NOTHING)
            if head.state not in DEAD_STATES:
                return StoredTopic(Evidence.RETURNING)
            return StoredTopic(Evidence.DEAD, head.closed or head.state == REMOVED)
        name = self._view.image.names.get(topic_id)
        if name is None:
            return StoredTopic(Evidence.NOTHING)
        path = znodes.topic_path(name)
        node = await get_or_none(self._store, path)
        try:
            topic = None if node is None else znodes.decode_topic(path, node.data)
        except znodes.DamagedNodeError:
            return StoredTopic(Evidence.HERE)
        if topic is None or topic.topic_id != topic_id:
            return StoredTopic(Evidence.NOTHING)
        here = any(self._broker_id in topic.partitions.get(partition, (self._broker_id,)) for partition in partitions)
        return StoredTopic(Evidence.HERE) if here else StoredTopic(Evidence.ELSEWHERE, True)

    async def _recorded(self, topic_id: Uuid) -> Evidence:
        assert self._store is not None
        path = znodes.deletion_path(topic_id)
        node = await get_or_none(self._store, path)
        if node is None:
            return Evidence.NOTHING
        try:
            state = decode_deletion_head(path, node.data).state
        except znodes.DamagedNodeError:
            return Evidence.DEAD
        if state in DEAD_STATES:
            return Evidence.DEAD
        return Evidence.RETURNING if state == UNDELETING else Evidence.HERE


class LoggedTopics(TopicEvidence):
    """Finds out in a metadata quorum whether the topic of a replica exists. There, the image is always complete."""

    def __init__(self, view: ClusterView, controller: ControllerClient, broker_id: int) -> None:
        super().__init__(view, None, broker_id, complete=True)
        self._controller = controller

    async def in_store(self, topic_id: Uuid, partitions: Iterable[int]) -> StoredTopic:
        """Read the image when it contains every change that was decided before this call. Raises KafkaError."""
        await self._controller.catch_up()
        image = self._view.image
        record = image.deletions.get(topic_id)
        if record is not None:
            if record.state not in DEAD_STATES:
                return StoredTopic(Evidence.RETURNING)
            return StoredTopic(Evidence.DEAD, record.closed or record.state == REMOVED)
        topic = image.topic_by_id(topic_id)
        if topic is None:
            return StoredTopic(Evidence.NOTHING)
        known = topic.partitions
        here = any(partition >= len(known) or self._broker_id in known[partition].replicas for partition in partitions)
        return StoredTopic(Evidence.HERE) if here else StoredTopic(Evidence.ELSEWHERE, True)
