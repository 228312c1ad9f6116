"""What the controller says to brokers: numbers it, hands it to their channels, and passes on what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from pybroker.broker.cluster.channel import Channels
from pybroker.broker.controller.broadcast import Broadcast, Messages
from pybroker.broker.metadata.control_messages import (
    CloseTopics,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    ReopenTopics,
    UpdateCluster,
    UpdateMetadataRequest,
)
from pybroker.broker.metadata.deletion_records import DELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import Uuid

Answered = Callable[[int, ControlRequest, ControlResponse], None]


class SentMessage(msgspec.Struct, frozen=True):
    """A message on its way."""

    broker_id: int
    request: ControlRequest
    response: asyncio.Future[ControlResponse]


Sent = tuple[SentMessage, ...]
"""Everything that was sent for one decision."""


def shown_to(sent: Sent, broker_id: int) -> list[asyncio.Future[ControlResponse]]:
    """Done when the broker knows the change and its clients see it."""
    return [
        one.response
        for one in sent
        if one.broker_id == broker_id and isinstance(one.request, UpdateCluster | UpdateMetadataRequest)
    ]


def led(sent: Sent) -> list[asyncio.Future[ControlResponse]]:
    """Done when those that are to lead something do, and show it: a leader answers for what the cluster shows only."""
    leaders = {
        one.broker_id
        for one in sent
        if isinstance(one.request, LeaderAndIsrRequest)
        and any(
            state.leader == one.broker_id
            for topic in one.request.topic_states
            for state in topic.partition_states
        )
    }
    return [
        one.response
        for one in sent
        if one.broker_id in leaders and isinstance(one.request, LeaderAndIsrRequest | UpdateMetadataRequest)
    ]


def applied(sent: Sent) -> list[asyncio.Future[ControlResponse]]:
    """Done when every live broker has obeyed: leaders take records, data of deleted topics is staged."""
    return [one.response for one in sent]


class Outbox:
    """Of one controller."""

    def __init__(self, controller_id: int, channels: Channels, between: str | None, answered: Answered) -> None:
        """`between`: the listener that brokers use among themselves, if there is one."""
        self._broadcast = Broadcast(controller_id, between)
        self._controller_id = controller_id
        self._channels = channels
        self._answered = answered
        self._number = 0

    def said(self, before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> Messages:
        """What a decision means for each live broker. Pure, and takes long if much changes."""
        return self._broadcast.changes(before, after, delta, self._number + 1)

    def send_change(self, after: ClusterImage, delta: ImageDelta, messages: Messages) -> Sent:
        """Tells every live broker of a decision that is durable; `messages` are what was `said` since the change
        before."""
        if not delta.empty:
            self._number += 1
        if delta.brokers or delta.lost_brokers:
            self._channels.follow(after.brokers)
        return tuple(one for broker_id, out in messages.items() for one in self._send(after, broker_id, out))

    def send_whole(self, image: ClusterImage, broker_id: int) -> None:
        """Tells a broker everything anew that it may have missed a change of."""
        if broker_id in image.brokers:
            self._send(image, broker_id, [self._broadcast.whole(image, broker_id, self._number)])

    def send_deletions(self, image: ClusterImage, broker_id: int, ids: Iterable[Uuid]) -> Sent:
        """Repeats to a broker what it has to do for topics that are being deleted or undeleted."""
        if broker_id not in image.brokers:
            return ()
        records: list[DeletionRecord] = [image.deletions[one] for one in ids if one in image.deletions]
        stopping = [record for record in records if record.state == DELETING]
        messages: list[ControlRequest] = []
        if stopping:
            messages.append(self._broadcast.stop_again(image, broker_id, stopping))
        restore = self._broadcast.restore(image, broker_id, records)
        if restore is not None:
            messages.append(restore)
        return tuple(self._send(image, broker_id, messages))

    def send_departures(self, image: ClusterImage, broker_id: int, topics: Iterable[Uuid]) -> Sent:
        """Repeats to a broker what was moved away from it."""
        known = [topic for one in topics if (topic := image.topic_by_id(one)) is not None]
        left = [(topic, epochs) for topic in known if (epochs := topic.left(broker_id))]
        if broker_id not in image.brokers or not left:
            return ()
        return tuple(self._send(image, broker_id, [self._broadcast.leave_again(image, broker_id, left)]))

    def ask_to_close(self, image: ClusterImage, topics: tuple[Uuid, ...], number: int) -> list[SentMessage]:
        """Asks every live broker at once. `number`: of the closing."""
        asked = []
        for broker in image.brokers.values():
            channel = self._channels.to(broker)
            if channel is not None:
                question = CloseTopics(self._controller_id, image.controller_epoch, broker.epoch, topics, number)
                asked.append(SentMessage(broker.broker_id, question, channel.ask(question)))
        return asked

    def send_reopen(
        self, image: ClusterImage, asked: Iterable[int], topics: tuple[Uuid, ...], number: int
    ) -> None:
        """After the decision, to those that were asked."""
        for broker_id in asked:
            broker = image.brokers.get(broker_id)
            if broker is not None:
                word = ReopenTopics(self._controller_id, image.controller_epoch, broker.epoch, topics, number)
                self._send(image, broker_id, [word])

    @property
    def number(self) -> int:
        """Of the last change."""
        return self._number

    async def close(self) -> None:
        """Waits until everything is answered, as far as it will be."""
        await self._channels.close()

    def _send(self, image: ClusterImage, broker_id: int, messages: Sequence[ControlRequest]) -> list[SentMessage]:
        channel = self._channels.to(image.brokers[broker_id])
        if channel is None:
            return []
        sent = []
        for message in messages:
            response = channel.send(message)
            response.add_done_callback(partial(self._done, broker_id, message))
            sent.append(SentMessage(broker_id, message, response))
        return sent

    def _done(self, broker_id: int, request: ControlRequest, response: asyncio.Future[ControlResponse]) -> None:
        if not response.cancelled():
            self._answered(broker_id, request, response.result())
