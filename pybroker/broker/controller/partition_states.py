"""The new state of a partition after an election: in the image, and as an operation for the store. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pybroker.broker.controller.leader_election import LeaderElection, awaited, may_elect_uncleanly, never_began
from pybroker.broker.controller.topic_decisions import encode_state
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from pybroker.broker.metadata.metadata_store import Operation, Set

NAMED_MAX = 100
"""Limit of partitions named in one log line."""


class PartitionChange(msgspec.Struct, frozen=True):
    topics: tuple[TopicImage, ...] = ()
    operations: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    more: bool = False
    """True if more partitions have to change than the limit allows (`at_most` of `change_partitions`)."""


def with_partitions(topic: TopicImage, partitions: Sequence[PartitionImage]) -> TopicImage:
    """Return the topic with the given partition states and its other attributes unchanged."""
    return msgspec.structs.replace(topic, partitions=tuple(partitions))


def next_state(image: ClusterImage, before: PartitionImage, election: LeaderElection) -> PartitionImage:
    """Return the partition's state in a new leader epoch, even if the leader stays.

    If the election adds a suspect, this suspect was in the ISR and had a log. Therefore a missing log no longer proves
    that the partition is empty.
    """
    known = {log_end.broker_id for log_end in before.suspect}
    return PartitionImage(
        replicas=before.replicas,
        leader=election.leader,
        leader_epoch=before.leader_epoch + 1,
        isr=election.isr,
        controller_epoch=image.controller_epoch,
        state_version=before.state_version + 1,
        adding_replicas=before.adding_replicas,
        removing_replicas=before.removing_replicas,
        suspect=election.suspect,
        young=before.young and known.issuperset(log_end.broker_id for log_end in election.suspect),
        offline=tuple(broker_id for broker_id in before.offline if broker_id != election.leader),
    )


def set_state(name: str, index: int, after: PartitionImage, before: PartitionImage) -> Operation:
    """Return an operation that writes the state, if the stored state equals the state in the image."""
    return Set(znodes.state_path(name, index), encode_state(after), before.state_version)


def change_partitions(
    image: ClusterImage,
    topics: Iterable[TopicImage],
    change: Callable[[PartitionImage, bool], LeaderElection | None],
    *,
    at_most: int | None = None,
) -> PartitionChange:
    """Change the states of partitions.

    `change` returns the election of a partition, or None for no change; its second argument is whether the topic allows
    unclean elections. At most `at_most` partitions change.
    """
    changed: list[TopicImage] = []
    operations: list[Operation] = []
    losses = Losses()
    # Partitions in equal states change equally. They share one object and one encoding.
    known: dict[tuple[PartitionImage, bool], tuple[PartitionImage, bytes, LeaderElection] | None] = {}
    more = False
    for topic in topics:
        lossy = may_elect_uncleanly(image, topic)
        partitions = list(topic.partitions)
        touched = False
        for index, before in enumerate(topic.partitions):
            key = (before, lossy)
            if key not in known:
                election = change(before, lossy)
                known[key] = None
                if election is not None:
                    after = next_state(image, before, election)
                    known[key] = after, encode_state(after), election
            found = known[key]
            if found is not None and len(operations) == at_most:
                more = True
                break
            if found is not None:
                partitions[index], data, election = found
                operations.append(Set(znodes.state_path(topic.name, index), data, before.state_version))
                touched = True
                losses.note(f"{topic.name}-{index}", before, election)
        if touched:
            changed.append(with_partitions(topic, partitions))
        if more:
            break
    return PartitionChange(tuple(changed), tuple(operations), losses.warnings(), more)


BEHIND = "elected leaders that were not in sync, because no in-sync replica was left"
HURT = "may have lost the end of their logs (a machine lost power with log.flush.mode=os, or data is gone)"
FURTHEST = f"elected the in-sync replica with the longest log, but every in-sync replica {HURT}"
NOT_AWAITED = f"an unclean election chose leaders that {HURT}, without waiting for replicas that may have longer logs"


MAY_HAVE_MORE = (
    "may have records that other replicas have lost (a machine lost power with log.flush.mode=os, or data is gone)"
)
MAY_HAVE_BEGUN = "may have the only log of partitions whose creation was interrupted"


class Losses:
    """Collects warnings for the operator about records that elections may lose: partitions by cause."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {BEHIND: [], NOT_AWAITED: [], FURTHEST: []}

    def note(self, partition: str, before: PartitionImage, election: LeaderElection) -> None:
        """Record what one election may lose; most elections lose nothing."""
        if election.doubtful:
            self._found[NOT_AWAITED if election.unclean else FURTHEST].append(partition)
        elif election.leader not in (NO_LEADER, *before.isr, *(log_end.broker_id for log_end in before.suspect)):
            self._found[BEHIND].append(partition)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings; one warning covers many partitions."""
        return tuple(
            f"{what}; acknowledged records may be lost: {', '.join(found[at : at + NAMED_MAX])}"
            for what, found in self._found.items()
            for at in range(0, len(found), NAMED_MAX)
        )


def waiting_warnings(
    before: ClusterImage, changed: Iterable[TopicImage], alive: frozenset[int], emptied: frozenset[int]
) -> tuple[str, ...]:
    """Return warnings about partitions without a leader that wait for brokers which may never come back. Report each
    partition once. `emptied`: the brokers that lost a log directory."""
    waiting: dict[tuple[tuple[int, ...], bool], list[str]] = {}
    for topic in changed:
        known = before.topics.get(topic.name)
        for index, partition in enumerate(topic.partitions):
            missing = awaited(partition, alive) if partition.suspect else ()
            if (
                missing
                and known is not None
                and not (known.partitions[index].suspect and awaited(known.partitions[index], alive))
            ):
                began = not never_began(partition, emptied)
                waiting.setdefault((missing, began), []).append(f"{topic.name}-{index}")
    return tuple(
        (
            f"partitions have no leader until brokers {', '.join(map(str, brokers))} are back, which "
            f"{(MAY_HAVE_MORE if began else MAY_HAVE_BEGUN)}. To go on without them run an unclean election "
            f"(kafka-leader-election --election-type unclean): {', '.join(names[at : at + NAMED_MAX])}"
        )
        for (brokers, began), names in waiting.items()
        for at in range(0, len(names), NAMED_MAX)
    )
