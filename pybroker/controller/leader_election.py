"""Who leads a partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pybroker.controller.attaching import attaching
from pybroker.metadata.image import NO_LEADER, ClusterImage, ConfigImage, ImageDelta, PartitionImage, TopicImage
from pybroker.metadata.znodes import DEFAULT_BROKER_CONFIG


class Election(NamedTuple):
    """Outcome: the leader (-1 for none) and the in-sync replicas."""

    leader: int
    isr: tuple[int, ...]


UNCLEAN = "unclean.leader.election.enable"


def elect(
    partition: PartitionImage,
    alive: frozenset[int],
    suspect: frozenset[int] = frozenset(),
    *,
    emptied: frozenset[int] = frozenset(),
    unclean: bool = False,
) -> Election:
    """The first replica in assignment order that is in sync and alive. Without one there is no leader and the ISR stays
    what it was: only those replicas hold all that was acknowledged. With `unclean` any replica that is alive leads
    then, alone in the ISR.

    `suspect` are replicas that may have lost the end of what they held: they leave every ISR that has another member,
    alive or not, and so lead only where nobody else was in sync. `emptied` have lost a log directory: where all that
    were in sync have, and there are other replicas, they lead only uncleanly, and after the others.
    """
    trusted = tuple(member for member in partition.isr if member not in suspect)
    isr = trusted or partition.isr
    barred = emptied if len(partition.replicas) > 1 and emptied.issuperset(partition.isr) else frozenset()
    for replica in partition.replicas:
        if replica in isr and replica in alive and replica not in barred:
            return Election(replica, tuple(member for member in isr if member in alive))
    if unclean:
        for replica in sorted(partition.replicas, key=lambda one: (one in barred, one in suspect)):
            if replica in alive:
                return Election(replica, (replica,))
    return Election(NO_LEADER, isr)


def emptied_of(image: ClusterImage) -> frozenset[int]:
    """Brokers that have lost a log directory, see `elect`."""
    return frozenset(broker_id for broker_id, broker in image.brokers.items() if broker.emptied)


def may_elect_uncleanly(image: ClusterImage, topic: TopicImage) -> bool:
    """Whether a topic rather loses records than to be without a leader. Not while a staged ingest is being attached: a
    leader without what was staged could never finish that."""
    own = topic.config.get(UNCLEAN)
    allowed = image.unclean_elections if own is None else own == "true"
    return allowed and not attaching(image, topic.topic_id)


def unclean_elections_of(broker_configs: Mapping[str, ConfigImage], broker_id: int, static: bool) -> bool:
    """What holds for topics that do not say, where that broker is the controller; `static` is what its file says."""
    for name in (str(broker_id), DEFAULT_BROKER_CONFIG):
        stored = broker_configs.get(name)
        if stored is not None and UNCLEAN in stored.config:
            return stored.config[UNCLEAN] == "true"
    return static


def allows_more(before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> bool:
    """Whether a change allows unclean elections where they were not allowed."""
    if after.unclean_elections and not before.unclean_elections:
        return True
    return any(
        known.config != topic.config and may_elect_uncleanly(after, topic) and not may_elect_uncleanly(before, known)
        for topic in delta.topics
        if (known := before.topics.get(topic.name)) is not None
    )


def preferred(partition: PartitionImage, alive: frozenset[int]) -> Election | None:
    """The first replica of the assignment as leader; None if it is not alive and in sync."""
    first = partition.replicas[0]
    return Election(first, partition.isr) if first in alive and first in partition.isr else None
