"""Decisions about the replicas of partitions (KIP-455). Pure functions.

    replicas      adding removing
    1 2 3         -      -        a client requests 4 2 1
    4 2 1 3       4      3        4 copies the log; the leader stays
    4 2 1 3       4      3        4 is in the ISR
    4 2 1         -      -        3 gets StopReplica; if it was the leader, another replica is elected

The topic's znode holds the running reassignment in Kafka's format: `replicas` are all current replicas, the target
replicas first. Each step begins a new leader epoch: the controller refuses ISR changes that the leader proposed before
the step. The controller writes the states of partitions before the znode of their topic. After a crash between the two
writes, removed replicas have left the ISR but are still replicas. That state is valid, and the next controller
continues from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pybroker.broker.cluster.events import NewReplicas, ReassignPartitions
from pybroker.broker.controller.decision import Decision, decides
from pybroker.broker.controller.internal_events import AdvanceReassignments, ReplicasGone
from pybroker.broker.controller.leader_election import elect
from pybroker.broker.controller.partition_states import set_state, with_partitions
from pybroker.broker.controller.topic_id_visibility import topic_node
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import (
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
    is_moving,
    target_replicas,
)
from pybroker.broker.metadata.metadata_store import Operation, Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


@decides(ReassignPartitions)
def decide_reassign(image: ClusterImage, event: ReassignPartitions) -> Decision:
    """Begin, change or cancel reassignments; each partition succeeds or fails independently. A change that needs no
    copy (fewer replicas, another order) takes effect at once."""
    changed: dict[str, list[PartitionImage]] = {}
    reply: list[KafkaError | None] = []
    for wanted in event.partitions:
        try:
            before = _partition(image, wanted, changed)
            after = _reassigned(image, before, wanted, event.factor_may_change)
        except KafkaError as error:
            reply.append(error)
            continue
        reply.append(None)
        if after is not before:
            changed.setdefault(wanted.topic, list(image.topics[wanted.topic].partitions))[wanted.partition] = after
    return _decision(image, changed, reply)


@decides(AdvanceReassignments)
def decide_advance(image: ClusterImage, event: AdvanceReassignments) -> Decision:
    """Finish the reassignments whose new replicas are in sync. The other reassignments are tried again at the next
    change of their partition's ISR."""
    changed: dict[str, list[PartitionImage]] = {}
    for topic_id in event.topics:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            continue
        partitions = [_finished(image, partition) for partition in topic.partitions]
        if any(new is not old for new, old in zip(partitions, topic.partitions, strict=True)):
            changed[topic.name] = partitions
    return _decision(image, changed, None)


@decides(ReplicasGone)
def decide_gone(image: ClusterImage, event: ReplicasGone) -> Decision:
    """Record confirmed replica removals. The leader epoch distinguishes removals: if a broker became a replica again
    and was removed again, it still has to confirm the later removal."""
    operations: list[Operation] = []
    topics: list[TopicImage] = []
    by_topic: dict[Uuid, list[tuple[int, int, int]]] = {}
    for topic_id, *removal in event.confirmed:
        by_topic.setdefault(topic_id, []).append((removal[0], removal[1], removal[2]))
    for topic_id, confirmed in by_topic.items():
        topic = image.topic_by_id(topic_id)
        if topic is None:
            continue
        departed = {index: dict(brokers) for index, brokers in topic.departed.items()}
        for index, broker_id, epoch in confirmed:
            if departed.get(index, {}).get(broker_id, epoch + 1) <= epoch:
                del departed[index][broker_id]
        departed = {index: brokers for index, brokers in departed.items() if brokers}
        if departed != topic.departed:
            new = msgspec.structs.replace(topic, departed=departed, node_version=topic.node_version + 1)
            path = znodes.topic_path(topic.name)
            operations.append(Set(path, topic_node(new, image.topic_ids), topic.node_version))
            topics.append(new)
    return Decision(tuple(operations), ImageDelta(topics=tuple(topics)), None, separable=True)


def _departing(topic: TopicImage, partitions: Sequence[PartitionImage]) -> Mapping[int, Mapping[int, int]]:
    """Return the replicas that this change removes, and the replicas of earlier removals that their brokers have not
    confirmed."""
    departed: dict[int, Mapping[int, int]] = dict(topic.departed)
    for index, (before, after) in enumerate(zip(topic.partitions, partitions, strict=True)):
        if before.replicas is after.replicas:
            continue
        lost = dict.fromkeys(before.replicas, after.leader_epoch)
        known = {**departed.pop(index, {}), **lost}
        brokers = {broker_id: epoch for broker_id, epoch in known.items() if broker_id not in after.replicas}
        if brokers:
            departed[index] = brokers
    return departed


def moving_topics(topics: Iterable[TopicImage]) -> frozenset[str]:
    """Return the names of the topics with running reassignments."""
    return frozenset(topic.name for topic in topics if any(map(is_moving, topic.partitions)))


