"""What a heartbeat, a departure or the end of a session does to a group. Pure functions on a fork of it (KIP-848).

Each raises KafkaError before it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    GOES_AWAY,
    JOINS,
    Heartbeat,
    Member,
    Partition,
    Resolved,
    Subscription,
)
from pybroker.broker.coordinators.consumer.reconciliation import reconcile
from pybroker.broker.coordinators.shards.turns import start_epochs
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


def check_form(beat: Heartbeat, assignors: Container[str], *, own_id_required: bool) -> None:
    """What is wrong with a heartbeat whatever the group is. `own_id_required`: version 1, in which members make their
    ids themselves (KIP-1082). KafkaError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    problem = None
    if not beat.member_id and (own_id_required or beat.epoch != JOINS):
        problem = "A member names itself: member_id is empty."
    elif beat.instance_id == "":
        problem = "instance_id is empty: a dynamic member sends null."
    elif beat.rack_id == "":
        problem = "rack_id is empty: without a rack it is null."
    elif beat.epoch == JOINS:
        if beat.rebalance_timeout_ms == -1:
            problem = "A member that joins says its rebalance_timeout_ms."
        elif beat.owned is None or beat.owned:
            problem = "A member that joins owns nothing: topic_partitions is an empty list."
        elif beat.topics is None and beat.regex is None:
            problem = "A member that joins names topics or a regular expression."
    elif beat.epoch == GOES_AWAY and beat.instance_id is None:
        problem = "Only a static member leaves for a while: instance_id is null."
    elif beat.epoch < GOES_AWAY:
        problem = f"There is no member epoch {beat.epoch}: the least is -2."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if beat.assignor is not None and beat.assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"There is no assignor {beat.assignor} here (group.consumer.assignors)."
        )


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, size_max: int) -> None:
    """KafkaError GROUP_MAX_SIZE_REACHED for one who is no member, nor takes the place of one."""
    if member_id in group.members or instance_id in group.instances:
        return
    if len(group.members) >= size_max:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {size_max} members: group.consumer.max.size."
        )


def check_epoch(member: Member, epoch: int, owned: frozenset[Partition] | None) -> None:
    """Whether the member is where the group believes it to be. Its previous epoch is right, too, if it reads nothing
    that it was not given: the answer that told the new one was lost. KafkaError FENCED_MEMBER_EPOCH."""
    if epoch in (JOINS, member.epoch):
        return
    if epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys():
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Member {member.member_id} is in epoch {member.epoch}, not in {epoch}: it gives up all it has and rejoins.",
    )


def enter(
    group: ConsumerGroup, beat: Heartbeat, size_max: int, resolve: Callable[[str], Resolved]
) -> Member | None:
    """Makes or changes the heartbeat's member as it says; the epoch rises if the target may change. Gives what was
    known of the member.

    `resolve`: what a regular expression matches. KafkaError: why it is no member.
    """
    check_room(group, beat.member_id, beat.instance_id, size_max)
    start_epochs(group)
    before, member = _find(group, beat)
    said = member.subscription
    changed = msgspec.structs.replace(
        said,
        client_id=beat.client_id,
        client_host=beat.client_host,
        instance_id=said.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=said.rack_id if beat.rack_id is None else beat.rack_id,
        topics=said.topics if beat.topics is None else beat.topics,
        # An empty expression takes the subscription by expression back.
        regex=said.regex if beat.regex is None else beat.regex or None,
        rebalance_timeout_ms=(
            said.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms
        ),
        assignor=said.assignor if beat.assignor is None else beat.assignor,
        classic=None,
    )
    regex, resolved = changed.regex, None
    if regex is not None:
        resolved = group.regexes.get(regex) or resolve(regex)
    take_in(group, before, msgspec.structs.replace(member, subscription=changed))
    # An expression is forgotten with the last member that uses it, as is the one whose place this one takes.
    if resolved is not None and regex is not None and regex not in group.regexes:
        group.resolve(regex, resolved)
    return before


def _find(group: ConsumerGroup, beat: Heartbeat) -> tuple[Member | None, Member]:
    """(what is known of the member, with what it goes on)."""
    fresh = Member(beat.member_id, Subscription(beat.client_id, beat.client_host, beat.instance_id))
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
            f"Member {holder} has the instance id {beat.instance_id}, and has not left.",
        )
    return known, inherited(known, beat.member_id)


def inherited(known: Member, member_id: str) -> Member:
    """A static member's successor: it has what the one before had, and goes on from the start of the epochs."""
    if known.member_id == member_id:
        return known
    return msgspec.structs.replace(known, member_id=member_id, epoch=JOINS, previous_epoch=-1)


def take_in(group: ConsumerGroup, before: Member | None, now: Member) -> None:
    """Puts a member where `before` was, raising the epoch if the assignor may now decide otherwise."""
    if before is not None and before.member_id != now.member_id:
        target = group.target_of(before.member_id)
        group.remove(before.member_id)
        group.target[now.member_id] = target
    group.put(now)
    if before is None or _means(before) != _means(now):
        group.epoch += 1


def _means(member: Member) -> tuple[object, ...]:
    return member.subscription.topics, member.subscription.regex, member.subscription.assignor


def progress(
    group: ConsumerGroup, member_id: str, owned: frozenset[Partition] | None, meant: Container[Uuid] | None = None
) -> Member:
    """One step of a member towards the target; the member then. `meant`: of no other topics, whatever the target says;
    None: that is of now. KafkaError UNKNOWN_MEMBER_ID: it left in the same turn."""
    member = group.member(member_id)
    target = group.target_of(member_id)
    moved = reconcile(
        member,
        group.target_epoch,
        target if meant is None else frozenset(one for one in target if one[0] in meant),
        lambda partition: group.may_give(partition, member_id),
        owned,
    )
    if moved is not member:
        group.put(moved)
    return moved


def leave(group: ConsumerGroup, beat: Heartbeat) -> None:
    """The member leaves, or (GOES_AWAY) keeps its place until its session is over. KafkaError UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID."""
    if beat.instance_id is None:
        member = group.member(beat.member_id)
    else:
        member = group.instance(beat.instance_id, beat.member_id)
    if beat.epoch == GOES_AWAY:
        group.put(msgspec.structs.replace(member, epoch=GOES_AWAY))
    else:
        remove(group, member.member_id)


def remove(group: ConsumerGroup, member_id: str) -> None:
    """The member is gone, and the others share what it had."""
    group.remove(member_id)
    group.epoch += 1
