"""The controller's messages in a metadata quorum. Brokers fetch changes from the metadata log, so the controller sends
only write fences."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from pybroker.broker.cluster.channel import Channels
from pybroker.broker.controller.broker_sessions import BrokerSessions
from pybroker.broker.controller.outbox import ChangeDelivery, Outbox, OwedOrders, SentMessage
from pybroker.broker.metadata.broadcast import Messages
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.native import Uuid


class CommittedChange(msgspec.Struct, frozen=True):
    """A `ChangeDelivery` in a metadata quorum. Each broker reports the offset up to which it has applied the metadata
    log."""

    sessions: BrokerSessions
    image: ClusterImage
    leaders: Collection[int]
    """The leaders of the partitions that are new or have a new leader epoch."""

    def shown_to(self, broker_id: int) -> list[asyncio.Future[Any]]:
        """Return no futures: the submitting broker itself waits until it has applied the log."""
        del broker_id
        return []

    def led(self) -> list[asyncio.Future[Any]]:
        return [*self.sessions.applied(self.leaders, self.image.offset)]

    def applied(self) -> list[asyncio.Future[Any]]:
        return [*self.sessions.applied(self.image.brokers, self.image.offset)]


class QuorumOutbox(Outbox):
    """The outbox of one epoch."""

    def __init__(self, controller_id: int, channels: Channels, sessions: BrokerSessions) -> None:
        super().__init__(controller_id, channels, None, lambda *_: None)
        self._sessions = sessions

    def messages_for(self, before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> Messages:
        """Return the new leaders and no message: each broker derives its tasks from the metadata log."""
        leaders = {leader for topic in delta.topics for leader in _new_leaders(before.topics.get(topic.name), topic)}
        return {leader: [] for leader in leaders & after.brokers.keys()}

    def send_change(
        self, after: ClusterImage, delta: ImageDelta, messages: Messages, owed: OwedOrders
    ) -> ChangeDelivery:
        """Note the end of the metadata log."""
        del owed
        self._number = after.offset
        if delta.brokers or delta.lost_brokers:
            self._channels.follow(after.brokers)
        self._sessions.observe(delta, messages, after.offset)
        return CommittedChange(self._sessions, after, messages.keys())

    def send_whole(self, image: ClusterImage, broker_id: int) -> None:
        """Send nothing: brokers read every change from the log."""

    def send_deletions(self, image: ClusterImage, broker_id: int, ids: Iterable[Uuid]) -> list[SentMessage]:
        """Send nothing: brokers themselves repeat stagings and restores that are not finished."""
        del image, broker_id, ids
        return []

    def send_pending_removals(self, image: ClusterImage, broker_id: int, topics: Iterable[Uuid]) -> list[SentMessage]:
        """Send nothing: brokers themselves repeat removals that are not finished."""
        del image, broker_id, topics
        return []

    def send_reopen(self, image: ClusterImage, asked: Iterable[int], topics: tuple[Uuid, ...], number: int) -> None:
        """Lift the fence on each broker after the broker has applied the decision. Before that, a deleted topic must
        not accept records."""
        for broker_id in asked:
            self._sessions.applied([broker_id], image.offset)[0].add_done_callback(
                lambda applied, broker_id=broker_id: (  # type: ignore[misc]  # the default binds the broker
                    None if applied.cancelled() else self._reopen(image, broker_id, topics, number)
                )
            )

    def _reopen(self, image: ClusterImage, broker_id: int, topics: tuple[Uuid, ...], number: int) -> None:
        super().send_reopen(image, [broker_id], topics, number)


def _new_leaders(before: TopicImage | None, after: TopicImage) -> Iterator[int]:
    """Yield the leader of each partition that is new or has a new leader epoch."""
    known = () if before is None or before.topic_id != after.topic_id else before.partitions
    for index, partition in enumerate(after.partitions):
        if index >= len(known) or known[index].leader_epoch != partition.leader_epoch:
            yield partition.leader
