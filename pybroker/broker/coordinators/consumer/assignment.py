"""The group's epoch and target: when topics or members have changed, and what the assignor makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.broker.coordinators.consumer.assignors import ASSIGNORS, Subscriber
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.topics import MayRead, TopicView, hash_of, resolve, subscribed_topics
from pybroker.native import Uuid


def look_at_topics(group: ConsumerGroup, view: TopicView, *, raised: bool) -> None:
    """Raises the epoch if the topics of the members are not those of the last look. `raised`: it was for another
    reason."""
    if group.looked_at != view.version:
        group.looked_at = view.version
        if note_topics(group, view) and not raised:
            group.epoch += 1


def note_topics(group: ConsumerGroup, view: TopicView) -> bool:
    """Takes down which topics the members mean; whether they are others than before."""
    before = group.topics_hash
    group.topics_hash = hash_of(subscribed_topics(group, view))
    return before != group.topics_hash


def meant_by(group: ConsumerGroup, view: TopicView, member_id: str) -> set[Uuid]:
    """The topics that a member subscribes to. KafkaError UNKNOWN_MEMBER_ID."""
    said = group.member(member_id).subscription
    found = (view.topic_id(name) for name in group.names_of(said.topics, said.regex))
    return {topic_id for topic_id in found if topic_id is not None}


def resolve_again(group: ConsumerGroup, view: TopicView, may_read: MayRead, now_ms: int) -> None:
    """Looks anew what the expressions of the members match."""
    for regex in list(group.regexes):
        group.resolve(regex, resolve(regex, view, may_read, now_ms))


def assign(group: ConsumerGroup, view: TopicView, assignors: Sequence[str], now_ms: int) -> None:
    """Brings the target to the group's epoch. `assignors`: those that the broker offers, its favourite first."""
    topics = subscribed_topics(group, view)
    ids: dict[str, Uuid] = {}
    for name in group.subscribed:
        topic_id = view.topic_id(name)
        if topic_id is not None and topic_id in topics:
            ids[name] = topic_id
    meant: dict[tuple[tuple[str, ...], str | None], frozenset[Uuid]] = {}
    members = []
    for member in group.members.values():
        said = (member.subscription.topics, member.subscription.regex)
        if said not in meant:
            meant[said] = frozenset(ids[name] for name in group.names_of(*said) if name in ids)
        members.append(
            Subscriber(member.member_id, member.instance_id, meant[said], group.target_of(member.member_id))
        )
    name = group.preferred_assignor(assignors[0])
    group.target = ASSIGNORS[name if name in assignors else assignors[0]](members, topics)
    group.target_epoch = group.epoch
    # The first member of an empty group waits for no interval.
    group.target_timestamp_ms = now_ms if group.members else 0


