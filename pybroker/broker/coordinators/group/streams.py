"""Streams groups (KIP-1071) in the shards of the group coordinator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.reply import Reply
from pybroker.broker.coordinators.shards.said import SHARED, said_bytes
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.settings import StreamsSettings
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.streams.model import StreamsHeartbeat, StreamsHeartbeatResult


class StreamsCoordination:
    """Requests about streams groups. All raise KafkaError GROUP_ID_NOT_FOUND, or if this broker is not the
    coordinator."""

    def __init__(self, groups: GroupCoordinator, settings: StreamsSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._groups = groups
        self.settings = settings
        self._loop = loop

    def require_served(self) -> None:
        """Raise KafkaError UNSUPPORTED_VERSION if the broker's settings disable streams groups."""
        if not self.settings.served:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Streams groups are disabled (group.coordinator.rebalance.protocols).",
            )

    def heartbeat(
        self, group_id: str, beat: StreamsHeartbeat
    ) -> StreamsHeartbeatResult | asyncio.Future[StreamsHeartbeatResult]:
        """Handle a valid StreamsGroupHeartbeat: return the result, or a future for it while changes are written."""
        reply: Reply[StreamsHeartbeatResult] = Reply()
        shard = self._groups.shard(group_id)
        if not beat.is_plain:
            known = shard.streams.turns.said
            # The topology of the first member is the group's.
            shared = known.of(group_id, SHARED)
            topology = 0 if shared else said_bytes(beat.topology)
            self._groups.require_room(said_bytes(beat.said) + topology, known.of(group_id, beat.member_id))
        shard.streams_heartbeat(group_id, beat, reply)
        return reply.outcome(self._loop)

    def describe(self, group_id: str) -> StreamsGroup:
        """Return a streams group; callers must not change it."""
        return self._groups.describe(group_id, StreamsGroup)