def _decision(image: ClusterImage, changed: dict[str, list[PartitionImage]], reply: object) -> Decision:
    operations: list[Operation] = []
    nodes: list[Operation] = []
    topics: list[TopicImage] = []
    for name, partitions in changed.items():
        topic = image.topics[name]
        for index, (before, after) in enumerate(zip(topic.partitions, partitions, strict=True)):
            if before is not after:
                # A request may name a partition twice; write it only once.
                partitions[index] = msgspec.structs.replace(after, state_version=before.state_version + 1)
                operations.append(set_state(name, index, partitions[index], before))
        new = msgspec.structs.replace(
            with_partitions(topic, partitions),
            departed=_departing(topic, partitions),
            node_version=topic.node_version + 1,
        )
        nodes.append(Set(znodes.topic_path(name), topic_node(new, image.topic_ids), topic.node_version))
        topics.append(new)
    return Decision((*operations, *nodes), ImageDelta(topics=tuple(topics)), reply, separable=True)


def _partition(
    image: ClusterImage, wanted: NewReplicas, changed: dict[str, list[PartitionImage]]
) -> PartitionImage:
    topic = image.topics.get(wanted.topic)
    partitions: Sequence[PartitionImage] = () if topic is None else changed.get(wanted.topic) or topic.partitions
    another = topic is not None and wanted.topic_id not in (None, topic.topic_id)
    if another or not 0 <= wanted.partition < len(partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {wanted.topic}-{wanted.partition}."
        )
    return partitions[wanted.partition]


def _reassigned(
    image: ClusterImage, before: PartitionImage, wanted: NewReplicas, factor_may_change: bool
) -> PartitionImage:
    """Return the partition's state after the reassignment has begun. If no replica has to copy the log, the
    reassignment is finished in the returned state."""
    origin = tuple(broker for broker in before.replicas if broker not in before.adding_replicas)
    if wanted.replicas is None:
        if not is_moving(before):
            raise KafkaError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                f"Partition {wanted.topic}-{wanted.partition} is not being reassigned.",
            )
        target = origin
    else:
        target = wanted.replicas
        _check(image, before, origin, wanted, factor_may_change=factor_may_change)
    replicas = target + tuple(broker for broker in origin if broker not in target)
    adding = tuple(broker for broker in target if broker not in origin)
    removing = tuple(broker for broker in origin if broker not in target)
    if (replicas, adding, removing) == (before.replicas, before.adding_replicas, before.removing_replicas):
        return before
    isr = tuple(member for member in before.isr if member in replicas)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"None of the new replicas of partition {wanted.topic}-{wanted.partition} is in sync. Keep an "
            "in-sync replica.",
        )
    return _finished(image, _led(image, before, replicas, isr, (adding, removing)))


def _check(
    image: ClusterImage,
    before: PartitionImage,
    origin: tuple[int, ...],
    wanted: NewReplicas,
    *,
    factor_may_change: bool,
) -> None:
    target = wanted.replicas or ()
    unknown = [broker for broker in target if broker not in image.brokers and broker not in origin]
    problem = None
    if not target:
        problem = "has no replicas"
    elif len(set(target)) != len(target):
        problem = f"names a broker twice: {list(target)}"
    elif unknown:
        problem = f"names brokers that are not alive: {unknown}"
    if problem is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The new assignment of partition {wanted.topic}-{wanted.partition} {problem}.",
        )
    factor = len(before.replicas) - len(before.removing_replicas)
    if not factor_may_change and len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The new assignment of partition {wanted.topic}-{wanted.partition} has {len(target)} replicas "
            f"instead of {factor}. The request does not allow another number of replicas.",
        )


def _finished(image: ClusterImage, partition: PartitionImage) -> PartitionImage:
    """Return the partition without its removed replicas, if the added replicas are in sync.

    The number of copies of acknowledged records must not decrease. Therefore the number of target replicas in the ISR
    must be at least the number of ISR members that were not added. If all target replicas are in the ISR, this is
    always enough.
    """
    if not is_moving(partition):
        return partition
    alive = frozenset(image.brokers) - image.leaving
    target = target_replicas(partition)
    isr = tuple(member for member in partition.isr if member in target)
    before = [member for member in partition.isr if member not in partition.adding_replicas]
    late = not frozenset(partition.adding_replicas) <= frozenset(isr) or len(isr) < min(len(target), len(before))
    if late or alive.isdisjoint(isr):
        return partition
    return _led(image, partition, target, isr, ((), ()))


def _led(
    image: ClusterImage,
    before: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    changes: tuple[tuple[int, ...], tuple[int, ...]],
) -> PartitionImage:
    """Return the partition with these replicas. The leader stays if it is in the new ISR."""
    after = PartitionImage(
        replicas=replicas,
        leader=before.leader,
        leader_epoch=before.leader_epoch + 1,
        isr=isr,
        controller_epoch=image.controller_epoch,
        state_version=before.state_version + 1,
        adding_replicas=changes[0],
        removing_replicas=changes[1],
        suspect=tuple(log_end for log_end in before.suspect if log_end.broker_id in replicas),
        offline=tuple(broker_id for broker_id in before.offline if broker_id in replicas),
    )
    if before.leader in isr:
        return after
    found = elect(after, frozenset(image.brokers) - image.leaving)
    return msgspec.structs.replace(after, leader=found.leader, isr=found.isr, suspect=found.suspect)
