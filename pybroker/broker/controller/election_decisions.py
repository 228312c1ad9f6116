"""Decisions about leader elections that a client requests, and about the balance of preferred leaders. Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pybroker.broker.cluster.events import ElectedPartition, ElectionOutcome, ElectLeaders
from pybroker.broker.controller.decision import Decision, decides
from pybroker.broker.controller.internal_events import BalanceLeaders, ElectAnyLeaders
from pybroker.broker.controller.leader_election import LeaderElection, elect, emptied_of, linking_partitions, preferred
from pybroker.broker.controller.partition_states import (
    Losses,
    change_partitions,
    next_state,
    set_state,
    with_partitions,
)
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ImageDelta, PartitionImage, is_moving
from pybroker.broker.metadata.metadata_store import Operation
from pybroker.protocol.error_codes import ErrorCode

BALANCED_AT_ONCE = 1_000
"""Limit of leader changes per decision, because clients have to look up the new leader after each change."""


@decides(ElectLeaders)
def decide_elect_leaders(image: ClusterImage, event: ElectLeaders) -> Decision:
    """Elect leaders; each partition succeeds or fails independently (KIP-460). If the request names no partitions,
    consider all partitions, and return only those with an election."""
    alive = frozenset(image.brokers) - image.leaving
    changed: dict[str, list[PartitionImage]] = {}
    operations: list[Operation] = []
    outcomes: list[ElectionOutcome] = []
    losses = Losses()
    for requested in _all(image) if event.partitions is None else event.partitions:
        name, index = requested.topic, requested.partition
        topic = image.topics.get(name)
        if requested.topic_id is not None and (topic is None or topic.topic_id != requested.topic_id):
            problem = f"No topic has the id {requested.topic_id}."
            outcomes.append(ElectionOutcome(name, index, ErrorCode.UNKNOWN_TOPIC_ID, problem))
            continue
        if topic is None or not 0 <= index < len(topic.partitions):
            problem = f"There is no partition {name}-{index}."
            outcomes.append(ElectionOutcome(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem))
            continue
        partitions = changed.get(name) or list(topic.partitions)
        before = partitions[index]
        if (before.leader != NO_LEADER) if event.unclean else (before.leader == before.replicas[0]):
            if event.partitions is not None:
                outcomes.append(ElectionOutcome(name, index, ErrorCode.ELECTION_NOT_NEEDED, _not_needed(before)))
            continue
        if event.unclean and not alive.issuperset(before.isr) and index in linking_partitions(image, topic.topic_id):
            problem = (
                f"Partition {name}-{index} has no leader until a replica with the records of a committed staged "
                "ingest is back."
            )
            outcomes.append(ElectionOutcome(name, index, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, problem))
            continue
        election = _uncleanly(image, before, alive) if event.unclean else preferred(before, alive)
        if election is None:
            outcomes.append(_unavailable(name, index, before, event.unclean))
            continue
        losses.note(f"{name}-{index}", before, election)
        partitions[index] = next_state(image, before, election)
        changed[name] = partitions
        operations.append(set_state(name, index, partitions[index], before))
        outcomes.append(ElectionOutcome(name, index))
    topics = tuple(with_partitions(image.topics[name], partitions) for name, partitions in changed.items())
    delta = ImageDelta(topics=topics)
    return Decision(tuple(operations), delta, outcomes, separable=True, warnings=losses.warnings())


def _all(image: ClusterImage) -> Iterator[ElectedPartition]:
    for name, topic in image.topics.items():
        for index in range(len(topic.partitions)):
            yield ElectedPartition(name, index)


def _uncleanly(image: ClusterImage, before: PartitionImage, alive: frozenset[int]) -> LeaderElection | None:
    found = elect(before, alive, emptied=emptied_of(image), unclean=True)
    return None if found.leader == NO_LEADER else found


def _not_needed(before: PartitionImage) -> str:
    return f"Broker {before.leader} is the leader already."


def _unavailable(name: str, index: int, before: PartitionImage, unclean: bool) -> ElectionOutcome:
    if unclean:
        problem = f"No replica of {name}-{index} is alive. Start one of its brokers first."
        return ElectionOutcome(name, index, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, problem)
    problem = f"Broker {before.replicas[0]}, the preferred leader of {name}-{index}, is not alive or not in sync."
    return ElectionOutcome(name, index, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, problem)


@decides(BalanceLeaders)
def decide_balance(image: ClusterImage, event: BalanceLeaders) -> Decision:
    """Move at most `BALANCED_AT_ONCE` leaders. The caller repeats the event until every leader is in its place."""
    alive = frozenset(image.brokers) - image.leaving
    all_, lacking = Counter[int](), Counter[int]()
    for topic in image.topics.values():
        for partition in topic.partitions:
            first = partition.replicas[0]
            all_[first] += 1
            if partition.leader != first:
                lacking[first] += 1
    uneven = {broker for broker, count in lacking.items() if count * 100 > event.percentage * all_[broker]} & alive
    if not uneven:
        return Decision((), ImageDelta(), 0)
    left = BALANCED_AT_ONCE
    changed: dict[str, list[PartitionImage]] = {}
    operations: list[Operation] = []
    for name, topic in image.topics.items():
        for index, before in enumerate(topic.partitions):
            # During a reassignment, do not elect the first replica: it may soon be removed, or may just have joined the
            # ISR.
            if before.leader == before.replicas[0] or before.replicas[0] not in uneven or is_moving(before):
                continue
            election = preferred(before, alive)
            if election is not None and left:
                left -= 1
                after = next_state(image, before, election)
                changed.setdefault(name, list(topic.partitions))[index] = after
                operations.append(set_state(name, index, after, before))
    topics = tuple(with_partitions(image.topics[name], partitions) for name, partitions in changed.items())
    return Decision(tuple(operations), ImageDelta(topics=topics), len(operations), separable=True)


@decides(ElectAnyLeaders)
def decide_any_leaders(image: ClusterImage, _event: ElectAnyLeaders) -> Decision:
    """Elect any live replica for each partition without a leader, in topics that allow unclean elections."""
    alive = frozenset(image.brokers) - image.leaving

    def change(partition: PartitionImage, unclean: bool) -> LeaderElection | None:
        return _uncleanly(image, partition, alive) if unclean and partition.leader == NO_LEADER else None

    changed = change_partitions(image, image.topics.values(), change)
    delta = ImageDelta(topics=changed.topics)
    return Decision(changed.operations, delta, None, separable=True, warnings=changed.warnings)
