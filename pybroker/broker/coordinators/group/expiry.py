"""Expiry of committed offsets and empty groups (KIP-211, Kafka since 2.1).

    group                                          the retention counts from
    never joined (only commits)                    the commit
    joined once, now Empty                         the moment it became empty; the commit if that is not known
    Stable, consumers with readable subscriptions  the commit, for topics that no member subscribes to
    any other                                      nothing expires

    consumer, streams group (KIP-848, KIP-1071)    the commit, for topics that no member subscribes to

An offset with its own retention (OffsetCommit 2–4) expires by that. A group without members and offsets is deleted.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.group.group import ClassicGroupState, Group
from pybroker.broker.coordinators.group.offsets import CommittedOffset
from pybroker.broker.coordinators.group.records import OffsetKey
from pybroker.broker.coordinators.group.shard import GroupShard
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.native import Uuid


def expires_from(group: Group, offset: CommittedOffset) -> int | None:
    """Return the wall time (ms) from which the retention of one offset counts; None: the offset does not expire now."""
    if group.protocol_type is None:
        return offset.commit_timestamp_ms if group.state is ClassicGroupState.EMPTY else None
    if group.state is ClassicGroupState.EMPTY:
        known = group.state_timestamp_ms
        return known if known >= 0 else offset.commit_timestamp_ms
    if group.state is ClassicGroupState.STABLE and group.uses_consumer_protocol and group.subscribed_topics is not None:
        return offset.commit_timestamp_ms
    return None


def expired_offsets(shard: GroupShard, group: Group, now_ms: int, retention_ms: int) -> list[tuple[Uuid, OffsetKey]]:
    """Return the offsets of one group whose retention has passed."""
    return _expired(
        shard,
        group.group_id,
        lambda name: group.state is not ClassicGroupState.EMPTY and group.is_subscribed_to(name),
        lambda offset: _is_over(offset, expires_from(group, offset), now_ms, retention_ms),
    )


def _expired(
    shard: GroupShard, group_id: str, is_read: Callable[[str], bool], is_over: Callable[[CommittedOffset], bool]
) -> list[tuple[Uuid, OffsetKey]]:
    # Invalidate delegated commits first: the tombstone of an expired offset would also erase a newer commit.
    shard.offsets.take_back()
    return [
        (topic_id, OffsetKey(group_id, topic.name, partition))
        for topic_id, topic in shard.offsets.topics(group_id).items()
        if not is_read(topic.name)
        for partition, offset in topic.partitions.items()
        if is_over(offset)
    ]


def _is_over(offset: CommittedOffset, since_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    if since_ms is None:
        return False
    own_ms = offset.expire_timestamp_ms
    return now_ms >= own_ms if own_ms is not None else now_ms - since_ms >= retention_ms


def expire_group(shard: GroupShard, group: Group, now_ms: int, retention_ms: int) -> int:
    """Remove expired offsets, and the group itself once it is unused; return the number of offsets.

    If the append of the tombstones fails, the offsets return with the next load and expire again.
    """
    expired = _take_out(shard, expired_offsets(shard, group, now_ms, retention_ms))
    if group.state is ClassicGroupState.EMPTY and not group.pending_joins and _is_unused(shard, group.group_id):
        shard.drop_group(group, lambda _: None)
    return expired


def expire_newer_group(shard: GroupShard, group: ConsumerGroup | StreamsGroup, now_ms: int, retention_ms: int) -> int:
    """Do `expire_group` for a consumer or streams group."""
    over = _expired(
        shard,
        group.group_id,
        group.is_subscribed_to,
        lambda offset: _is_over(offset, offset.commit_timestamp_ms, now_ms, retention_ms),
    )
    expired = _take_out(shard, over)
    turns = shard.streams.turns if isinstance(group, StreamsGroup) else shard.consumers.turns
    if not group.members and turns.is_quiet(group.group_id) and _is_unused(shard, group.group_id):
        shard.drop_newer(group, lambda _: None)
    return expired


def expire(shard: GroupShard, group: Group | ConsumerGroup | StreamsGroup, now_ms: int, retention_ms: int) -> int:
    """Expire the offsets of a group of any type, if it still exists; return the number of offsets."""
    if not isinstance(group, Group):
        there = shard.newer(group.group_id) is group
        return expire_newer_group(shard, group, now_ms, retention_ms) if there else 0
    return expire_group(shard, group, now_ms, retention_ms) if shard.groups.get(group.group_id) is group else 0


def _take_out(shard: GroupShard, expired: list[tuple[Uuid, OffsetKey]]) -> int:
    for topic_id, key in expired:
        shard.offsets.remove(key.group, topic_id, key.partition)
    if expired:
        shard.bury_offsets([key for _, key in expired], lambda _: None)
    return len(expired)


def _is_unused(shard: GroupShard, group_id: str) -> bool:
    # The order matters: a commit that completes between the two checks is found among the offsets.
    return not shard.has_commit_under_way(group_id) and not shard.offsets.topics(group_id)
