"""Membership changes of a consumer group: heartbeats, leaving members, expired sessions (KIP-848).

Pure functions that change a copy of the group. If a function raises KafkaError, it has not changed the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    ConsumerHeartbeat,
    ConsumerMember,
    ConsumerSubscription,
    Partition,
    ResolvedRegex,
)
from pybroker.broker.coordinators.consumer.reconciliation import reconcile
from pybroker.broker.coordinators.group_base.epoch_group import GOES_AWAY, JOINS
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


def check_form(beat: ConsumerHeartbeat, assignors: Container[str], *, own_id_required: bool) -> None:
    """Validate the fields of a heartbeat that do not depend on the group.

    `own_id_required`: True from version 1 on, in which clients generate their member ids (KIP-1082). Raise KafkaError
    INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    problem = None
    if not beat.member_id and (own_id_required or beat.epoch != JOINS):
        problem = "The member id is empty. A member chooses its own id."
    elif beat.instance_id == "":
        problem = "instance_id is empty: a dynamic member sends null."
    elif beat.rack_id == "":
        problem = "rack_id is empty. Send null if the member has no rack."
    elif beat.epoch == JOINS:
        if beat.rebalance_timeout_ms == -1:
            problem = "A member that joins must send rebalance_timeout_ms."
        elif beat.owned is None or beat.owned:
            problem = "A member that joins owns no partitions: topic_partitions must be an empty list."
        elif beat.topics is None and beat.regex is None:
            problem = "A member that joins must subscribe to topics or a regular expression."
    elif beat.epoch == GOES_AWAY and beat.instance_id is None:
        problem = "Only a static member can leave temporarily: instance_id is null."
    elif beat.epoch < GOES_AWAY:
        problem = f"Invalid member epoch {beat.epoch}: the lowest is -2."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if beat.assignor is not None and beat.assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"There is no assignor {beat.assignor} in this broker (group.consumer.assignors).",
        )


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, size_max: int) -> None:
    """Raise KafkaError GROUP_MAX_SIZE_REACHED if the group is full and the client is not a member yet."""
    if member_id in group.members or instance_id in group.instances:
        return
    if len(group.members) >= size_max:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group already has {size_max} members (group.consumer.max.size)."
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: frozenset[Partition] | None) -> None:
    """Check the member epoch in a heartbeat.

    The previous epoch is also valid if the member owns no partition beyond its assignment: such a member has lost the
    response with the new epoch. Raise KafkaError FENCED_MEMBER_EPOCH.
    """
    if epoch in (JOINS, member.epoch):
        return
    if epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys():
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Member {member.member_id} is in epoch {member.epoch}, not in {epoch}. It must give up all its "
        "partitions and rejoin.",
    )


def enter(
    group: ConsumerGroup, beat: ConsumerHeartbeat, size_max: int, resolve: Callable[[str], ResolvedRegex]
) -> ConsumerMember | None:
    """Add or update the member of a heartbeat, and raise the group epoch if the target assignment may change. Return
    the member's previous state.

    `resolve`: matches a regular expression. Raise KafkaError if the member is refused.
    """
    check_room(group, beat.member_id, beat.instance_id, size_max)
    group.start_epochs()
    before, member = _find(group, beat)
    subscription = member.subscription
    changed = msgspec.structs.replace(
        subscription,
        client_id=beat.client_id,
        client_host=beat.client_host,
        instance_id=subscription.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=subscription.rack_id if beat.rack_id is None else beat.rack_id,
        topics=subscription.topics if beat.topics is None else beat.topics,
        # An empty regular expression ends the subscription by regular expression.
        regex=subscription.regex if beat.regex is None else beat.regex or None,
        rebalance_timeout_ms=(
            subscription.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms
        ),
        assignor=subscription.assignor if beat.assignor is None else beat.assignor,
        classic=None,
    )
    regex, resolved = changed.regex, None
    if regex is not None:
        resolved = group.regexes.get(regex) or resolve(regex)
    take_in(group, before, msgspec.structs.replace(member, subscription=changed))
    # When the last member with a regular expression is replaced, `take_in` forgets the regular expression. Store it
    # again.
    if resolved is not None and regex is not None and regex not in group.regexes:
        group.resolve(regex, resolved)
    return before


