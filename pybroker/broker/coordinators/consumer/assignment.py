"""The group's epoch and target assignment: detects changes of topics and members, and runs the assignor."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.broker.coordinators.consumer.assignors import ASSIGNORS, Subscriber
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import MayRead
from pybroker.broker.coordinators.consumer.topics import resolve, subscribed_topics
from pybroker.broker.coordinators.group_base.topics_hash import TopicView, hash_of
from pybroker.native import Uuid


def look_at_topics(group: ConsumerGroup, view: TopicView, *, raised: bool) -> None:
    """Raise the group epoch if the members' topics have changed since the last check.

    `raised`: the caller has already raised the epoch for another reason.
    """
    if group.looked_at != view.version:
        group.looked_at = view.version
        if note_topics(group, view) and not raised:
            group.epoch += 1


def note_topics(group: ConsumerGroup, view: TopicView) -> bool:
    """Record the topics that the members subscribe to; return whether they have changed."""
    before = group.topics_hash
    group.topics_hash = hash_of(subscribed_topics(group, view))
    return before != group.topics_hash


def meant_by(group: ConsumerGroup, view: TopicView, member_id: str) -> set[Uuid]:
    """Return the ids of the existing topics to which a member subscribes. Raise KafkaError UNKNOWN_MEMBER_ID."""
    subscription = group.member(member_id).subscription
    found = (view.topic_id(name) for name in group.names_of(subscription.topics, subscription.regex))
    return {topic_id for topic_id in found if topic_id is not None}


def resolve_again(group: ConsumerGroup, view: TopicView, may_read: MayRead, now_ms: int) -> None:
    """Match the members' regular expressions against the current topics."""
    for regex in list(group.regexes):
        group.resolve(regex, resolve(regex, view, may_read, now_ms))


def assign(group: ConsumerGroup, view: TopicView, assignors: Sequence[str], now_ms: int) -> None:
    """Compute the target assignment for the group epoch. `assignors`: the assignors of this broker by name, the default
    first.
    """
    topics = subscribed_topics(group, view)
    ids: dict[str, Uuid] = {}
    for name in group.subscribed:
        topic_id = view.topic_id(name)
        if topic_id is not None and topic_id in topics:
            ids[name] = topic_id
    meant: dict[tuple[tuple[str, ...], str | None], frozenset[Uuid]] = {}
    members = []
    for member in group.members.values():
        subscription = (member.subscription.topics, member.subscription.regex)
        if subscription not in meant:
            meant[subscription] = frozenset(ids[name] for name in group.names_of(*subscription) if name in ids)
        members.append(
            Subscriber(member.member_id, member.instance_id, meant[subscription], group.target_of(member.member_id))
        )
    name = group.preferred_assignor(assignors[0])
    group.target = ASSIGNORS[name if name in assignors else assignors[0]](members, topics)
    group.target_epoch = group.epoch
    # In an empty group, the first member gets its target assignment without waiting for the assignment interval.
    group.target_timestamp_ms = now_ms if group.members else 0


