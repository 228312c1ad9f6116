"""Partition assignment: Kafka's strategies, computed by the group leader.

Members may be clients of any library. If a strategy prescribes the result, this module gives the same result as the
Java client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pybroker.client.client_errors import ClientConfigError
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.consumer.group.protocol_bytes import ProtocolSubscription

Assignment = dict[str, list[TopicPartition]]


class Assignor(ABC):
    """An assignment strategy. cooperative: members keep their partitions until these are reassigned (KIP-429)."""

    name: str
    cooperative = False

    @abstractmethod
    def assign(self, counts: Mapping[str, int], members: Mapping[str, ProtocolSubscription]) -> Assignment:
        """Return member → partitions for every member. counts: topic → number of partitions. members: id →
        subscription.
        """


class RangeAssignor(Assignor):
    """Assigns ranges of adjacent partitions of each topic, in the order of the member ids."""

    name = "range"

    def assign(self, counts: Mapping[str, int], members: Mapping[str, ProtocolSubscription]) -> Assignment:
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
    """Assigns all partitions in turn to the members that subscribe to the topic."""

    name = "roundrobin"

    def assign(self, counts: Mapping[str, int], members: Mapping[str, ProtocolSubscription]) -> Assignment:
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
    """Assigns as evenly as possible with as few moves as possible. A member revokes a partition before another member
    gets it.
    """

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, counts: Mapping[str, int], members: Mapping[str, ProtocolSubscription]) -> Assignment:
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
        # A partition that another member still owns is not assigned now. When its owner has revoked it, the next
        # rebalance assigns it.
        return {
            member: sorted(each for each in partitions if owners.get(each, member) == member)
            for member, partitions in result.items()
        }


def _owners(every: set[TopicPartition], members: Mapping[str, ProtocolSubscription]) -> dict[TopicPartition, str]:
    """Return partition → owner. If two members claim a partition, the member with the later generation owns it. If the
    generations are equal, the partition has no owner.
    """
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


def _balance(result: Assignment, members: Mapping[str, ProtocolSubscription]) -> None:
    """Move partitions from the members with the most to members that subscribe to the topic and have at least two
    fewer.
    """
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
    """Return the strategies of `partition.assignment.strategy`: names or Assignor objects. Raises ClientConfigError if
    a name is unknown.
    """
    found: list[Assignor] = []
    for each in chosen:
        if isinstance(each, Assignor):
            found.append(each)
        elif isinstance(each, str) and each in _ALL:
            found.append(_ALL[each]())
        else:
            known = ", ".join(name for name in _ALL if "." not in name)
            raise ClientConfigError(f"partition.assignment.strategy={each}: unknown; valid: {known}")
    return found
