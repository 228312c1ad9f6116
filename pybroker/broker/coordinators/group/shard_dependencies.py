"""The dependencies of this broker's group shards, and actions on groups of any type.

This module imports all group types. A broker without shards does not need them, so the import happens when the first
shard is created.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.broker.coordinators.group.commit_fence import CommitFence
from pybroker.broker.coordinators.group.commits import OffsetCommits
from pybroker.broker.coordinators.group.expiry import expire
from pybroker.broker.coordinators.group.interfaces import GroupCoordinatorSettings
from pybroker.broker.coordinators.group.member_metadata import MemberMetadata
from pybroker.broker.coordinators.group.offsets import KeepOffsetsOf
from pybroker.broker.coordinators.group.shard import GroupShard
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.share.share_group_states import ShareGroupDependencies, States


class GroupDependencies:
    expire = staticmethod(expire)

    def __init__(
        self,
        dependencies: CoordinatorDependencies,
        settings: GroupCoordinatorSettings,
        timers: TimerWheel,
        *,
        states: States,
        removals: Removals,
        fence: CommitFence,
        statistics: GroupStatistics,
        member_bytes: Callable[[], int],
        shard_of: Callable[[str], GroupShard],
        keep_offsets: KeepOffsetsOf,
    ) -> None:
        """states: the share-state coordinators. member_bytes: returns the bytes of all members and their metadata."""
        self._dependencies = dependencies
        self._settings = settings
        self._timers = timers
        self._removals = removals
        self._statistics = statistics
        self._keep_offsets = keep_offsets
        self._share = ShareGroupDependencies(
            dependencies.clock, dependencies.loop, timers, dependencies.topics, settings.share, states
        )
        self.member_metadata = MemberMetadata(settings, statistics, dependencies.clock, member_bytes)
        self.commits = OffsetCommits(
            dependencies.topics,
            removals,
            fence=fence,
            metadata_bytes_max=lambda: settings.offset_metadata_max_bytes,
            statistics=statistics,
            shard_of=shard_of,
        )

    def shard(self, shard_log: ShardLog) -> GroupShard:
        """Create the shard for a partition's log."""
        return GroupShard(
            shard_log,
            clock=self._dependencies.clock,
            topics=self._dependencies.topics,
            removals=self._removals,
            settings=self._settings,
            share=self._share,
            timers=self._timers,
            statistics=self._statistics,
            keep_offsets=self._keep_offsets,
        )

