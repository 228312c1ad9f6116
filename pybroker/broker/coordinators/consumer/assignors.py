"""Server-side assignors: pure functions that assign a group's partitions to its members, by topic id (KIP-848).

uniform: members get equal numbers of partitions, with as few moves as possible.

range: each subscriber of a topic gets a range of adjacent partitions. Topics with equal partition counts and equal
subscribers are divided equally.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from pybroker.broker.coordinators.consumer.model import Partition
from pybroker.native import Uuid

Target = dict[str, frozenset[Partition]]


class Subscriber(msgspec.Struct, frozen=True):
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[Uuid]
    """The existing topics that the member subscribes to."""
    has: frozenset[Partition]
    """The member's partitions in the previous target assignment."""


Assignor = Callable[[Sequence[Subscriber], Mapping[Uuid, int]], Target]
"""(members, topic → number of partitions) → partitions of each member."""


def uniform(members: Sequence[Subscriber], topics: Mapping[Uuid, int]) -> Target:
    """Assign equal numbers of partitions with few moves."""
    if not members:
        return {}
    first = members[0].topics
    if all(member.topics == first for member in members):
        return _equal_shares(members, {topic: topics[topic] for topic in first})
    return _balanced(members, topics)


def _equal_shares(members: Sequence[Subscriber], topics: Mapping[Uuid, int]) -> Target:
    """Assign partitions to members with equal subscriptions. Members keep partitions up to an equal share, then get
    unowned partitions until they have that share."""
    free = dict.fromkeys((topic, index) for topic in sorted(topics) for index in range(topics[topic]))
    share, extra = divmod(len(free), len(members))
    shares: dict[str, list[Partition]] = {}
    # Members that own more than their share come first. If the shares differ by one, these members get the larger
    # shares.
    for member in sorted(members, key=lambda candidate: (-len(candidate.has), candidate.member_id)):
        has = sorted(partition for partition in member.has if partition in free)
        most = share
        if len(has) > share and extra:
            most, extra = share + 1, extra - 1
        shares[member.member_id] = has[:most]
        for partition in has[:most]:
            del free[partition]
    left = iter(free)
    for member_id in sorted(shares, key=lambda candidate: (-len(shares[candidate]), candidate)):
        kept = shares[member_id]
        most = share
        if len(kept) <= share and extra:
            most, extra = share + 1, extra - 1
        while len(kept) < most:
            kept.append(next(left))
    return {member_id: frozenset(kept) for member_id, kept in shares.items()}


def _balanced(members: Sequence[Subscriber], topics: Mapping[Uuid, int]) -> Target:
    """Assign partitions to members with different subscriptions.

    Each unowned partition goes to the least loaded subscriber. Then partitions move from the most to the least loaded
    subscriber of their topic while a move balances the load.
    """
    subscribers: dict[Uuid, list[str]] = {}
    for member in members:
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(member.member_id)
    load = {member.member_id: 0 for member in members}
    owned: dict[Uuid, dict[str, list[int]]] = {
        topic: {member_id: [] for member_id in who} for topic, who in subscribers.items()
    }
    taken: set[Partition] = set()
    for member in members:
        for topic, index in sorted(member.has):
            if topic in member.topics and index < topics[topic] and (topic, index) not in taken:
                taken.add((topic, index))
                owned[topic][member.member_id].append(index)
                load[member.member_id] += 1
    # Assign topics with few subscribers first, because members that subscribe to many topics are easier to balance
    # later.
    for topic in sorted(subscribers, key=lambda name: (len(subscribers[name]), name)):
        for index in range(topics[topic]):
            if (topic, index) not in taken:
                who = min(subscribers[topic], key=lambda candidate: (load[candidate], candidate))
                owned[topic][who].append(index)
                load[who] += 1
    # Each move reduces the sum of the squared loads, so the loop terminates.
    moved = True
    while moved:
        moved = False
        for topic in sorted(owned):
            moved |= _level(owned[topic], load)
    return {
        member.member_id: frozenset(
            (topic, index) for topic in member.topics for index in owned[topic][member.member_id]
        )
        for member in members
    }


def _level(owned: dict[str, list[int]], load: dict[str, int]) -> bool:
    """Balance the load of one topic's subscribers as far as the topic's partitions allow. Return whether a partition
    moved."""
    moved = False
    while True:
        givers = [member_id for member_id in owned if owned[member_id]]
        giver = max(givers, key=lambda member_id: (load[member_id], member_id), default=None)
        taker = min(owned, key=lambda member_id: (load[member_id], member_id))
        if giver is None or load[giver] - load[taker] < 2:
            return moved
        owned[taker].append(owned[giver].pop())
        load[giver] -= 1
        load[taker] += 1
        moved = True


def by_range(members: Sequence[Subscriber], topics: Mapping[Uuid, int]) -> Target:
    """Assign adjacent partitions of each topic to its subscribers."""
    shares: dict[str, set[Partition]] = {member.member_id: set() for member in members}
    # Sort static members by instance id, because their member id changes at each restart.
    order = sorted(members, key=lambda member: (member.instance_id is None, member.instance_id or member.member_id))
    for topic in {topic for member in members for topic in member.topics}:
        who = [member.member_id for member in order if topic in member.topics]
        share, extra = divmod(topics[topic], len(who))
        start = 0
        for place, member_id in enumerate(who):
            end = start + share + (place < extra)
            shares[member_id].update((topic, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": by_range}
