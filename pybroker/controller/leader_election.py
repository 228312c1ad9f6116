"""Who leads a partition. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.metadata.image import NO_LEADER, PartitionImage


class Election(NamedTuple):
    """Outcome: the leader (-1 for none) and the in-sync replicas."""

    leader: int
    isr: tuple[int, ...]


def elect(partition: PartitionImage, alive: frozenset[int], suspect: frozenset[int] = frozenset()) -> Election:
    """The first replica in assignment order that is in sync and alive. Without one there is no leader and the ISR stays
    what it was: only those replicas hold all that was acknowledged (unclean election is off).

    `suspect` are replicas that may have lost the end of what they held: they leave every ISR that has another member,
    alive or not, and so lead only where nobody else was in sync.
    """
    trusted = tuple(member for member in partition.isr if member not in suspect)
    isr = trusted or partition.isr
    for replica in partition.replicas:
        if replica in isr and replica in alive:
            return Election(replica, tuple(member for member in isr if member in alive))
    return Election(NO_LEADER, isr)
