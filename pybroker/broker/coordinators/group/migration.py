"""Conversion of a group with members between the classic and the consumer protocol (KIP-848).

A classic group becomes a consumer group when the first member of the consumer protocol joins. A consumer group becomes
classic when the last member of the consumer protocol has left. Pure functions; `GroupShard` makes the change durable.
"""

from __future__ import annotations

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import ClassicSide, ConsumerMember, ConsumerSubscription, Partition
from pybroker.broker.coordinators.group.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from pybroker.broker.coordinators.group.embedded import read_assignment, read_subscription, write_assignment
from pybroker.broker.coordinators.group.subscription import CONSUMER_PROTOCOL_TYPE
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.errors import KafkaError
from pybroker.native import CodecError
from pybroker.protocol.error_codes import ErrorCode


def upgrade(group: ClassicGroup, into: ConsumerGroup, topics: Topics, size_max: int) -> None:
    """Fill the consumer group `into` with the members of a classic group.

    The generation becomes the members' epoch, and the assignments become the target assignment. Raise KafkaError
    GROUP_ID_NOT_FOUND if the group cannot be upgraded.
    """
    if not group.uses_consumer_protocol:
        raise _refusal(group, "its members are not consumers")
    if len(group.members) > size_max:
        raise _refusal(group, "it has more members than group.consumer.max.size allows")
    members, taken = [], set[Partition]()
    for member in group.members.values():
        made, assigned = _as_consumer(group, member, topics)
        # If a client-side assignor gave a partition to two members, only the first keeps it.
        mine = {partition: group.generation for partition in assigned if partition not in taken}
        taken |= mine.keys()
        members.append(ConsumerMember(member.member_id, made, group.generation, group.generation, assigned=mine))
    into.epoch = into.target_epoch = group.generation
    for upgraded in members:
        into.target[upgraded.member_id] = frozenset(upgraded.assigned)
        into.put(upgraded)


def _as_consumer(
    group: ClassicGroup, member: ClassicMember, topics: Topics
) -> tuple[ConsumerSubscription, frozenset[Partition]]:
    # Before the first generation no protocol is selected.
    name = group.protocol_name or member.protocols[0][0]
    try:
        embedded = read_subscription(member.metadata(name), topics)
        assigned, is_custom = read_assignment(member.assignment, topics)
    except CodecError as error:
        raise _refusal(group, f"cannot decode the metadata of member {member.member_id}: {error}") from None
    if is_custom:
        raise _refusal(group, "its assignor stores user data with the members")
    # Skip partitions of earlier incarnations of a topic name.
    known = {topic_id for topic, topic_id in group.formed_topics.items() if topics.topic_id(topic) == topic_id}
    subscription = ConsumerSubscription(
        member.client_id,
        member.client_host,
        member.instance_id,
        embedded.rack_id,
        embedded.topics,
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicSide(member.session_timeout_ms, member.protocols),
    )
    return subscription, frozenset(partition for partition in assigned if partition[0] in known)


def _refusal(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is a classic group and cannot be upgraded: {why}."
    )


def can_downgrade(group: ConsumerGroup, size_max: int) -> bool:
    """Return whether all members use the classic protocol and fit into a classic group."""
    return group.all_classic and len(group.members) <= size_max


def downgrade(group: ConsumerGroup, topics: Topics, now_ms: int) -> ClassicGroup:
    """Return a classic group with the members of a consumer group; all members must use the classic protocol.

    The generation is the highest epoch that a member knows: the group epoch before the last member of the consumer
    protocol left. Until the members rejoin in the rebalance that the caller starts, they can read and commit their
    partitions.
    """
    known = max(member.epoch for member in group.members.values())
    classic = ClassicGroup(group.group_id, identity=group.identity, state_timestamp_ms=now_ms, generation=known)
    for member in group.members.values():
        side = member.subscription.classic
        assert side is not None
        classic.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.subscription.client_id,
                member.subscription.client_host,
                member.subscription.rebalance_timeout_ms,
                side.session_timeout_ms,
                CONSUMER_PROTOCOL_TYPE,
                side.protocols,
                write_assignment(member.assigned, side.protocols[0][1], topics),
            )
        )
    classic.protocol_name = classic.select_protocol()
    classic.state = ClassicGroupState.STABLE
    classic.read_subscriptions()
    return classic
