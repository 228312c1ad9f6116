"""Decisions that finish the migration from metadata without topic ids.

Topic ids: when all replicas of a topic have written its id, the controller removes the topic's migration record. A
controller that starts after a crash finds the record and continues.

Deletions requested in the old format, `/admin/delete_topics/[topic]`: when the topic has its id, the controller deletes
it like any other topic, and the same multi removes the znode of the request. If the topic does not exist, the
controller only removes that znode.
"""

from __future__ import annotations

from collections.abc import Collection

from pybroker.broker.cluster.events import DropDeleteOrders
from pybroker.broker.controller.decision import Decision, decides
from pybroker.broker.controller.internal_events import FinishMigrations
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import Delete


@decides(FinishMigrations)
def decide_finish(image: ClusterImage, event: FinishMigrations) -> Decision:
    """Remove the migration records of topics."""
    del image
    return Decision(tuple(Delete(znodes.topic_id_path(name)) for name in event.topics), ImageDelta(), None)


@decides(DropDeleteOrders)
def decide_drop_orders(image: ClusterImage, event: DropDeleteOrders) -> Decision:
    """Remove the znodes of deletion requests in the old format."""
    names = tuple(name for name in event.topics if name in image.delete_orders)
    operations = tuple(Delete(znodes.old_deletion_path(name)) for name in names)
    return Decision(operations, ImageDelta(dropped_orders=names), None)


class Migrations:
    """The replicas that have not confirmed their topic ids; used on the event loop's thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[tuple[int, int]]] = {}
        """Topic name → (partition, broker)."""

    def start(self, image: ClusterImage, names: Collection[str]) -> tuple[str, ...]:
        """Wait for the replicas of these topics. Return the topics that no longer exist."""
        for name in names:
            topic = image.topics.get(name)
            if topic is not None:
                self._waiting[name] = {
                    (index, broker) for index, partition in enumerate(topic.partitions) for broker in partition.replicas
                }
        return tuple(name for name in names if name not in image.topics and name not in image.damaged)

    def settled(self, image: ClusterImage) -> tuple[str, ...]:
        """Return the topics whose replicas have all confirmed their topic ids."""
        return tuple(name for name in image.topics if name not in self._waiting)

    def confirmed(
        self, broker_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
    ) -> tuple[str, ...]:
        """Process a broker's response. Return the topics whose migration is now complete."""
        if not self._waiting or response.error_code:
            return ()
        errors = {
            (topic.topic_id, partition.partition_index)
            for topic in response.topics
            for partition in topic.partition_errors
            if partition.error_code
        }
        finished = []
        for topic in request.topic_states:
            waiting = self._waiting.get(topic.topic_name)
            if waiting is None:
                continue
            waiting -= {
                (state.partition_index, broker_id)
                for state in topic.partition_states
                if (topic.topic_id, state.partition_index) not in errors
            }
            if not waiting:
                del self._waiting[topic.topic_name]
                finished.append(topic.topic_name)
        return tuple(finished)
