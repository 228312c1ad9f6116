"""Decisions about brokers that start, stop or cannot serve some replicas. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pybroker.broker.cluster.events import ReplicasOffline, ShutDownBroker, ShutDownOutcome
from pybroker.broker.controller.decision import Decision, decides, require_broker_epoch
from pybroker.broker.controller.internal_events import BrokersChanged, FenceBroker
from pybroker.broker.controller.leader_election import (
    LeaderElection,
    elect,
    emptied_of,
    may_elect_uncleanly,
    with_suspects,
    without_false_alarm,
)
from pybroker.broker.controller.partition_states import (
    Losses,
    change_partitions,
    next_state,
    set_state,
    waiting_warnings,
    with_partitions,
)
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import (
    NO_LEADER,
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
)
from pybroker.broker.metadata.metadata_store import Delete, Operation, Set


@decides(BrokersChanged)
def decide_brokers(image: ClusterImage, event: BrokersChanged) -> Decision:
    """Process brokers that have started and brokers that have been lost. A lost broker loses its leaderships, and
    leaves each ISR that has another member. A started broker becomes the leader of each partition that has no leader
    and in whose ISR it is. The store may write the states of the partitions one after another, because they are
    independent.

    A restarted leader gets a new leader epoch if it has followers: the followers may hold records that the leader had
    not yet written to disk. A leader without followers keeps its epoch, unless its log may have lost visible records
    (`log.flush.mode=os` and a power failure). In that case clients detect the loss by the new epoch (KIP-320). Kafka
    begins a new epoch after every start. pybroker does not, because with 10,000 partitions a start after kill -9 would
    write 10,000 states and epoch files.

    If a broker has lost a log directory, its log may be empty. If the partition has other replicas, such a broker does
    not become leader, even if it is the only ISR member: the other replicas would truncate their logs. The partition
    has no leader until the directory is back, or until an unclean election.
    """
    arrived = frozenset(arrival.broker.broker_id for arrival in event.arrived)
    gone = frozenset(event.gone) - arrived
    alive = (frozenset(image.brokers) - image.leaving | arrived) - gone
    there = alive | (image.leaving - gone)
    restarted = frozenset(
        arrival.broker.broker_id
        for arrival in event.arrived
        if image.broker_epochs.get(arrival.broker.broker_id) != arrival.broker.epoch
    )
    # An earlier controller may already have processed this broker epoch.
    suspect = restarted.intersection(arrival.broker.broker_id for arrival in event.arrived if not arrival.intact)
    emptied = emptied_of(image) - arrived | {
        arrival.broker.broker_id for arrival in event.arrived if arrival.broker.emptied
    }

    def change(partition: PartitionImage, unclean: bool) -> LeaderElection | None:
        before, partition = partition, with_suspects(partition, suspect, restarted)
        if partition.leader == NO_LEADER:
            # If another ISR member could lead, it would already be the leader. All other members are down, have a
            # failed disk, or are suspects.
            found = elect(partition, arrived, emptied=emptied, unclean=unclean)
            found = without_false_alarm(found, partition, emptied)
            return found if found[:3] != (NO_LEADER, before.isr, before.suspect) else None
        # If the broker became leader or ISR member after it lost its disk, it has all records again.
        lost = emptied & suspect
        if partition.leader not in there:
            return elect(partition, alive, emptied=lost, unclean=unclean)
        if partition.leader in restarted and (len(partition.replicas) > 1 or partition.leader in suspect):
            return elect(partition, alive, emptied=lost, unclean=unclean)
        # Also keep brokers whose registration was removed before this controller started.
        left = tuple(member for member in partition.isr if member in there and member not in suspect)
        if left != partition.isr and partition.leader in left:
            return LeaderElection(partition.leader, left, partition.suspect)
        return None

    back = _back_online(image.topics.values(), restarted)
    changed = change_partitions(image, (back.get(name, topic) for name, topic in image.topics.items()), change)
    for topic in changed.topics:
        back.pop(topic.name, None)
    operations = list(changed.operations)
    warnings = (*changed.warnings, *waiting_warnings(image, changed.topics, alive, emptied))
    epochs = {**image.broker_epochs, **{arrival.broker.broker_id: arrival.broker.epoch for arrival in event.arrived}}
    if epochs != image.broker_epochs:
        # Write this last: if a crash prevents some of the earlier writes, the next controller makes the same decision
        # again.
        operations.append(Set(znodes.BROKER_EPOCHS, znodes.encode_broker_epochs(epochs)))
    delta = ImageDelta(
        topics=(*changed.topics, *back.values()),
        brokers=tuple(arrival.broker for arrival in event.arrived),
        lost_brokers=tuple(sorted(gone & frozenset(image.brokers))),
        broker_epochs=epochs,
    )
    return Decision(tuple(operations), delta, None, separable=True, warnings=warnings)


def _back_online(topics: Iterable[TopicImage], restarted: frozenset[int]) -> dict[str, TopicImage]:
    """Return, by name, the topics with replicas that were offline before their broker restarted. The broker reports
    offline replicas again after its start."""
    found: dict[str, TopicImage] = {}
    for topic in topics if restarted else ():
        if all(restarted.isdisjoint(partition.offline) for partition in topic.partitions):
            continue
        found[topic.name] = with_partitions(
            topic,
            [
                msgspec.structs.replace(
                    partition, offline=tuple(each for each in partition.offline if each not in restarted)
                )
                if partition.offline
                else partition
                for partition in topic.partitions
            ],
        )
    return found


@decides(FenceBroker)
def decide_fence(image: ClusterImage, event: FenceBroker) -> Decision:
    """Remove the broker's registration and its leaderships, as at the end of a session. A broker that is still running
    notices the removal and registers with a new broker epoch. Until then, the new leader epochs fence it.
    """
    require_broker_epoch(image, event.broker_id, event.broker_epoch)
    return Decision((Delete(f"{znodes.BROKER_IDS}/{event.broker_id}"),), ImageDelta(), None)


TAKEN_OVER_MAX = 1_000
"""Limit of partitions per decision during a controlled shutdown. The controller decides other events in between."""


@decides(ShutDownBroker)
def decide_shut_down(image: ClusterImage, event: ShutDownBroker) -> Decision:
    """Move leadership and ISR membership away from a broker that shuts down. If partitions are left, the broker submits
    the event again."""
    require_broker_epoch(image, event.broker_id, event.broker_epoch)
    staying = frozenset(image.brokers) - image.leaving - {event.broker_id}

    def change(partition: PartitionImage, _unclean: bool) -> LeaderElection | None:
        left = tuple(member for member in partition.isr if member != event.broker_id)
        if not left or left == partition.isr:
            return None
        if partition.leader != event.broker_id:
            return LeaderElection(partition.leader, left, partition.suspect)
        found = elect(partition, staying)
        return found if found.leader != NO_LEADER else None

    changed = change_partitions(image, image.topics.values(), change, at_most=TAKEN_OVER_MAX)
    delta = ImageDelta(topics=changed.topics, leaving=(event.broker_id,))
    if changed.more:
        return Decision(changed.operations, delta, ShutDownOutcome(more=True), separable=True)
    remaining = tuple(
        (topic.name, index)
        for topic in image.apply(delta).topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == event.broker_id
    )
    return Decision(changed.operations, delta, ShutDownOutcome(remaining), separable=True)


@decides(ReplicasOffline)
def decide_offline(image: ClusterImage, event: ReplicasOffline) -> Decision:
    """Mark replicas of a running broker as offline. Another member of the ISR becomes leader, or the partition has no
    leader. The last member stays in the ISR: its log has all acknowledged records when the replica is back. An unclean
    election considers only replicas that come after this broker in the assignment. Therefore the elections end, even if
    all disks fail one after another."""
    if event.broker_epoch >= 0:
        require_broker_epoch(image, event.broker_id, event.broker_epoch)
    out = frozenset(event.partitions)
    operations: list[Operation] = []
    changed: list[TopicImage] = []
    losses = Losses()
    by_topic: dict[str, set[int]] = {}
    for topic_id, partition in out:
        name = image.names.get(topic_id)
        if name is not None:
            by_topic.setdefault(name, set()).add(partition)
    alive = frozenset(image.brokers) - image.leaving - {event.broker_id}
    for name, indexes in sorted(by_topic.items()):
        topic = image.topics[name]
        partitions = list(topic.partitions)
        for index in sorted(indexes):
            if index >= len(partitions):
                continue
            before = partitions[index] = _with_offline(partitions[index], event.broker_id)
            if before.leader not in (event.broker_id, NO_LEADER):
                continue
            emptied = emptied_of(image) if before.leader == NO_LEADER else frozenset[int]()
            election = elect(before, alive, emptied=emptied)
            if election.leader == NO_LEADER and may_elect_uncleanly(image, topic):
                election = elect(before, alive.intersection(_behind(before, event.broker_id)), unclean=True)
            if before.leader == NO_LEADER and election.leader == NO_LEADER:
                continue
            losses.note(f"{name}-{index}", before, election)
            partitions[index] = next_state(image, before, election)
            operations.append(set_state(name, index, partitions[index], before))
        if partitions != list(topic.partitions):
            changed.append(with_partitions(topic, partitions))
    delta = ImageDelta(topics=tuple(changed))
    return Decision(tuple(operations), delta, None, warnings=losses.warnings())


def _with_offline(partition: PartitionImage, broker_id: int) -> PartitionImage:
    if broker_id not in partition.replicas or broker_id in partition.offline:
        return partition
    return msgspec.structs.replace(partition, offline=(*partition.offline, broker_id))


def _behind(partition: PartitionImage, broker_id: int) -> tuple[int, ...]:
    replicas = partition.replicas
    return replicas[replicas.index(broker_id) + 1 :] if broker_id in replicas else ()
