"""A group with members changes its protocol (KIP-848): classic → consumer when the first member of the newer protocol
joins, consumer → classic when the last one has left. Pure functions; `GroupShard` makes it durable.
"""

from __future__ import annotations

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import ClassicSide, Member, Partition, Subscription
from pybroker.broker.coordinators.group.embedded import read_assignment, read_subscription, write_assignment
from pybroker.broker.coordinators.group.group import Group, GroupState
from pybroker.broker.coordinators.group.group import Member as ClassicMember
from pybroker.broker.coordinators.group.subscription import CONSUMER_PROTOCOL_TYPE
from pybroker.broker.coordinators.shards.ports import Topics
from pybroker.errors import KafkaError
from pybroker.native import CodecError
from pybroker.protocol.error_codes import ErrorCode


def upgrade(group: Group, into: ConsumerGroup, topics: Topics, size_max: int) -> None:
    """Fills a consumer group with the members of a classic one: its generation is their epoch, and what they were
    assigned is the target. KafkaError GROUP_ID_NOT_FOUND: it cannot be done."""
    if not group.uses_consumer_protocol:
        raise _refusal(group, "its members are no consumers")
    if len(group.members) > size_max:
        raise _refusal(group, "it has more members than group.consumer.max.size allows")
    members, taken = [], set[Partition]()
    for member in group.members.values():
        made, assigned = _as_consumer(group, member, topics)
        # Of a partition that a client's assignor gave to two members only one can have it here.
        mine = {partition: group.generation for partition in assigned if partition not in taken}
        taken |= mine.keys()
        members.append(Member(member.member_id, made, group.generation, group.generation, assigned=mine))
    into.epoch = into.target_epoch = group.generation
    for one in members:
        into.target[one.member_id] = frozenset(one.assigned)
        into.put(one)


def _as_consumer(group: Group, member: ClassicMember, topics: Topics) -> tuple[Subscription, frozenset[Partition]]:
    # Before the first generation no protocol is chosen.
    name = group.protocol_name or member.protocols[0][0]
    try:
        said = read_subscription(member.metadata(name), topics)
        assigned, is_custom = read_assignment(member.assignment, topics)
    except CodecError as error:
        raise _refusal(group, f"what member {member.member_id} says of itself cannot be read: {error}") from None
    if is_custom:
        raise _refusal(group, "its assignor keeps data of its own with the members")
    # A partition of an earlier incarnation of a name is none of this one.
    known = {topic_id for topic, topic_id in group.formed_topics.items() if topics.topic_id(topic) == topic_id}
    subscription = Subscription(
        member.client_id,
        member.client_host,
        member.instance_id,
        said.rack_id,
        said.topics,
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicSide(member.session_timeout_ms, member.protocols),
    )
    return subscription, frozenset(one for one in assigned if one[0] in known)


def _refusal(group: Group, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is a classic group and cannot be upgraded: {why}."
    )


def can_downgrade(group: ConsumerGroup, size_max: int) -> bool:
    """All its members speak the classic protocol, and a classic group has room for them."""
    return group.all_classic and len(group.members) <= size_max


def downgrade(group: ConsumerGroup, topics: Topics, now_ms: int) -> Group:
    """The classic group of these members, in the generation that the newest of them know: the epoch of before the last
    one of the newer protocol left. They may read and commit what they had until the round that has to follow."""
    known = max(member.epoch for member in group.members.values())
    classic = Group(group.group_id, life=group.life, state_timestamp_ms=now_ms, generation=known)
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
    classic.state = GroupState.STABLE
    classic.read_subscriptions()
    return classic
