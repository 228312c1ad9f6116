"""Partition assignment in a group: Kafka's strategies, as computed by the member that leads the group.

The leader may be a client of any family; where a strategy prescribes the result, it is the Java client's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pybroker.client.cluster import TopicPartition
from pybroker.client.consumer.group.protocol_bytes import Subscription
from pybroker.client.errors import ClientConfigError

Assignment = dict[str, list[TopicPartition]]


class Assignor(ABC):
    """A strategy. cooperative: members keep their partitions until those are reassigned (KIP-429)."""

    name: str
    cooperative = False

    @abstractmethod
    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """counts: topic → number of partitions; members: id → subscription. Every member is in the result."""


class RangeAssignor(Assignor):
    """Topic by topic, neighbouring partitions in the order of the members' ids."""

    name = "range"

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        result: Assignment = {member: [] for member in members}
        for topic, count in sorted(counts.items()):
            readers = sorted(member for member, wants in members.items() if topic in wants.topics)
            if not readers:
                continue
            share, extra = divmod(count, len(readers))
            begin = 0
            for index, member in enumerate(readers):
                end = begin + share + (index < extra)
                result[member] += [TopicPartition(topic, each) for each in range(begin, end)]
                begin = end
        return result


class RoundRobinAssignor(Assignor):
    """All partitions in turn to the members that want their topic."""

    name = "roundrobin"

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        result: Assignment = {member: [] for member in members}
        order = sorted(members)
        turn = 0
        for topic, count in sorted(counts.items()):
            if not any(topic in wants.topics for wants in members.values()):
                continue
            for index in range(count):
                while topic not in members[order[turn % len(order)]].topics:
                    turn += 1
                result[order[turn % len(order)]].append(TopicPartition(topic, index))
                turn += 1
        return result


class CooperativeStickyAssignor(Assignor):
    """As balanced as possible with as few moves as possible; a partition that moves is revoked before another member
    gets it.
    """

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        every = {TopicPartition(topic, index) for topic, count in counts.items() for index in range(count)}
        owners = _owners(every, members)
        result: Assignment = {member: [] for member in sorted(members)}
        for partition, member in sorted(owners.items()):
            result[member].append(partition)
        for partition in sorted(every - owners.keys()):
            able = [member for member in result if partition.topic in members[member].topics]
            if able:
                result[min(able, key=lambda each: (len(result[each]), each))].append(partition)
        _balance(result, members)
        # Nobody gets what another still holds: that comes in the next round, once it was given up.
        return {
            member: sorted(each for each in partitions if owners.get(each, member) == member)
            for member, partitions in result.items()
        }


def _owners(every: set[TopicPartition], members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Who holds what; of two that claim a partition, the one of the later generation, of equals nobody."""
    newest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(members):
        wants = members[member]
        for partition in wants.owned:
            if partition not in every or partition.topic not in wants.topics:
                continue
            known = newest.get(partition)
            if known is None or wants.generation > known[0]:
                newest[partition] = (wants.generation, member)
            elif wants.generation == known[0]:
                newest[partition] = (wants.generation, None)
    return {partition: member for partition, (_, member) in newest.items() if member is not None}


def _balance(result: Assignment, members: Mapping[str, Subscription]) -> None:
    """Moves partitions from those that have most to those that may read them and have two less."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(result, key=lambda each: (-len(result[each]), each)):
            for partition in list(reversed(result[giver])):
                able = [
                    member
                    for member in result
                    if partition.topic in members[member].topics and len(result[member]) + 1 < len(result[giver])
                ]
                if able:
                    taker = min(able, key=lambda each: (len(result[each]), each))
                    result[giver].remove(partition)
                    result[taker].append(partition)
                    moved = True


_ALL: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "org.apache.kafka.clients.consumer.RangeAssignor": RangeAssignor,
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": RoundRobinAssignor,
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def assignors(chosen: Sequence[object]) -> list[Assignor]:
    """The strategies of `partition.assignment.strategy`: names, or objects of one's own. Raises ClientConfigError."""
    found: list[Assignor] = []
    for each in chosen:
        if isinstance(each, Assignor):
            found.append(each)
        elif isinstance(each, str) and each in _ALL:
            found.append(_ALL[each]())
        else:
            known = ", ".join(name for name in _ALL if "." not in name)
            raise ClientConfigError(f"partition.assignment.strategy={each}: known are {known}")
    return found
