"""The assignor `simple` (KIP-932). Pure.

Each partition gets at least one reader, and each member with a subscription at least one partition. Few partitions
move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pybroker.broker.coordinators.share.group import Partition

NAME = "simple"


def simple(
    subscribers: Mapping[str, Set[Partition]], before: Mapping[str, Set[Partition]]
) -> dict[str, frozenset[Partition]]:
    """Return the partitions of each member.

    subscribers: partitions that each member may read. before: the previous partitions of each member. If there are more
    members than partitions, several members share a partition. Otherwise each partition has one member, and a member
    may have several partitions.
    """
    by_subscription: dict[frozenset[Partition], list[str]] = {}
    for member, subscribed_partitions in subscribers.items():
        by_subscription.setdefault(frozenset(subscribed_partitions), []).append(member)
    shares: dict[str, set[Partition]] = {member: set() for member in subscribers}
    for subscribed_partitions, members in by_subscription.items():
        if subscribed_partitions:
            _share_out(sorted(subscribed_partitions), sorted(members), before, shares)
    return {member: frozenset(share) for member, share in shares.items()}


def _share_out(
    partitions: Sequence[Partition],
    members: Sequence[str],
    before: Mapping[str, Set[Partition]],
    shares: dict[str, set[Partition]],
) -> None:
    """Distribute partitions to members with equal subscriptions.

    The number of (member, partition) pairs is the number of members or the number of partitions, whichever is larger.
    """
    count_members, count_partitions = len(members), len(partitions)
    pairs = max(count_members, count_partitions)
    member_most, member_extra = divmod(pairs, count_members)
    partition_most, partition_extra = divmod(pairs, count_partitions)
    readers = dict.fromkeys(partitions, 0)
    # Keep a member's previous partitions until the member or the partition has reached its share of pairs.
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
    # Assign partitions with the fewest readers first, to members with the fewest partitions.
    order = sorted(partitions, key=lambda partition: (readers[partition], partition))
    for member in sorted(members, key=lambda candidate: (len(shares[candidate]), candidate)):
        while len(shares[member]) < member_most or (len(shares[member]) == member_most and member_extra > 0):
            others = (partition for partition in order if partition not in shares[member])
            free = min(others, key=lambda partition: readers[partition], default=None)
            if free is None or readers[free] >= partition_most + (partition_extra > 0):
                break
            if len(shares[member]) == member_most:
                member_extra -= 1
            if readers[free] == partition_most:
                partition_extra -= 1
            shares[member].add(free)
            readers[free] += 1
