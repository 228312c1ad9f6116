"""Decisions about brokers: they come and go, or cannot serve some replicas. Pure functions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.cluster.events import ShutDownBroker
from pybroker.controller.decision import Decision, decides, require_life
from pybroker.controller.events import BrokersChanged, FenceBroker, ReplicasOffline
from pybroker.controller.leader_election import Election, elect
from pybroker.controller.topics import encode_state
from pybroker.metadata import znodes
from pybroker.metadata.image import (
    NO_LEADER,
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
)
from pybroker.metadata.store import Delete, Operation, Set


@decides(BrokersChanged)
def decide_brokers(image: ClusterImage, event: BrokersChanged) -> Decision:
    """Who is gone leads nothing and is in no ISR that has another member; who arrived leads what nobody led, if it was
    in sync. The states of partitions are independent: they may be written one after another.

    A leader that began a new life has a new leader epoch where it has followers: they may hold what it had not yet on
    disk. Alone it keeps its epoch, unless its logs may have lost records that somebody has seen
    (`log.flush.mode=os` and a power cut): clients that know epochs then notice (KIP-320). Kafka begins a new epoch
    after every start; here a start after kill -9 does not write 10,000 states and epoch files for nothing.
    """
    arrived = frozenset(one.broker.broker_id for one in event.arrived)
    suspect = frozenset(one.broker.broker_id for one in event.arrived if not one.intact)
    gone = frozenset(event.gone) - arrived
    alive = (frozenset(image.brokers) - image.leaving | arrived) - gone
    there = alive | (image.leaving - gone)
    restarted = frozenset(
        one.broker.broker_id
        for one in event.arrived
        if image.broker_epochs.get(one.broker.broker_id) != one.broker.epoch
    )

    def change(partition: PartitionImage) -> Election | None:
        if partition.leader == NO_LEADER:
            # Others of its ISR may be alive with a failed disk; one of them would have led otherwise.
            found = elect(partition, arrived, suspect)
            return found if found != (NO_LEADER, partition.isr) else None
        if partition.leader not in there:
            return elect(partition, alive, suspect)
        if partition.leader in restarted and (len(partition.replicas) > 1 or partition.leader in suspect):
            return elect(partition, alive, suspect)
        # Also of those that nobody was told of as gone: they were before this controller came.
        left = tuple(member for member in partition.isr if member in there and member not in suspect)
        if left != partition.isr and partition.leader in left:
            return Election(partition.leader, left)
        return None

    topics, operations = _change_partitions(image, list(image.topics.values()), change)
    epochs = {**image.broker_epochs, **{one.broker.broker_id: one.broker.epoch for one in event.arrived}}
    if epochs != image.broker_epochs:
        # Last: should the writes before it not all be made, the next controller decides the same again.
        operations.append(Set(znodes.BROKER_EPOCHS, znodes.encode_broker_epochs(epochs)))
    delta = ImageDelta(
        topics=tuple(topics),
        brokers=tuple(one.broker for one in event.arrived),
        lost_brokers=tuple(sorted(gone & frozenset(image.brokers))),
        broker_epochs=epochs,
    )
    return Decision(tuple(operations), delta, None, separable=True)


@decides(FenceBroker)
def decide_fence(image: ClusterImage, event: FenceBroker) -> Decision:
    """Its registration goes, and with it, as after the end of a session, what it leads. If it lives all the same, it
    finds itself unregistered and begins a new life; until then the epochs of its partitions keep it from harm."""
    require_life(image, event.broker_id, event.broker_epoch)
    return Decision((Delete(f"{znodes.BROKER_IDS}/{event.broker_id}"),), ImageDelta(), None)


@decides(ShutDownBroker)
def decide_shut_down(image: ClusterImage, event: ShutDownBroker) -> Decision:
    """What is asked again is decided again: the states that are left."""
    require_life(image, event.broker_id, event.broker_epoch)
    staying = frozenset(image.brokers) - image.leaving - {event.broker_id}

    def change(partition: PartitionImage) -> Election | None:
        left = tuple(member for member in partition.isr if member != event.broker_id)
        if not left or left == partition.isr:
            return None
        if partition.leader != event.broker_id:
            return Election(partition.leader, left)
        found = elect(partition, staying)
        return found if found.leader != NO_LEADER else None

    topics, operations = _change_partitions(image, list(image.topics.values()), change)
    delta = ImageDelta(topics=tuple(topics), leaving=(event.broker_id,))
    remaining = tuple(
        (topic.name, index)
        for topic in image.apply(delta).topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == event.broker_id
    )
    return Decision(tuple(operations), delta, remaining, separable=True)


@decides(ReplicasOffline)
def decide_offline(image: ClusterImage, event: ReplicasOffline) -> Decision:
    """Replicas of a live broker are out of service: another member of the ISR leads, or nobody. The ISR never becomes
    empty, so that the data is found again when the replica is back."""
    out = frozenset(event.partitions)
    operations: list[Operation] = []
    changed: list[TopicImage] = []
    by_topic: dict[str, set[int]] = {}
    for topic_id, partition in out:
        name = image.names.get(topic_id)
        if name is not None:
            by_topic.setdefault(name, set()).add(partition)
    for name, indexes in sorted(by_topic.items()):
        topic = image.topics[name]
        partitions = list(topic.partitions)
        for index in sorted(indexes):
            if index >= len(partitions) or partitions[index].leader not in (event.broker_id, NO_LEADER):
                continue
            before = partitions[index]
            election = elect(before, frozenset(image.brokers) - image.leaving - {event.broker_id})
            if before.leader == NO_LEADER and election.leader == NO_LEADER:
                continue
            partitions[index] = _next_state(image, before, election)
            operations.append(_set_state(name, index, partitions[index], before))
        if partitions != list(topic.partitions):
            changed.append(with_partitions(topic, partitions))
    return Decision(tuple(operations), ImageDelta(topics=tuple(changed)), None)


def with_partitions(topic: TopicImage, partitions: list[PartitionImage]) -> TopicImage:
    """The topic with other partition states; its node is unchanged."""
    return msgspec.structs.replace(topic, partitions=tuple(partitions))


def _next_state(image: ClusterImage, before: PartitionImage, election: Election) -> PartitionImage:
    return PartitionImage(
        replicas=before.replicas,
        leader=election.leader,
        leader_epoch=before.leader_epoch + 1,
        isr=election.isr,
        controller_epoch=image.controller_epoch,
        state_version=before.state_version + 1,
        adding_replicas=before.adding_replicas,
        removing_replicas=before.removing_replicas,
    )


def _set_state(name: str, index: int, after: PartitionImage, before: PartitionImage) -> Operation:
    return Set(znodes.state_path(name, index), encode_state(after), before.state_version)


def _change_partitions(
    image: ClusterImage, topics: list[TopicImage], change: Callable[[PartitionImage], Election | None]
) -> tuple[list[TopicImage], list[Operation]]:
    changed: list[TopicImage] = []
    operations: list[Operation] = []
    # Partitions of equal state change equally: one object and one encoding stand for all of them.
    known: dict[PartitionImage, tuple[PartitionImage, bytes] | None] = {}
    for topic in topics:
        partitions = list(topic.partitions)
        touched = False
        for index, before in enumerate(topic.partitions):
            if before not in known:
                election = change(before)
                after = None if election is None else _next_state(image, before, election)
                known[before] = None if after is None else (after, encode_state(after))
            found = known[before]
            if found is not None:
                partitions[index], data = found
                operations.append(Set(znodes.state_path(topic.name, index), data, before.state_version))
                touched = True
        if touched:
            changed.append(with_partitions(topic, partitions))
    return changed, operations
