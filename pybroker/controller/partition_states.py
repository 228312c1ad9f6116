"""From an election to the new state of a partition: image and store operation together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pybroker.controller.leader_election import Election, may_elect_uncleanly
from pybroker.controller.topics import encode_state
from pybroker.metadata import znodes
from pybroker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from pybroker.metadata.store import Operation, Set

NAMED_MAX = 100
"""Partitions that one line of the log names."""


class Changed(msgspec.Struct, frozen=True):
    """Partitions that have another state."""

    topics: tuple[TopicImage, ...] = ()
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


def with_partitions(topic: TopicImage, partitions: Sequence[PartitionImage]) -> TopicImage:
    """The topic with other partition states; its node is unchanged."""
    return msgspec.structs.replace(topic, partitions=tuple(partitions))


def next_state(image: ClusterImage, before: PartitionImage, election: Election) -> PartitionImage:
    """A new leadership, also if the same replica leads."""
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


def set_state(name: str, index: int, after: PartitionImage, before: PartitionImage) -> Operation:
    """Writes it, if the state is what it was."""
    return Set(znodes.state_path(name, index), encode_state(after), before.state_version)


def change_partitions(
    image: ClusterImage, topics: Iterable[TopicImage], change: Callable[[PartitionImage, bool], Election | None]
) -> Changed:
    """`change` gives what becomes of a partition, None for nothing; it hears whether its topic rather loses records
    than to be without a leader."""
    changed: list[TopicImage] = []
    operations: list[Operation] = []
    unclean: list[str] = []
    # Partitions of equal state change equally: one object and one encoding stand for all of them.
    known: dict[tuple[PartitionImage, bool], tuple[PartitionImage, bytes] | None] = {}
    for topic in topics:
        lossy = may_elect_uncleanly(image, topic)
        partitions = list(topic.partitions)
        touched = False
        for index, before in enumerate(topic.partitions):
            key = (before, lossy)
            if key not in known:
                election = change(before, lossy)
                after = None if election is None else next_state(image, before, election)
                known[key] = None if after is None else (after, encode_state(after))
            found = known[key]
            if found is not None:
                partitions[index], data = found
                operations.append(Set(znodes.state_path(topic.name, index), data, before.state_version))
                touched = True
                if is_unclean(before, found[0].leader):
                    unclean.append(f"{topic.name}-{index}")
        if touched:
            changed.append(with_partitions(topic, partitions))
    return Changed(tuple(changed), tuple(operations), unclean_warnings(unclean))


def is_unclean(before: PartitionImage, leader: int) -> bool:
    """Whether electing that leader loses what only others had."""
    return leader not in (NO_LEADER, *before.isr)


def unclean_warnings(partitions: Sequence[str]) -> tuple[str, ...]:
    """What the operator is told of unclean elections."""
    return tuple(
        "replicas that were not in sync lead now, since no other was left: records that were acknowledged may be lost "
        f"in {', '.join(partitions[at : at + NAMED_MAX])}"
        for at in range(0, len(partitions), NAMED_MAX)
    )


def last_known_warnings(changed: Iterable[TopicImage], suspect: frozenset[int]) -> tuple[str, ...]:
    """What the operator is told of leaders that may have lost the end of their logs, and are all that was in sync."""
    partitions = [
        f"{topic.name}-{index}"
        for topic in changed
        for index, partition in enumerate(topic.partitions)
        if partition.leader in suspect and len(partition.replicas) > 1
    ]
    return tuple(
        "their machine lost power (log.flush.mode=os), and nobody else was in sync: records that were acknowledged may "
        f"be lost in {', '.join(partitions[at : at + NAMED_MAX])}"
        for at in range(0, len(partitions), NAMED_MAX)
    )
