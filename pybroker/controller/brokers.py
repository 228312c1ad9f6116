"""Decisions about brokers: a broker came up, or cannot serve some replicas. Pure functions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.cluster.events import RegisterBroker
from pybroker.controller.decision import Decision, decides
from pybroker.controller.events import ReplicasOffline
from pybroker.controller.leader_election import Election, elect
from pybroker.controller.topics import encode_state
from pybroker.metadata import znodes
from pybroker.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
)
from pybroker.metadata.store import Operation, Set


@decides(RegisterBroker)
def decide_register(image: ClusterImage, event: RegisterBroker) -> Decision:
    """The broker is alive: partitions without a leader get one, if it is in their ISR.

    Where its logs may have lost records that somebody has seen (`log.flush.mode=os` and a power cut), the partitions it
    led begin a new leader epoch: clients that know epochs then notice (KIP-320). Kafka does so after every start; here
    a start after kill -9 does not write 10,000 states and epoch files for nothing.
    """
    broker = BrokerImage(event.broker_id, event.epoch, event.endpoints, event.rack)
    alive = frozenset(image.brokers) | {event.broker_id}

    def change(partition: PartitionImage) -> Election | None:
        if event.broker_id not in partition.replicas:
            return None
        if partition.leader == NO_LEADER:
            # Others of its ISR may be alive with a failed disk; that one would have led otherwise.
            found = elect(partition, frozenset((event.broker_id,)))
            return found if found.leader != NO_LEADER else None
        if partition.leader == event.broker_id and not event.intact:
            return Election(partition.leader, partition.isr)
        if partition.leader not in alive:
            return elect(partition, alive)
        return None

    topics, operations = _change_partitions(image, list(image.topics.values()), change)
    return Decision(tuple(operations), ImageDelta(topics=tuple(topics), brokers=(broker,)), None)


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
            election = elect(before, frozenset(image.brokers) - {event.broker_id})
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
