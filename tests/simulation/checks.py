"""What must hold: after every commit, at every answer, and at rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from pybroker.broker.cluster.events import (
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    UndeletedTopic,
    UndeleteTopic,
)
from pybroker.broker.metadata.deletion_records import REMOVED
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.deltas import from_records
from pybroker.broker.quorum.quorum_log import CommittedBatch
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from tests.simulation.cluster import Call, SimulatedCluster

SLACK_S = 0.25
"""An answer may be this late: messages and turns of the loop take time."""
COMPARED = tuple(
    field for field in ClusterImage.__struct_fields__ if field not in ("controller_epoch", "offset", "outcomes")
)
"""The controller writes outcomes beside its decisions; it does not keep them in its image."""


def _taken(image: ClusterImage) -> set[str]:
    """Return the names that no new topic can have: those of topics, and of topics that are being undeleted."""
    return {*image.topics, *image.reserved}


class Checks:
    """The invariants of one run."""

    def __init__(self, broken: Callable[[str], None], now: Callable[[], float]) -> None:
        self._broken = broken
        self._now = now
        self.image = ClusterImage.initial(0)
        self._leaders: dict[tuple[Uuid, int, int], int] = {}
        self._epochs: dict[tuple[Uuid, int], int] = {}
        self._leading: dict[tuple[Uuid, int, int], int] = {}
        self._broker_epochs: dict[int, int] = {}
        self._born: dict[Uuid, str] = {}
        self._dead: set[Uuid] = set()
        self._makers: dict[str, Uuid] = {}
        self._name_ended: dict[str, float] = {}
        """When a name was last free again."""

    # --- every commit -------------------------------------------------------------------------------------------------

    def committed(self, batch: CommittedBatch) -> None:
        """Check one more batch."""
        before = self.image
        delta = from_records(before, batch.records)
        after = msgspec.structs.replace(before.apply(delta), controller_epoch=batch.epoch, offset=batch.end_offset)
        self.image = after
        if batch.epoch < before.controller_epoch:
            self._broken(f"the controller epoch goes back from {before.controller_epoch} to {batch.epoch}")
        for topic_id, name in after.names.items():
            if topic_id in before.names:
                continue
            if topic_id in self._dead:
                self._broken(f"topic id {topic_id} lives again after its data was removed")
            if topic_id not in self._born:
                self._born[topic_id] = name
                self._made(after.topics[name].lineage.events, topic_id)
            elif topic_id not in before.deletions:
                self._broken(f"topic id {topic_id} is used twice")
        for name in _taken(before) - _taken(after):
            self._name_ended[name] = self._now()
        self._dead |= {record.topic_id for record in delta.deletions if record.state == REMOVED}
        for name, topic in after.topics.items():
            if before.topics.get(name) is topic:
                continue
            for index, partition in enumerate(topic.partitions):
                slot = topic.topic_id, index
                if partition.leader_epoch < self._epochs.get(slot, -1):
                    self._broken(f"the leader epoch of {name}-{index} goes back to {partition.leader_epoch}")
                self._epochs[slot] = partition.leader_epoch
                if partition.leader < 0:
                    continue
                known = self._leaders.setdefault((*slot, partition.leader_epoch), partition.leader)
                if known != partition.leader:
                    self._broken(
                        f"{name}-{index} has leaders {known} and {partition.leader} in epoch {partition.leader_epoch}"
                    )
                if partition.leader not in partition.isr:
                    self._broken(f"the leader {partition.leader} of {name}-{index} is not in sync")
        for broker_id, broker in after.brokers.items():
            if broker.epoch < self._broker_epochs.get(broker_id, -1):
                self._broken(f"the broker epoch of {broker_id} goes back")
            self._broker_epochs[broker_id] = broker.epoch

    def _made(self, events: Any, topic_id: Uuid) -> None:
        maker = events[0].by if events else ""
        if not maker:
            return
        if maker in self._makers:
            self._broken(f"the request of {maker} was decided twice")
        self._makers[maker] = topic_id

    def leads(self, broker_id: int, topic_id: Uuid, index: int, epoch: int) -> None:
        """A broker begins to lead."""
        known = self._leading.setdefault((topic_id, index, epoch), broker_id)
        if known != broker_id:
            self._broken(f"brokers {known} and {broker_id} lead {topic_id}-{index} in epoch {epoch}")

    def removes(self, broker_id: int, topic_id: Uuid, index: int) -> None:
        """A broker removes data."""
        topic = self.image.topic_by_id(topic_id)
        if topic is not None and broker_id in topic.partitions[index].replicas:
            self._broken(f"broker {broker_id} removes the data of {topic.name}-{index}, which lives")

    # --- every answer -------------------------------------------------------------------------------------------------

    def answered(self, call: Call, calm_s: float) -> None:
        """Check an answer."""
        took, given = call.ended - call.began, call.timeout_ms / 1000
        text = f"{call}"
        if took > max(given, 1.0) + SLACK_S + call.paused_s:
            self._broken(f"{text} ended after {took:.2f} s")
        waited = took >= given - min(1.0, given / 10) - 0.01
        error = call.error
        if not call.complete and given >= 15 and calm_s >= 10:
            self._broken(f"{text} had no complete answer although nothing disturbed the cluster for {calm_s:.1f} s")
        if error is not None:
            if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                if not waited:
                    self._broken(f"{text} ended with {error_name(error.code)} after {took:.3f} s: {error.message}")
            else:
                self._broken(f"{text} ended with {error_name(error.code)}: {error.message}")
            return
        if not call.complete and not waited:
            self._broken(f"{text} was answered as incomplete after {took:.3f} s")
        for one in call.results:
            if not isinstance(one, KafkaError):
                continue
            if one.code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT):
                self._broken(f"{text} got {error_name(one.code)}: {one.message}")
            if one.code == ErrorCode.NOT_CONTROLLER and not waited:
                self._broken(f"{text} got NOT_CONTROLLER after {took:.3f} s: {one.message}")
            if one.code == ErrorCode.TOPIC_ALREADY_EXISTS and isinstance(call.event, CreateTopics):
                name = call.event.topics[0].name
                if name not in _taken(self.image) and self._name_ended.get(name, -1.0) < call.began:
                    self._broken(f"{text} was refused, but no topic had the name")

    # --- at rest ------------------------------------------------------------------------------------------------------

    def at_rest(self, cluster: SimulatedCluster) -> None:
        """Check the healed cluster."""
        image = self.image
        for call in cluster.calls:
            if not call.done:
                self._broken(f"{call} never ended")
        self._check_answers(cluster)
        leader = cluster.quorum.leader
        for broker_id, broker in cluster.brokers.items():
            what = f"broker {broker_id}"
            if broker_id not in image.brokers or image.brokers[broker_id].epoch != broker.registration.epoch:
                self._broken(f"{what} runs and is not registered")
                continue
            self._compare(f"{what}'s view", broker.view.image)
            if broker.visibility.holds:
                self._broken(f"clients of {what} do not see every change")
            if broker.fenced or broker.closing._closings:
                self._broken(f"topics are still fenced on {what}: {[*broker.fenced]} {broker.closing._closings}")
            if broker.local._under_way or broker.local.waiting:
                self._broken(f"{what} has unanswered events: {broker.local.waiting} {len(broker.local._under_way)}")
            if broker.local.is_open != (broker_id == leader):
                self._broken(f"{what} {'takes' if broker.local.is_open else 'does not take'} events, leader={leader}")
            if broker.leadership.controller != leader:
                self._broken(f"{what} takes {broker.leadership.controller} for the controller, not {leader}")
            led = {}
            shown: dict[Uuid, dict[int, tuple[int, int]]] = {}
            for topic in image.topics.values():
                for index, partition in enumerate(topic.partitions):
                    shown.setdefault(topic.topic_id, {})[index] = partition.leader, partition.leader_epoch
                    if partition.leader == broker_id:
                        led[topic.topic_id, index] = partition.leader_epoch
            if led != broker.led:
                self._broken(f"{what} leads {broker.led}, not {led}")
            if shown != broker.shown:
                self._broken(f"clients of {what} see {broker.shown}, not {shown}")
        if leader is not None:
            controller = cluster.brokers[leader].controllers[-1]
            self._compare(f"the image of controller {leader}", controller._image)
            for task in controller._tasks:
                self._broken(f"controller {leader} still waits: {task.get_coro()}")
        else:
            self._broken("there is no controller")
        for topic in image.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader < 0:
                    self._broken(f"{topic.name}-{index} has no leader, isr={partition.isr}")
        for record in image.deletions.values():
            if record.state != REMOVED:
                self._broken(f"the deletion of {record.topic} stays {record.state}: {record.missing}")
        if any(image.staged.values()):
            self._broken(f"marks of staged data stay: {image.staged}")
        for broker_id, disk in cluster.disks.items():
            wanted = {
                (topic.topic_id, index)
                for topic in image.topics.values()
                for index, partition in enumerate(topic.partitions)
                if broker_id in partition.replicas
            }
            if set(disk.replicas) != wanted or set(disk.replicas.values()) - {"live"}:
                self._broken(f"the disk of {broker_id} has {disk.replicas}, not {wanted}")

    def _compare(self, what: str, other: ClusterImage) -> None:
        for field in COMPARED:
            if getattr(other, field) != getattr(self.image, field):
                self._broken(f"{what} has {field}={getattr(other, field)}, not {getattr(self.image, field)}")

    def _check_answers(self, cluster: SimulatedCluster) -> None:
        """Acknowledged creations exist, acknowledged deletions are gone."""
        asked_to_delete = {
            topic_id for call in cluster.calls if isinstance(call.event, DeleteTopics) for topic_id in call.event.topics
        }
        asked_to_return = {call.event.topic_id for call in cluster.calls if isinstance(call.event, UndeleteTopic)}
        for call in cluster.calls:
            for one in call.results:
                match one:
                    case CreatedTopic():
                        if one.topic_id not in self.image.names and one.topic_id not in asked_to_delete:
                            self._broken(f"{call} was acknowledged, and topic {one.topic_id} does not exist")
                    case DeletedTopic():
                        if one.topic_id in self.image.names and one.topic_id not in asked_to_return:
                            self._broken(f"{call} was acknowledged, and topic {one.topic_id} exists")
                    case UndeletedTopic():
                        if (
                            call.complete
                            and one.topic_id not in self.image.names
                            and not any(
                                isinstance(other.event, DeleteTopics)
                                and one.topic_id in other.event.topics
                                and other.last > call.began
                                for other in cluster.calls
                            )
                        ):
                            self._broken(f"{call} was acknowledged, and topic {one.topic_id} does not exist")
