"""The assignor `simple` (KIP-932): every partition has a reader, every member that may have one has a partition, and as
little moves as that takes. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pybroker.broker.coordinators.share.group import Partition

NAME = "simple"


def simple(
    subscribers: Mapping[str, Set[Partition]], before: Mapping[str, Set[Partition]]
) -> dict[str, frozenset[Partition]]:
    """subscribers: what each member may read. before: what it had. What each shall have.

    With more members than partitions several share one; with fewer each has several and none is shared.
    """
    by_wish: dict[frozenset[Partition], list[str]] = {}
    for member, wanted in subscribers.items():
        by_wish.setdefault(frozenset(wanted), []).append(member)
    shares: dict[str, set[Partition]] = {member: set() for member in subscribers}
    for wanted, members in by_wish.items():
        if wanted:
            _share_out(sorted(wanted), sorted(members), before, shares)
    return {member: frozenset(share) for member, share in shares.items()}


def _share_out(
    partitions: Sequence[Partition],
    members: Sequence[str],
    before: Mapping[str, Set[Partition]],
    shares: dict[str, set[Partition]],
) -> None:
    """Members that want the same: the larger side sets how many pairs there are, one for each of its own. So whoever
    of it has none yet always finds room on the other side, and nobody is left over."""
    count_members, count_partitions = len(members), len(partitions)
    pairs = max(count_members, count_partitions)
    member_most, member_extra = divmod(pairs, count_members)
    partition_most, partition_extra = divmod(pairs, count_partitions)
    readers = dict.fromkeys(partitions, 0)
    # What each had, as far as its share and the partition's go.
    for member in members:
        for partition in sorted(before.get(member, ())):
            if partition not in readers:
                continue
            room = partition_most + (partition_extra > 0)
            has = len(shares[member])
            if has < member_most + (member_extra > 0) and readers[partition] < room:
                if has == member_most:
                    member_extra -= 1
                if readers[partition] == partition_most:
                    partition_extra -= 1
                shares[member].add(partition)
                readers[partition] += 1
    # Partitions with the fewest readers first, to members with the least.
    order = sorted(partitions, key=lambda one: (readers[one], one))
    for member in sorted(members, key=lambda one: (len(shares[one]), one)):
        while len(shares[member]) < member_most or (len(shares[member]) == member_most and member_extra > 0):
            free = min((one for one in order if one not in shares[member]), key=lambda one: readers[one], default=None)
            if free is None or readers[free] >= partition_most + (partition_extra > 0):
                break
            if len(shares[member]) == member_most:
                member_extra -= 1
            if readers[free] == partition_most:
                partition_extra -= 1
            shares[member].add(free)
            readers[free] += 1
