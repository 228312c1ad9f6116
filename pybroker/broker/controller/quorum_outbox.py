"""The controller's messages in a metadata quorum: brokers fetch changes from the metadata log, and the controller sends
write fences only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from pybroker.broker.cluster.channel import Channels
from pybroker.broker.controller.broker_sessions import BrokerSessions
from pybroker.broker.controller.outbox import ChangeDelivery, Outbox, OwedOrders, SentMessage
from pybroker.broker.metadata.broadcast import Messages
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import Uuid


class CommittedChange(msgspec.Struct, frozen=True):
    """A `ChangeDelivery`: each broker reports up to which offset it has applied the metadata log."""

    sessions: BrokerSessions
    image: ClusterImage
    delta: ImageDelta

    def shown_to(self, broker_id: int) -> list[asyncio.Future[Any]]:
        """Return nothing: the submitting broker itself waits until it has applied the log."""
        del broker_id
        return []

    def led(self) -> list[asyncio.Future[Any]]:
        leaders = {partition.leader for topic in self.delta.topics for partition in topic.partitions}
        return [*self.sessions.applied(leaders & self.image.brokers.keys(), self.image.offset)]

    def applied(self) -> list[asyncio.Future[Any]]:
        return [*self.sessions.applied(self.image.brokers, self.image.offset)]


class QuorumOutbox(Outbox):
    """The outbox of one epoch."""

    def __init__(self, controller_id: int, channels: Channels, sessions: BrokerSessions) -> None:
        super().__init__(controller_id, channels, None, lambda *_: None)
        self._sessions = sessions

    def messages_for(self, before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> Messages:
        """Return nothing: each broker derives its tasks from the metadata log."""
        del before, after, delta
        return {}

    def send_change(
        self, after: ClusterImage, delta: ImageDelta, messages: Messages, owed: OwedOrders
    ) -> ChangeDelivery:
        """Note the end of the metadata log."""
        del messages, owed
        self._number = after.offset
        if delta.brokers or delta.lost_brokers:
            self._channels.follow(after.brokers)
        self._sessions.observe(delta)
        return CommittedChange(self._sessions, after, delta)

    def send_whole(self, image: ClusterImage, broker_id: int) -> None:
        """Send nothing: brokers read every change from the log."""

    def send_deletions(self, image: ClusterImage, broker_id: int, ids: Iterable[Uuid]) -> list[SentMessage]:
        """Send nothing: brokers repeat unfinished stagings and restores themselves."""
        del image, broker_id, ids
        return []

    def send_pending_removals(self, image: ClusterImage, broker_id: int, topics: Iterable[Uuid]) -> list[SentMessage]:
        """Send nothing: brokers repeat unfinished removals themselves."""
        del image, broker_id, topics
        return []

    def send_reopen(self, image: ClusterImage, asked: Iterable[int], topics: tuple[Uuid, ...], number: int) -> None:
        """Lift the fence on each broker after it has applied the decision: a deleted topic must not accept records in
        between."""
        for broker_id in asked:
            self._sessions.applied([broker_id], image.offset)[0].add_done_callback(
                lambda applied, broker_id=broker_id: (  # type: ignore[misc]  # the default binds the broker
                    None if applied.cancelled() else self._reopen(image, broker_id, topics, number)
                )
            )

    def _reopen(self, image: ClusterImage, broker_id: int, topics: tuple[Uuid, ...], number: int) -> None:
        super().send_reopen(image, [broker_id], topics, number)
