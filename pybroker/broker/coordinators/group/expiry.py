"""Expiry of committed offsets and empty groups (KIP-211, Kafka since 2.1).

    group                                          start of an offset's retention
    never had members (only commits)               the commit
    had members, now Empty                         the moment it became empty; the commit if that is not known
    Stable, consumers with readable subscriptions  the commit, for topics to which no member subscribes
    any other classic group                        nothing expires

    consumer, streams group (KIP-848, KIP-1071)    the commit, for topics to which no member subscribes
    share group                                    nothing expires

If a commit has its own retention (OffsetCommit 2–4), its offset expires after this retention. A group without members
and offsets is deleted.
"""

from __future__ import annotations

from pybroker.broker.coordinators.group.offsets import CommittedOffset
from pybroker.broker.coordinators.group.records import OffsetKey
from pybroker.broker.coordinators.group.shard import GroupShard
from pybroker.broker.coordinators.group_base.group_registry import Group
from pybroker.native import Uuid


def expire(shard: GroupShard, group: Group, now_ms: int, retention_ms: int) -> int:
    """Remove a group's expired offsets, and the group itself once it has neither members nor offsets. Return the number
    of removed offsets.

    If the tombstones cannot be appended, the next load restores the offsets, and they expire again.
    """
    if not group.expires or shard.groups.get(group.group_id) is not group:
        return 0
    expired = expired_offsets(shard, group, now_ms, retention_ms)
    for topic_id, key in expired:
        shard.offsets.remove(key.group, topic_id, key.partition)
    if expired:
        shard.write_offset_tombstones([key for _, key in expired], lambda _: None)
    # Keep this order of checks. A commit that completes between the last two checks is then among the offsets.
    if (
        group.is_empty
        and not group.expects_members
        and shard.is_quiet(group)
        and not shard.has_commit_under_way(group.group_id)
        and not shard.offsets.topics(group.group_id)
    ):
        shard.drop_group(group, lambda _: None)
    return len(expired)


def expired_offsets(shard: GroupShard, group: Group, now_ms: int, retention_ms: int) -> list[tuple[Uuid, OffsetKey]]:
    """Return the offsets of one group whose retention has ended."""
    # Invalidate delegated commits first: the tombstone of an expired offset would also erase a newer commit.
    shard.offsets.revoke_delegated()
    return [
        (topic_id, OffsetKey(group.group_id, topic.name, partition))
        for topic_id, topic in shard.offsets.topics(group.group_id).items()
        if not group.is_subscribed_to(topic.name)
        for partition, offset in topic.partitions.items()
        if _is_over(offset, group.retained_since_ms(offset.commit_timestamp_ms), now_ms, retention_ms)
    ]


def _is_over(offset: CommittedOffset, since_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    if since_ms is None:
        return False
    own_ms = offset.expire_timestamp_ms
    return now_ms >= own_ms if own_ms is not None else now_ms - since_ms >= retention_ms
