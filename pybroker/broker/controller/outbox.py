"""The controller's messages to brokers. The outbox numbers the messages, passes them to the brokers' channels and
reports the responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from pybroker.broker.cluster.channel import Channels
from pybroker.broker.metadata.broadcast import Broadcast, Messages
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

MessageAnswered = Callable[[int, ControlRequest, ControlResponse], None]


class SentMessage(msgspec.Struct, frozen=True):
    """A sent message and the future of its response."""

    broker_id: int
    request: ControlRequest
    response: asyncio.Future[ControlResponse]


class ChangeDelivery(Protocol):
    """The delivery of one decision to the brokers."""

    def shown_to(self, broker_id: int) -> list[asyncio.Future[Any]]:
        """Return futures that complete when the submitting broker shows the change to its clients."""
        ...

    def led(self) -> list[asyncio.Future[Any]]:
        """Return futures that complete when the new leaders have taken over and their metadata shows the change: a
        leader accepts requests only for partitions in its own metadata."""
        ...

    def applied(self) -> list[asyncio.Future[Any]]:
        """Return futures that complete when every live broker has applied the decision: leaders accept records, and the
        data of deleted topics is staged."""
        ...


class SentChange(msgspec.Struct, frozen=True):
    """All messages of one decision: a `ChangeDelivery`."""

    messages: tuple[SentMessage, ...] = ()

    def shown_to(self, broker_id: int) -> list[asyncio.Future[Any]]:
        return [
            message.response
            for message in self.messages
            if message.broker_id == broker_id and isinstance(message.request, UpdateCluster | UpdateMetadataRequest)
        ]

    def led(self) -> list[asyncio.Future[Any]]:
        leaders = {
            message.broker_id
            for message in self.messages
            if isinstance(message.request, LeaderAndIsrRequest)
            and any(
                state.leader == message.broker_id
                for topic in message.request.topic_states
                for state in topic.partition_states
            )
        }
        return [
            message.response
            for message in self.messages
            if message.broker_id in leaders and isinstance(message.request, LeaderAndIsrRequest | UpdateMetadataRequest)
        ]

    def applied(self) -> list[asyncio.Future[Any]]:
        return [message.response for message in self.messages]


class OwedOrders(NamedTuple):
    """Requests that a broker has not confirmed."""

    deletions: Callable[[int], Sequence[Uuid]]
    removals: Callable[[int], Sequence[Uuid]]


class Outbox:
    """The outgoing messages of one controller."""

    def __init__(self, controller_id: int, channels: Channels, between: str | None, answered: MessageAnswered) -> None:
        """`between` is the name of the inter-broker listener, if there is one."""
        self._broadcast = Broadcast(controller_id, between)
        self._controller_id = controller_id
        self._channels = channels
        self._answered = answered
        self._number = 0

    def messages_for(self, before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> Messages:
        """Return the messages of a decision for each live broker. Pure; slow for a large change."""
        return self._broadcast.changes(before, after, delta, self._number + 1)

    def send_change(
        self, after: ClusterImage, delta: ImageDelta, messages: Messages, owed: OwedOrders
    ) -> ChangeDelivery:
        """Send a durable decision to every live broker. `messages`: the result of `messages_for`. A broker that
        registers by this change also gets its unconfirmed requests."""
        if not delta.empty:
            self._number += 1
        if delta.brokers or delta.lost_brokers:
            self._channels.follow(after.brokers)
        sent = [message for broker_id, out in messages.items() for message in self._send(after, broker_id, out)]
        for broker in delta.brokers:
            sent += self.send_deletions(after, broker.broker_id, owed.deletions(broker.broker_id))
            sent += self.send_pending_removals(after, broker.broker_id, owed.removals(broker.broker_id))
        return SentChange(tuple(sent))

    def send_whole(self, image: ClusterImage, broker_id: int) -> None:
        """Send the whole image to a broker that may have missed a change."""
        if broker_id in image.brokers:
            self._send(image, broker_id, [self._broadcast.whole(image, broker_id, self._number)])

    def send_deletions(self, image: ClusterImage, broker_id: int, ids: Iterable[Uuid]) -> list[SentMessage]:
        """Repeat the broker's unconfirmed requests about deleted topics and undeletes."""
        if broker_id not in image.brokers:
            return []
        records: list[DeletionRecord] = [image.deletions[topic_id] for topic_id in ids if topic_id in image.deletions]
        stopping = [record for record in records if record.state == DELETING]
        messages: list[ControlRequest] = []
        if stopping:
            messages.append(self._broadcast.stop_again(image, broker_id, stopping))
        restore = self._broadcast.restore(image, broker_id, records)
        if restore is not None:
            messages.append(restore)
        return self._send(image, broker_id, messages)

    def send_pending_removals(self, image: ClusterImage, broker_id: int, topics: Iterable[Uuid]) -> list[SentMessage]:
        """Repeat a broker's unconfirmed replica removals."""
        known = [topic for topic_id in topics if (topic := image.topic_by_id(topic_id)) is not None]
        left = [(topic, epochs) for topic in known if (epochs := topic.left(broker_id))]
        if broker_id not in image.brokers or not left:
            return []
        return self._send(image, broker_id, [self._broadcast.leave_again(image, broker_id, left)])

    def send_close(self, image: ClusterImage, topics: tuple[Uuid, ...], number: int) -> list[SentMessage]:
        """Send every live broker a request to fence topics. The request overtakes queued messages. `number` identifies
        the fence."""
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
        """Lift the fence on the brokers that got the request to fence. Call this after the decision."""
        for broker_id in asked:
            broker = image.brokers.get(broker_id)
            if broker is not None:
                word = ReopenTopics(self._controller_id, image.controller_epoch, broker.epoch, topics, number)
                self._send(image, broker_id, [word])

    @property
    def number(self) -> int:
        """Number of the last change."""
        return self._number

    async def close(self) -> None:
        """Wait until each message has a response, or its channel has stopped trying."""
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
