"""What is asked of streams groups, beside the other groups of the same shards (KIP-1071)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.reply import Reply
from pybroker.broker.coordinators.shards.shard import ShardState
from pybroker.broker.coordinators.streams.settings import StreamsSettings
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.streams.group import StreamsGroup
    from pybroker.broker.coordinators.streams.model import Heartbeat, HeartbeatResult


class StreamsCoordination:
    """See the module. KafkaError for all: not answered here, GROUP_ID_NOT_FOUND."""

    def __init__(
        self, groups: GroupCoordinator, settings: StreamsSettings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._groups = groups
        self.settings = settings
        self._loop = loop

    def require_served(self) -> None:
        """KafkaError UNSUPPORTED_VERSION: the broker's settings leave streams groups out."""
        if not self.settings.served:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Streams groups are switched off (group.coordinator.rebalance.protocols).",
            )

    def heartbeat(self, group_id: str, beat: Heartbeat) -> HeartbeatResult | asyncio.Future[HeartbeatResult]:
        """A StreamsGroupHeartbeat whose form is right: the answer, or a future for it while it is being stored."""
        reply: Reply[HeartbeatResult] = Reply()
        self._groups.shard(group_id).streams_heartbeat(group_id, beat, reply)
        return reply.outcome(self._loop)

    def describe(self, group_id: str) -> StreamsGroup:
        """A streams group as it is now. Not to be changed."""
        shard = self._groups.shard(group_id, empty_allowed=True)
        group = shard.streams.get(group_id)
        if group is None:
            known = shard.group(group_id) is not None or group_id in shard.consumers or group_id in shard.shares
            what = "is not a streams group" if known else "not found"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return group

    def list(self) -> list[StreamsGroup]:
        """All streams groups of this broker whose shards are loaded. Not to be changed."""
        return [g for s in self._groups.shards if s.state is ShardState.ACTIVE for g in s.streams.all()]