def _find(group: ConsumerGroup, beat: ConsumerHeartbeat) -> tuple[ConsumerMember | None, ConsumerMember]:
    """Return (the member's stored state, the member to update)."""
    fresh = ConsumerMember(beat.member_id, ConsumerSubscription(beat.client_id, beat.client_host, beat.instance_id))
    if beat.instance_id is None:
        if beat.epoch != JOINS:
            known = group.member(beat.member_id)
            check_epoch(known, beat.epoch, beat.owned)
            return known, known
        known_or_none = group.members.get(beat.member_id)
        return (None, fresh) if known_or_none is None else (known_or_none, known_or_none)
    if beat.epoch != JOINS:
        known = group.instance(beat.instance_id, beat.member_id)
        check_epoch(known, beat.epoch, beat.owned)
        return known, known
    holder = group.instances.get(beat.instance_id)
    if holder is None:
        return None, fresh
    known = group.members[holder]
    if holder != beat.member_id and known.epoch != GOES_AWAY and not known.is_classic:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Member {holder} has the instance id {beat.instance_id} and has not left the group.",
        )
    return known, inherited(known, beat.member_id)


def inherited(known: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return the new member of a static instance. It takes over the previous member's partitions, and starts with the
    join epoch."""
    if known.member_id == member_id and known.epoch != GOES_AWAY:
        return known
    return msgspec.structs.replace(known, member_id=member_id, epoch=JOINS, previous_epoch=-1)


def take_in(group: ConsumerGroup, before: ConsumerMember | None, now: ConsumerMember) -> None:
    """Replace the member state `before` by `now`. Raise the group epoch if the assignor's input has changed."""
    if before is not None and before.member_id != now.member_id:
        target = group.target_of(before.member_id)
        group.remove(before.member_id)
        group.target[now.member_id] = target
    group.put(now)
    if before is None or _means(before) != _means(now):
        group.epoch += 1


def _means(member: ConsumerMember) -> tuple[object, ...]:
    return member.subscription.topics, member.subscription.regex, member.subscription.assignor


def progress(
    group: ConsumerGroup, member_id: str, owned: frozenset[Partition] | None, meant: Container[Uuid] | None = None
) -> ConsumerMember:
    """Move a member one step towards its target assignment; return its new state.

    `meant`: the topics to which an outdated target assignment is restricted; None if the target assignment is current.
    Raise KafkaError UNKNOWN_MEMBER_ID if the member left in the same batch.
    """
    member = group.member(member_id)
    target = group.target_of(member_id)
    moved = reconcile(
        member,
        group.target_epoch,
        target if meant is None else frozenset(partition for partition in target if partition[0] in meant),
        lambda partition: group.may_give(partition, member_id),
        owned,
    )
    if moved is not member:
        group.put(moved)
    return moved


def leave(group: ConsumerGroup, beat: ConsumerHeartbeat) -> None:
    """Remove a member. With epoch GOES_AWAY, keep the assignment of this static member until its session expires.

    Raise KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if beat.instance_id is None:
        member = group.member(beat.member_id)
    else:
        member = group.instance(beat.instance_id, beat.member_id)
    if beat.epoch == GOES_AWAY:
        # Epoch 0 allows the replacing member to commit from its first epoch on.
        group.put(msgspec.structs.replace(member, epoch=GOES_AWAY, assigned=dict.fromkeys(member.assigned, JOINS)))
    else:
        remove(group, member.member_id)


def remove(group: ConsumerGroup, member_id: str) -> None:
    """Remove a member. The next target assignment gives its partitions to other members."""
    group.remove(member_id)
    group.epoch += 1
